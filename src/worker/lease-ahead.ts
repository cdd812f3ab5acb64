// How many jobs to lease before there is a slot for them: some when jobs are short, none otherwise.

/** Jobs whose median is under this are short, ms. */
const SHORT_MS = 20
/** How long a job that was leased ahead may be expected to wait for its slot, ms: well within the patience. */
const EXPECTED_WAIT_MS = 20
const REMEMBERED = 32
const ENOUGH = 8

export class LeaseAhead {
  readonly #concurrency: number
  readonly #recent: number[] = []
  #at = 0
  #count = 0

  constructor({ concurrency }: { concurrency: number }) {
    this.#concurrency = concurrency
  }

  /** How long a job may wait here for a slot before it is handed back, ms. */
  readonly patienceMs = 50

  get count(): number {
    return this.#count
  }

  note(executionMs: number): void {
    this.#recent[this.#at % REMEMBERED] = executionMs
    this.#at += 1
    // The median moves slowly, so it is enough to look now and then.
    if (this.#recent.length < ENOUGH || this.#at % ENOUGH !== 0) return
    const sorted = this.#recent.toSorted((a, b) => a - b)
    this.#count = this.#countFor(sorted[Math.floor(sorted.length / 2)] ?? SHORT_MS)
  }

  /** A job turned out long: begin to measure anew. */
  pause(): void {
    this.#recent.length = 0
    this.#at = 0
    this.#count = 0
  }

  // A request and its answer take about as long as a few of the shortest jobs; wide workers batch by themselves.
  #countFor(medianMs: number): number {
    if (medianMs >= SHORT_MS) return 0
    const most = Math.max(8, this.#concurrency)
    return Math.min(most, Math.ceil((EXPECTED_WAIT_MS / Math.max(1, medianMs)) * this.#concurrency))
  }
}
