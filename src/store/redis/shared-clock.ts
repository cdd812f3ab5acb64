// Wall time as Redis has it, so that servers whose clocks differ agree on when a lease lapses.

import type { Clock, Timer } from '../../lib/clock.ts'
import type { Connection } from './connection.ts'

const EVERY_MS = 60_000

export class SharedClock implements Clock {
  readonly #clock: Clock
  readonly #connection: Connection
  #aheadMs = 0
  #timer: Timer | undefined

  constructor(clock: Clock, connection: Connection) {
    this.#clock = clock
    this.#connection = connection
  }

  /** Asks Redis for its time, now and every minute. */
  async start(): Promise<void> {
    await this.#compare()
    this.#wait()
  }

  stop(): void {
    this.#timer?.clear()
  }

  /** How far Redis is ahead of this machine, ms. */
  get aheadMs(): number {
    return this.#aheadMs
  }

  now(): number {
    return this.#clock.now() + this.#aheadMs
  }

  monotonic(): number {
    return this.#clock.monotonic()
  }

  after(ms: number, callback: () => void, options?: { background?: boolean }): Timer {
    return this.#clock.after(ms, callback, options)
  }

  #wait(): void {
    const again = (): void => {
      // Without an answer the difference stays what it was.
      this.#compare().then(
        () => this.#wait(),
        () => this.#wait(),
      )
    }
    this.#timer = this.#clock.after(EVERY_MS, again, { background: true })
  }

  async #compare(): Promise<void> {
    const before = this.#clock.now()
    const [seconds, micros] = (await this.#connection.call('time')) as Buffer[]
    const after = this.#clock.now()
    const theirs = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
    this.#aheadMs = Math.round(theirs - (before + after) / 2)
  }
}
