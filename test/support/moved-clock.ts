// The clocks of this machine, moved by hand. Whether they or Redis' own have moved is the same to whoever compares them.

import { systemClock, type Clock } from '../../src/lib/clock.ts'

export class MovedClock implements Clock {
  aheadMs = 0
  /** The wall clock of this machine was set, and no other. */
  stepMs = 0
  /** It slept: its monotonic clock stood still. */
  sleptMs = 0
  /** What waits for a minute. */
  minute: (() => void) | undefined

  now(): number {
    return systemClock.now() + this.aheadMs + this.stepMs
  }

  monotonic(): number {
    return systemClock.monotonic() + this.aheadMs - this.sleptMs
  }

  after(...[ms, callback, options]: Parameters<Clock['after']>): ReturnType<Clock['after']> {
    if (ms === 60_000) this.minute = callback
    return systemClock.after(ms, callback, options)
  }
}
