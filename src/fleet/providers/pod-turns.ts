// One thing at a time for each pod; pods do not wait for each other.

export class PodTurns {
  readonly #last = new Map<string, Promise<void>>()

  /** Runs it when all that came before for this pod has ended, well or not. */
  take<T>(podId: string, run: () => Promise<T>): Promise<T> {
    const turn = (this.#last.get(podId) ?? Promise.resolve()).then(run)
    const done = turn.then(
      () => undefined,
      () => undefined,
    )
    this.#last.set(podId, done)
    void done.then(() => this.#last.get(podId) === done && this.#last.delete(podId))
    return turn
  }
}
