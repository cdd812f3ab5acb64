// Who failed lately, and how long nobody tries again.

import { backoffMs } from '../../lib/backoff.ts'
import type { Clock } from '../../lib/clock.ts'

const BASE_MS = 1_000
const MAX_MS = 60_000

interface Wait {
  failures: number
  /** On the monotonic clock. */
  until: number
}

/** Waits of 1 s that double up to a minute while failures follow each other, each jittered over its upper half. */
export class Waits {
  readonly #clock: Clock
  readonly #waits = new Map<string, Wait>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The wait after one more failure, ms; `isFirst` where those before it have nothing to do with it. */
  after(id: string, { isFirst = false } = {}): number {
    const failures = isFirst ? 1 : (this.#waits.get(id)?.failures ?? 0) + 1
    const wait = backoffMs(failures, { baseMs: BASE_MS, maxMs: MAX_MS })
    this.#waits.set(id, { failures, until: this.#clock.monotonic() + wait })
    return wait
  }

  isOn(id: string): boolean {
    return this.#clock.monotonic() < (this.#waits.get(id)?.until ?? -Infinity)
  }

  clear(id: string): void {
    this.#waits.delete(id)
  }
}
