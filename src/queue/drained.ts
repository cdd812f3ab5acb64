// The workers that get no more jobs by order of whoever started them, heard yet or not.

export class Drained {
  readonly #workers = new Map<string, Set<string>>()

  has(endpoint: string, worker: string): boolean {
    return this.#workers.get(endpoint)?.has(worker) ?? false
  }

  add(endpoint: string, worker: string): void {
    const workers = this.#workers.get(endpoint) ?? new Set()
    this.#workers.set(endpoint, workers.add(worker))
  }

  delete(endpoint: string, worker: string): void {
    const workers = this.#workers.get(endpoint)
    workers?.delete(worker)
    if (workers?.size === 0) this.#workers.delete(endpoint)
  }
}
