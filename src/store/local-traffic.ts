// What one server alone counts, for engines that only one server can open.

import { limits } from '../job/limits.ts'
import type { PresenceStore, RateAsk, RateCount, RateStore } from './traffic.ts'

/** The window is counted in so many steps; one more is counted than fit. */
const STEPS = 100
const STEP_MS = limits.rateWindowMs / STEPS

interface Bucket {
  /** Requests per step, a ring. */
  counts: Uint32Array
  sum: number
  newestStep: number
  underWay: number
}

export class LocalRates implements RateStore {
  /** Longest unused first. */
  readonly #buckets = new Map<string, Bucket>()

  async enter({ endpoint, bucket: name, limit, atATime, now }: RateAsk): Promise<RateCount> {
    const bucket = this.#bucketOf(`${endpoint}/${name}`, Math.floor(now / STEP_MS))
    const told = (state: RateCount['state']): RateCount => ({
      state,
      counted: bucket.sum,
      roomInMs: roomInMs(bucket),
    })
    if (bucket.sum >= limit) return told('too-many')
    if (atATime !== undefined && bucket.underWay >= atATime) return told('too-many-at-a-time')
    const at = bucket.newestStep % bucket.counts.length
    bucket.counts[at] = (bucket.counts[at] ?? 0) + 1
    bucket.sum += 1
    bucket.underWay += 1
    return { ...told('in'), ticket: '' }
  }

  async leave({ endpoint, bucket: name }: { endpoint: string; bucket: string }): Promise<void> {
    const bucket = this.#buckets.get(`${endpoint}/${name}`)
    if (bucket) bucket.underWay -= 1
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

/** Drops the steps that are out of the window by now. A clock that is set back stands still here. */
function slide(bucket: Bucket, step: number): void {
  const { counts } = bucket
  const passed = Math.min(step - bucket.newestStep, counts.length)
  for (let n = 1; n <= passed; n += 1) {
    const at = (bucket.newestStep + n) % counts.length
    bucket.sum -= counts[at] ?? 0
    counts[at] = 0
  }
  bucket.newestStep = Math.max(step, bucket.newestStep)
}

function roomInMs({ counts, newestStep }: Bucket): number {
  for (let n = 1; n <= counts.length; n += 1) {
    if ((counts[(newestStep + n) % counts.length] ?? 0) > 0) return n * STEP_MS
  }
  return 0
}

/** There is nobody to tell, and nobody else has heard any. */
export const noOthers: PresenceStore = {
  tell: async () => undefined,
  list: async () => [],
}
