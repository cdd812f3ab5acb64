// What happened so far, and waiting for what has yet to happen.

const PATIENCE_MS = 10_000

export class Facts<T> {
  readonly all: T[] = []
  readonly #watchers = new Set<() => void>()

  add(fact: T): void {
    this.all.push(fact)
    for (const look of this.#watchers) look()
  }

  /** Resolves with the first fact that matches, be it in the past or to come; fails after ten seconds. */
  first(matches: (fact: T) => boolean): Promise<T> {
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        clearTimeout(patience)
        this.#watchers.delete(look)
      }
      const look = (): void => {
        const found = this.all.find(matches)
        if (found === undefined) return
        stop()
        resolve(found)
      }
      const patience = setTimeout(() => {
        stop()
        reject(new Error(`It did not happen within ${PATIENCE_MS} ms. What did: ${JSON.stringify(this.all)}`))
      }, PATIENCE_MS)
      this.#watchers.add(look)
      look()
    })
  }
}
