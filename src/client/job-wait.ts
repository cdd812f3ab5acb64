// Waiting for a job's end: held by the queue where it can be, looked for again and again where not.

import { isEnded } from '../job/lifecycle.ts'
import { backoffMs } from '../lib/backoff.ts'
import { JobNotEndedError } from './client-errors.ts'
import { QueueRefusedError } from './http.ts'
import { readRecord, type JobRecord, type ReadRecord } from './job-record.ts'
import { TimeUpError, type Ask, type RepeatedRequests } from './repeated-request.ts'

/** One answer is held for so long at most: longer ones are cut off on the way by many a proxy. */
const HOLD_MS = 30_000
/** What the queue takes. */
const LEAST_HOLD_MS = 1_000
const MARGIN_MS = 15_000
const REQUEST_MS = 30_000
/** An answer that came sooner was not held. */
const HELD_MS = 900
const POLL_BACKOFF = { baseMs: 250, maxMs: 5_000 }

export interface Until {
  /** On the monotonic clock, ms. */
  until: number
  signal?: AbortSignal | undefined
}

export class JobWait {
  readonly #requests: RepeatedRequests
  /** Nothing has been asked yet, or the hosted platform was found not to hold. */
  #hasStatusSync = true

  constructor(requests: RepeatedRequests) {
    this.#requests = requests
  }

  status(id: string, signal?: AbortSignal): Promise<ReadRecord> {
    return this.#look(id, { signal })
  }

  /**
   * The record once the job has ended. Throws JobNotEndedError when the time is up before; QueueUnreachableError where
   * nothing was seen until then, or the tries are used up.
   */
  async end(id: string, options: Until): Promise<JobRecord> {
    const seen: { record?: JobRecord } = {}
    try {
      return await this.#end(id, options, seen)
    } catch (cause) {
      if (cause instanceof TimeUpError && seen.record) throw new JobNotEndedError(seen.record, { cause })
      throw cause
    }
  }

  async #end(id: string, { until, signal }: Until, seen: { record?: JobRecord }): Promise<JobRecord> {
    const { clock } = this.#requests
    const bounds = { until, signal }
    for (let fruitless = 0; ;) {
      const { record, isHosted } = await this.#look(id, bounds)
      if (isEnded(record.status)) return record
      seen.record = record
      const leftMs = until - clock.monotonic()
      if (leftMs <= 0) throw new JobNotEndedError(record)
      const askedAt = clock.monotonic()
      if (leftMs >= LEAST_HOLD_MS) await this.#hold(id, isHosted, bounds)
      const tookMs = clock.monotonic() - askedAt
      fruitless = tookMs >= HELD_MS ? 0 : fruitless + 1
      // The first look after an answer that was not held is at once: the job may just have ended.
      if (fruitless < 2 && leftMs >= LEAST_HOLD_MS) continue
      const pauseMs = Math.min(backoffMs(Math.max(1, fruitless - 1), POLL_BACKOFF), leftMs)
      await this.#requests.pause(pauseMs, signal)
    }
  }

  /** Resolves when the job has ended, or sooner. */
  async #hold(id: string, isHosted: boolean, bounds: Until): Promise<void> {
    const job = encodeURIComponent(id)
    const timeoutMs = HOLD_MS + MARGIN_MS
    if (!isHosted) {
      // There are no chunks beyond that index: the answer is held until the job's end.
      const path = `/stream/${job}?after=${Number.MAX_SAFE_INTEGER}&wait=`
      return this.#requests.ask({ ...get(path, timeoutMs, bounds), read: () => undefined })
    }
    if (!this.#hasStatusSync) return
    try {
      await this.#requests.ask({
        ...get(`/status-sync/${job}?wait=`, timeoutMs, bounds),
        read: readRecord,
      })
    } catch (cause) {
      // It is not among what is written down. If it is the job that is missing, the next look says so.
      if (!(cause instanceof QueueRefusedError) || cause.status !== 404) throw cause
      this.#hasStatusSync = false
    }
  }

  #look(id: string, bounds: Partial<Until>): Promise<ReadRecord> {
    const path = `/status/${encodeURIComponent(id)}`
    return this.#requests.ask({ method: 'GET', path, timeoutMs: REQUEST_MS, ...bounds, read: readRecord })
  }
}

type Get = Pick<Ask<unknown>, 'method' | 'path' | 'timeoutMs' | 'until' | 'signal'>

/** An answer that is held while there is time. */
function get(path: string, timeoutMs: number, bounds: Until): Get {
  const holdMs = (leftMs: number): number => Math.floor(Math.max(LEAST_HOLD_MS, Math.min(leftMs, HOLD_MS)))
  return { method: 'GET', path: (leftMs) => `${path}${holdMs(leftMs)}`, timeoutMs, ...bounds }
}
