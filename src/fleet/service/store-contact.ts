// For how long this service has been able to ask the store, without a gap: what it has not heard of before, nobody could tell it.

import type { Clock } from '../../lib/clock.ts'

/** The store is asked each second; what is further apart than this is a gap, ms. */
const GAP_MS = 5_000
/** The store's clock was set, or another one with another clock has taken over: what was said until when says nothing now, ms. */
const STEP_MS = 1_000

export class StoreContact {
  readonly #clock: Pick<Clock, 'now' | 'monotonic'>
  #since: number | undefined
  #latest = -Infinity
  #offset = 0

  constructor(clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.#clock = clock
  }

  /** The store has answered just now. */
  answered(): void {
    const now = this.#clock.monotonic()
    if (!this.#lasts(now)) this.#since = now
    this.#latest = now
    this.#offset = this.#clock.now() - now
  }

  /** ms until now; 0 where the store was not there a moment ago. */
  get lastedMs(): number {
    const now = this.#clock.monotonic()
    return this.#since !== undefined && this.#lasts(now) ? now - this.#since : 0
  }

  #lasts(now: number): boolean {
    const hasStepped = Math.abs(this.#clock.now() - now - this.#offset) > STEP_MS
    return now - this.#latest <= GAP_MS && !hasStepped
  }
}
