// A clock that moves only when told to.

import type { Clock, Timer } from '../../src/lib/clock.ts'

export class FakeClock implements Clock {
  #now: number
  readonly #timers = new Set<{ at: number; callback: () => void }>()

  constructor(now = 1_750_000_000_000) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  monotonic(): number {
    return this.#now
  }

  after(ms: number, callback: () => void): Timer {
    const timer = { at: this.#now + Math.max(0, ms), callback }
    this.#timers.add(timer)
    return { clear: () => void this.#timers.delete(timer) }
  }

  /** Timers that have not fired: a test may end with none. */
  get pending(): number {
    return this.#timers.size
  }

  /** Moves on by `ms`, firing what is due in order. */
  advance(ms: number): void {
    const until = this.#now + ms
    for (;;) {
      const next = [...this.#timers].filter(({ at }) => at <= until).toSorted((a, b) => a.at - b.at)[0]
      if (!next) break
      this.#timers.delete(next)
      this.#now = next.at
      next.callback()
    }
    this.#now = until
  }
}
