// How many jobs to lease before there is a slot for them: some when jobs are short, none otherwise.

/** Jobs whose median is under this are short, ms. */
const SHORT_MS = 20
/** How long a job that was leased ahead may be expected to wait for its slot, ms: well within the patience. */
const EXPECTED_WAIT_MS = 20
const REMEMBERED = 32
const ENOUGH = 8

export class LeaseAhead {
  readonly #recent: number[] = []
  #at = 0
  #medianMs: number | undefined

  /** How long a job may wait here for a slot before it is handed back, ms. */
  readonly patienceMs = 50

  /** How many to lease beyond the slots of this concurrency. */
  countFor(concurrency: number): number {
    // A request and its answer take about as long as a few of the shortest jobs; wide workers batch by themselves.
    if (this.#medianMs === undefined || this.#medianMs >= SHORT_MS) return 0
    const most = Math.max(8, concurrency)
    return Math.min(most, Math.ceil((EXPECTED_WAIT_MS / Math.max(1, this.#medianMs)) * concurrency))
  }

  note(executionMs: number): void {
    this.#recent[this.#at % REMEMBERED] = executionMs
    this.#at += 1
    // The median moves slowly, so it is enough to look now and then.
    if (this.#recent.length < ENOUGH || this.#at % ENOUGH !== 0) return
    const sorted = this.#recent.toSorted((a, b) => a - b)
    this.#medianMs = sorted[Math.floor(sorted.length / 2)]
  }

  /** A job turned out long: begin to measure anew. */
  pause(): void {
    this.#recent.length = 0
    this.#at = 0
    this.#medianMs = undefined
  }
}
