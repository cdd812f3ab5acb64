// Tells the hosted platform again and again which jobs this worker holds.

import { backoffMs } from '../lib/backoff.ts'
import { pause, type Clock } from '../lib/clock.ts'
import type { HostedWire } from './hosted-wire.ts'
import { QueueUnreachableError } from './http.ts'

export interface HeartbeatOptions {
  wire: HostedWire
  clock: Clock
  intervalMs: number
  /** Ids of the jobs that are held. */
  held: () => readonly string[]
  onAnswer: () => void
  onTrouble: (cause: QueueUnreachableError) => void
  onWarning: (message: string) => void
}

/** Work begins after the first ping, or after so long without its answer. */
const FIRST_MS = 1_000
const LEAST_TIMEOUT_MS = 1_000
const RETRY_BASE_MS = 500
/** About as many as the platform waits for before it gives the jobs to another worker. */
const WORTH_A_WORD = 3

export class Heartbeat {
  readonly #options: HeartbeatOptions
  readonly #abort = new AbortController()

  constructor(options: HeartbeatOptions) {
    this.#options = options
  }

  /** Pings at once and from then on. Resolves once the first ping was answered, or does not seem to be. */
  start(): Promise<void> {
    const first = Promise.withResolvers<void>()
    void this.#beat(first.resolve)
    const patience = this.#options.clock.after(FIRST_MS, first.resolve)
    return first.promise.finally(() => patience.clear())
  }

  close(): void {
    this.#abort.abort()
  }

  async #beat(onFirst: () => void): Promise<void> {
    const { clock, intervalMs, onWarning } = this.#options
    const { signal } = this.#abort
    let failures = 0
    while (!signal.aborted) {
      const startedAt = clock.monotonic()
      const problem = await this.#ping()
      onFirst()
      failures = problem === undefined ? 0 : failures + 1
      if (failures === WORTH_A_WORD) {
        onWarning(
          `The platform has not taken ${failures} pings in a row (${problem}); it may give this worker's jobs to another.`,
        )
      }
      // One that failed is repeated sooner: the platform counts those that it missed.
      const waitMs =
        failures === 0
          ? intervalMs - (clock.monotonic() - startedAt)
          : Math.min(intervalMs, backoffMs(failures, { baseMs: RETRY_BASE_MS, maxMs: intervalMs }))
      await pause(clock, waitMs, signal)
    }
  }

  /** What went wrong, if anything. */
  async #ping(): Promise<string | undefined> {
    const { wire, held, intervalMs, onAnswer, onTrouble } = this.#options
    const { signal } = this.#abort
    const timeoutMs = Math.max(LEAST_TIMEOUT_MS, 2 * intervalMs)
    try {
      const { status } = await wire.ping(held(), { timeoutMs, signal })
      if (status < 500) onAnswer()
      return status < 400 ? undefined : `HTTP ${status}`
    } catch (cause) {
      if (signal.aborted) return undefined
      if (!(cause instanceof QueueUnreachableError)) throw cause
      onTrouble(cause)
      return cause.message.replace(/\.$/, '')
    }
  }
}
