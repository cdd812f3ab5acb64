// Wall time as Redis has it, so that servers whose clocks differ agree on when a lease lapses. Between two looks at it this
// machine's monotonic clock goes on from there: its wall clock may be set at any moment.

import type { Clock, Timer } from '../../lib/clock.ts'
import type { Connection } from './connection.ts'
import { FLEET } from './fleet.ts'
import { plainScript } from './script.ts'

const EVERY_MS = 60_000
/** Until it is asked again when it did not answer. */
const RETRY_MS = 1_000
/** The two clocks of this machine are not this far apart unless one of them was set, or stood still. */
const STEP_MS = 500
/** An answer that took no longer is as good as at once. */
const SHORT_MS = 100

type Asked = Pick<Connection, 'run' | 'onReady'>

/** Of a cluster it is that of one node, always the same: they differ. */
const time = plainScript('time', `return redis.call('TIME')`)

export class SharedClock implements Clock {
  readonly #clock: Clock
  readonly #connection: Asked
  /** At the same moment, as far as that can be told: Redis' time and the two of this machine. */
  #anchor: { theirs: number; wall: number; monotonic: number }
  /** Under way, or to be tried again soon. */
  #isComparing = false
  #timer: Timer | undefined
  #isStopped = false

  constructor(clock: Clock, connection: Asked) {
    this.#clock = clock
    this.#connection = connection
    this.#anchor = { theirs: clock.now(), wall: clock.now(), monotonic: clock.monotonic() }
  }

  /** Asks Redis for its time, now and every minute, and on each new connection: another server may answer there. */
  async start(): Promise<void> {
    await this.#compare()
    this.#wait(EVERY_MS)
    this.#connection.onReady(() => this.#again())
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.clear()
  }

  now(): number {
    const { theirs, wall, monotonic } = this.#anchor
    const passed = this.#clock.monotonic() - monotonic
    // A machine that slept has a monotonic clock that stood still, and one whose wall clock was set has it right.
    if (Math.abs(this.#clock.now() - wall - passed) > STEP_MS) this.look()
    return Math.round(theirs + passed)
  }

  monotonic(): number {
    return this.#clock.monotonic()
  }

  after(ms: number, callback: () => void, options?: { background?: boolean }): Timer {
    return this.#clock.after(ms, callback, options)
  }

  /** It may be wrong: Redis is asked now, unless that is under way. */
  readonly look = (): void => {
    if (!this.#isComparing) this.#again()
  }

  #wait(ms: number): void {
    this.#timer?.clear()
    if (!this.#isStopped) this.#timer = this.#clock.after(ms, () => this.#again(), { background: true })
  }

  #again(): void {
    if (this.#isStopped) return
    // Without an answer it stays what it was.
    this.#isComparing = true
    this.#compare().then(
      () => this.#compared(),
      () => this.#wait(RETRY_MS),
    )
  }

  #compared(): void {
    this.#isComparing = false
    this.#wait(EVERY_MS)
  }

  async #compare(): Promise<void> {
    const before = this.#clock.monotonic()
    const [seconds, micros] = (await this.#connection.run(time, FLEET, [])) as Buffer[]
    const monotonic = this.#clock.monotonic()
    const told = Number(seconds) * 1000 + Number(micros) / 1000
    const tookMs = monotonic - before
    const ours = (at: number): number => this.#anchor.theirs + at - this.#anchor.monotonic
    // Told at any moment of a long wait: a time that agrees with it, as far as that says, is the better one.
    const agrees = tookMs > SHORT_MS && ours(before) <= told && told <= ours(monotonic)
    const theirs = agrees ? ours(monotonic) : told + tookMs / 2
    this.#anchor = { theirs, wall: this.#clock.now(), monotonic }
  }
}
