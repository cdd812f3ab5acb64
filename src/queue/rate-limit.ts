// How often a key may ask: the rate of each operation, and what workers add to it. The store counts.

import { rateLimits, type RatedOperation } from '../job/limits.ts'
import type { Clock } from '../lib/clock.ts'
import type { RateStore } from '../store/traffic.ts'

export interface RateAsk {
  operation: RatedOperation
  key: string
  endpoint: string
  runningWorkers: number
}

export interface RateState {
  limit: number
  /** How many more may come before the oldest counted one is over. */
  remaining: number
  /** Until one that was counted no longer is, whole seconds. */
  resetSeconds: number
}

export type RateAnswer =
  | ({ kind: 'pass'; leave: () => void } & RateState)
  | ({ kind: 'refused'; per: 'in 10 s' | 'at a time'; most: number; retrySeconds: number } & RateState)

export interface RateLimitOptions {
  rates: RateStore
  clock: Clock
  requestsPerWorker: number
  onError: (cause: unknown) => void
}

export class RateLimit {
  readonly #options: RateLimitOptions

  constructor(options: RateLimitOptions) {
    this.#options = options
  }

  /** Counts a request, or refuses it uncounted. Whoever is let in says when it leaves. */
  async enter({ operation, key, endpoint, runningWorkers }: RateAsk): Promise<RateAnswer> {
    const { rates, clock, requestsPerWorker, onError } = this.#options
    const base = rateLimits[operation]
    const dynamic = runningWorkers * requestsPerWorker
    const limit = Math.max(base.requests, dynamic)
    const atATime = base.concurrent === undefined ? undefined : Math.max(base.concurrent, dynamic)
    const bucket = `${key}/${operation}`
    const {
      state,
      counted,
      roomInMs,
      ticket = '',
    } = await rates.enter({
      endpoint,
      bucket,
      limit,
      now: clock.now(),
      ...(atATime !== undefined && { atATime }),
    })
    const told = { limit, remaining: Math.max(0, limit - counted), resetSeconds: Math.ceil(roomInMs / 1000) }
    if (state === 'too-many')
      return { kind: 'refused', per: 'in 10 s', most: limit, retrySeconds: told.resetSeconds, ...told }
    if (state === 'too-many-at-a-time')
      return { kind: 'refused', per: 'at a time', most: atATime ?? 0, retrySeconds: 1, ...told }
    return {
      kind: 'pass',
      ...told,
      leave: () => void rates.leave({ endpoint, bucket, ticket }).catch(onError),
    }
  }
}
