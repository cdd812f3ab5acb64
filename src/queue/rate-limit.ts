// How often a key may ask: a window that slides in small steps, and a count of what is under way.

import { limits, rateLimits, type RatedOperation } from '../job/limits.ts'
import type { Clock } from '../lib/clock.ts'

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

/** The window is counted in so many steps; one more is counted than fit, so that no 10 seconds ever see too many. */
const STEPS = 100
const STEP_MS = limits.rateWindowMs / STEPS

interface Bucket {
  /** Requests per step, a ring. */
  counts: Uint32Array
  sum: number
  newestStep: number
  underWay: number
}

export class RateLimit {
  readonly #clock: Clock
  readonly #requestsPerWorker: number
  /** Longest unused first. */
  readonly #buckets = new Map<string, Bucket>()

  constructor({ clock, requestsPerWorker }: { clock: Clock; requestsPerWorker: number }) {
    this.#clock = clock
    this.#requestsPerWorker = requestsPerWorker
  }

  /** Counts a request, or refuses it uncounted. Whoever is let in says when it leaves. */
  enter({ operation, key, endpoint, runningWorkers }: RateAsk): RateAnswer {
    const base = rateLimits[operation]
    const dynamic = runningWorkers * this.#requestsPerWorker
    const step = Math.floor(this.#clock.monotonic() / STEP_MS)
    const bucket = this.#bucketOf(`${key}/${endpoint}/${operation}`, step)
    const limit = Math.max(base.requests, dynamic)
    if (bucket.sum >= limit) {
      const resetSeconds = secondsUntilRoom(bucket)
      const state = { limit, remaining: 0, resetSeconds }
      return { kind: 'refused', per: 'in 10 s', most: limit, retrySeconds: resetSeconds, ...state }
    }
    const atATime =
      base.concurrent === undefined ? Number.POSITIVE_INFINITY : Math.max(base.concurrent, dynamic)
    if (bucket.underWay >= atATime) {
      const state = { limit, remaining: limit - bucket.sum, resetSeconds: secondsUntilRoom(bucket) }
      return { kind: 'refused', per: 'at a time', most: atATime, retrySeconds: 1, ...state }
    }
    const at = step % bucket.counts.length
    bucket.counts[at] = (bucket.counts[at] ?? 0) + 1
    bucket.sum += 1
    bucket.underWay += 1
    return {
      kind: 'pass',
      limit,
      remaining: limit - bucket.sum,
      resetSeconds: secondsUntilRoom(bucket),
      leave: () => (bucket.underWay -= 1),
    }
  }

  #bucketOf(name: string, step: number): Bucket {
    const bucket = this.#buckets.get(name) ?? {
      counts: new Uint32Array(STEPS + 1),
      sum: 0,
      newestStep: step,
      underWay: 0,
    }
    this.#buckets.delete(name)
    this.#buckets.set(name, bucket)
    slide(bucket, step)
    for (const [other, { newestStep, underWay }] of this.#buckets) {
      if (step - newestStep <= STEPS || underWay > 0) break
      this.#buckets.delete(other)
    }
    return bucket
  }
}

/** Drops the steps that are out of the window by now. */
function slide(bucket: Bucket, step: number): void {
  const { counts } = bucket
  const passed = Math.min(step - bucket.newestStep, counts.length)
  for (let n = 1; n <= passed; n += 1) {
    const at = (bucket.newestStep + n) % counts.length
    bucket.sum -= counts[at] ?? 0
    counts[at] = 0
  }
  bucket.newestStep = step
}

function secondsUntilRoom({ counts, newestStep }: Bucket): number {
  for (let n = 1; n <= counts.length; n += 1) {
    if ((counts[(newestStep + n) % counts.length] ?? 0) > 0) return Math.ceil((n * STEP_MS) / 1000)
  }
  return 0
}
