// How many jobs to lease before there is a slot for them: some when jobs are short, none otherwise.

/** Jobs whose median is under this are short, ms. */
const SHORT_MS = 20
const REMEMBERED = 32
const ENOUGH = 8

export class LeaseAhead {
  readonly #most: number
  readonly #recent: number[] = []
  #at = 0
  #isShort = false

  constructor({ concurrency }: { concurrency: number }) {
    // A request and its answer take about as long as a few short jobs; wide workers batch by themselves.
    this.#most = Math.max(4, concurrency)
  }

  /** How long a job may wait here for a slot before it is handed back, ms. */
  readonly patienceMs = 50

  get count(): number {
    return this.#isShort ? this.#most : 0
  }

  note(executionMs: number): void {
    this.#recent[this.#at % REMEMBERED] = executionMs
    this.#at += 1
    // The median moves slowly, so it is enough to look now and then.
    if (this.#recent.length < ENOUGH || this.#at % ENOUGH !== 0) return
    const sorted = this.#recent.toSorted((a, b) => a - b)
    this.#isShort = (sorted[Math.floor(sorted.length / 2)] ?? SHORT_MS) < SHORT_MS
  }

  /** A job turned out long: begin to measure anew. */
  pause(): void {
    this.#recent.length = 0
    this.#at = 0
    this.#isShort = false
  }
}
