// Listens to the hosted platform's orders to stop jobs: a long poll of its own.

import { z } from 'zod'
import { backoffMs } from '../lib/backoff.ts'
import { pause, type Clock } from '../lib/clock.ts'
import { TAKE_MS, type HostedAnswer, type HostedWire } from './hosted-wire.ts'
import { QueueUnreachableError, retryAfterMsOf } from './http.ts'

export interface StopListenerOptions {
  wire: HostedWire
  clock: Clock
  /** Answers how many of them were jobs of this worker. */
  onStops: (ids: readonly string[]) => number
}

/** An answer after so long was held: the next poll may follow at once. */
const HELD_MS = 1_000
const BACKOFF = { baseMs: 1_000, maxMs: 5_000 }
const THROTTLED_MS = 5_000

/** What is no text among the ids is dropped. */
const ordersSchema = z.object({ jobsToStop: z.array(z.unknown()) })

export class StopListener {
  readonly #options: StopListenerOptions
  readonly #abort = new AbortController()

  constructor(options: StopListenerOptions) {
    this.#options = options
  }

  start(): void {
    void this.#listen()
  }

  close(): void {
    this.#abort.abort()
  }

  async #listen(): Promise<void> {
    const { clock, onStops } = this.#options
    const { signal } = this.#abort
    let failures = 0
    while (!signal.aborted) {
      const startedAt = clock.monotonic()
      const answer = await this.#poll()
      if (signal.aborted) return
      const isServed = answer !== undefined && answer.status < 400
      failures = isServed ? 0 : failures + 1
      const stopped = isServed ? onStops(readOrders(answer)) : 0
      const wasHeld = isServed && clock.monotonic() - startedAt >= HELD_MS
      if (stopped > 0 || wasHeld) continue
      const askedMs = answer && (retryAfterMsOf(answer) ?? (answer.status === 429 ? THROTTLED_MS : 0))
      await pause(clock, Math.max(askedMs ?? 0, backoffMs(Math.max(1, failures), BACKOFF)), signal)
    }
  }

  /** Undefined when no answer came. */
  async #poll(): Promise<HostedAnswer | undefined> {
    const { wire, clock } = this.#options
    const round = new AbortController()
    const limit = clock.after(TAKE_MS, () => round.abort())
    try {
      return await wire.stops(AbortSignal.any([round.signal, this.#abort.signal]))
    } catch (cause) {
      if (!round.signal.aborted && !this.#abort.signal.aborted && !(cause instanceof QueueUnreachableError))
        throw cause
      // The take beside it tells that the platform cannot be reached.
      return undefined
    } finally {
      limit.clear()
    }
  }
}

function readOrders({ status, body }: HostedAnswer): string[] {
  if (status !== 200) return []
  try {
    const orders = ordersSchema.safeParse(JSON.parse(body.toString('utf8')))
    return orders.success ? orders.data.jobsToStop.filter((id) => typeof id === 'string') : []
  } catch {
    // A proxy's page is no order.
    return []
  }
}
