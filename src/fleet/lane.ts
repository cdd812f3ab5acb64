// Work that is done one at a time: whoever asks while it is under way has it done once more after that.

import type { Clock, Timer } from '../lib/clock.ts'

export interface LaneOptions {
  clock: Clock
  /** Between the beginnings of two rounds, ms: many who ask in a row are served together. */
  gapMs: number
  work: () => Promise<void>
  onError: (cause: unknown) => void
}

export class Lane {
  readonly #options: LaneOptions
  #underWay: Promise<void> | undefined
  #waiting: Timer | undefined
  #isAsked = false
  #isClosed = false
  #beganAt = -Infinity

  constructor(options: LaneOptions) {
    this.#options = options
  }

  /** The work is begun after this, at once where nothing is under way and the last round is long enough ago. */
  ask(): void {
    if (this.#isClosed || this.#waiting) return
    if (this.#underWay) {
      this.#isAsked = true
      return
    }
    const { clock, gapMs } = this.#options
    const waitMs = this.#beganAt + gapMs - clock.monotonic()
    if (waitMs <= 0) return this.#begin()
    this.#waiting = clock.after(waitMs, () => this.#begin(), { background: true })
  }

  /** Begins nothing more. */
  stop(): void {
    this.#isClosed = true
    this.#waiting?.clear()
    this.#waiting = undefined
  }

  /** Stops, and resolves once what is under way is over. Not to be called by the work itself. */
  async close(): Promise<void> {
    this.stop()
    await this.#underWay
  }

  #begin(): void {
    this.#waiting = undefined
    this.#isAsked = false
    this.#beganAt = this.#options.clock.monotonic()
    this.#underWay = this.#round()
  }

  /** Never rejects. */
  async #round(): Promise<void> {
    try {
      await this.#options.work()
    } catch (cause) {
      this.#options.onError(cause)
    }
    this.#underWay = undefined
    if (this.#isAsked) this.ask()
  }
}
