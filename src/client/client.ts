// The typed client: submit, wait, stream, look, cancel, retry, purge, health.

import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import type { Chunk } from '../job/chunk.ts'
import { isEnded } from '../job/lifecycle.ts'
import { limits } from '../job/limits.ts'
import { systemClock, type Clock } from '../lib/clock.ts'
import { submittedSchema, type HealthBody, type Submitted } from '../protocol/endpoint-api.ts'
import { checkId, checkIdempotencyKey, checkOptions, checkWaitMs } from './client-checks.ts'
import { JobNotEndedError, UnexpectedAnswerError } from './client-errors.ts'
import { QueueRefusedError, QueueUnreachableError } from './http.ts'
import { readRecord, type JobRecord } from './job-record.ts'
import { streamChunks, streamValues, type StreamOptions } from './job-stream.ts'
import { JobWait } from './job-wait.ts'
import { RepeatedRequests, type Ask } from './repeated-request.ts'

export {
  ClientClosedError,
  JobFailedError,
  JobNotEndedError,
  StreamBrokenError,
  UnexpectedAnswerError,
} from './client-errors.ts'
export { QueueRefusedError, QueueUnreachableError } from './http.ts'
export { outputOf } from './job-output.ts'
export type { JobRecord } from './job-record.ts'
export type { StreamOptions } from './job-stream.ts'
export type { Chunk } from '../job/chunk.ts'
export type { JobStatus } from '../job/lifecycle.ts'
export type { HealthBody, Submitted } from '../protocol/endpoint-api.ts'

export interface ClientOptions {
  /** `http(s)://host:port/v2/{endpointId}`, of this service or of the hosted platform. */
  endpointUrl: string
  apiKey: string
  /** Tries in all of one request that cannot be answered; 5 by default. */
  attempts?: number | undefined
  /** The system's by default. */
  clock?: Clock | undefined
}

export interface NewSubmission<Input extends object = Record<string, unknown>> {
  input: Input
  /** Is sent the record when the job has ended. */
  webhook?: string | undefined
  /** Times are ms. */
  policy?:
    | {
        executionTimeout?: number | undefined
        lowPriority?: boolean | undefined
        ttl?: number | undefined
      }
    | undefined
  s3Config?:
    | {
        accessId: string
        accessSecret: string
        bucketName: string
        endpointUrl: string
        objectPath?: string | undefined
        region?: string | undefined
      }
    | undefined
}

export interface RequestOptions {
  /** An abort rejects with its reason; what the service has begun goes on. */
  signal?: AbortSignal | undefined
}

export interface SubmitOptions extends RequestOptions {
  /** The same key makes one job, however often it is sent: give one to be safe over restarts of this process. */
  idempotencyKey?: string | undefined
}

export interface WaitOptions extends RequestOptions {
  /** How long at most, ms; an answer that is on its way by then is waited for one second more. */
  waitMs?: number | undefined
}

const REQUEST_MS = 30_000
/** A long answer is held this much longer than it was asked to be held. */
const MARGIN_MS = 15_000
/** The answer of runsync is held for so long at most, as by default: some proxies cut off longer ones. */
const RUNSYNC_MS = limits.waitMs.default
const RUNSYNC_LEAST_MS = limits.waitMs.min
const WAIT_MS = 600_000

/**
 * Speaks to one endpoint, of this service or of the hosted platform. Requests that cannot be answered (network, 5xx, 429,
 * 408) are repeated with jittered backoff, as workers do; submissions carry an Idempotency-Key, so that a repeated one
 * makes one job. Throws QueueRefusedError for what the service refuses, QueueUnreachableError when the tries are used up
 * and UnexpectedAnswerError where there is no queue. `Input` is what the handler takes, `Output` what it makes and `Value`
 * what it yields: the types are taken at their word, not checked.
 */
export class Client<Input extends object = Record<string, unknown>, Output = unknown, Value = unknown> {
  readonly #requests: RepeatedRequests
  readonly #wait: JobWait

  /** Throws a TypeError for options that no queue can be reached with, as each call rejects with one. */
  constructor({ endpointUrl, apiKey, attempts = 5, clock = systemClock }: ClientOptions) {
    checkOptions({ endpointUrl, apiKey, attempts })
    this.#requests = new RepeatedRequests({ endpointUrl, apiKey, attempts, clock })
    this.#wait = new JobWait(this.#requests)
  }

  /** Resolves once the queue has the job. */
  async run(submission: NewSubmission<Input>, options: SubmitOptions = {}): Promise<Submitted> {
    return this.#requests.ask({ ...submit('/run', submission, REQUEST_MS, options), read: readSubmitted })
  }

  /**
   * Submits, and resolves with the record once the job has ended, or as it was last seen after `waitMs` (90,000 by
   * default). Inputs of up to 20 MB; `run` takes 10.
   */
  async runsync(
    submission: NewSubmission<Input>,
    { waitMs = RUNSYNC_MS, ...options }: WaitOptions & SubmitOptions = {},
  ): Promise<JobRecord<Output>> {
    checkWaitMs(waitMs)
    const until = this.#requests.clock.monotonic() + waitMs
    const path = (leftMs: number): string =>
      `/runsync?wait=${Math.floor(Math.max(RUNSYNC_LEAST_MS, Math.min(RUNSYNC_MS, leftMs)))}`
    const request = submit(path, submission, RUNSYNC_MS + MARGIN_MS, options)
    const heldUntil = Math.max(until, this.#requests.clock.monotonic() + RUNSYNC_LEAST_MS)
    const { record } = await this.#requests.ask({ ...request, until: heldUntil, read: readRecord })
    if (isEnded(record.status) || this.#requests.clock.monotonic() >= until)
      return record as JobRecord<Output>
    return this.#goOnWaiting(record, until, options.signal)
  }

  /**
   * The record once the job has ended, however it ended; `outputOf` has the output or throws. Throws JobNotEndedError
   * after `waitMs`, 600,000 by default.
   */
  async wait(id: string, { waitMs = WAIT_MS, signal }: WaitOptions = {}): Promise<JobRecord<Output>> {
    checkId(id)
    checkWaitMs(waitMs)
    const until = this.#requests.clock.monotonic() + waitMs
    return (await this.#wait.end(id, { until, signal })) as JobRecord<Output>
  }

  async status(id: string, { signal }: RequestOptions = {}): Promise<JobRecord<Output>> {
    checkId(id)
    const { record } = await this.#wait.status(id, signal)
    return record as JobRecord<Output>
  }

  /**
   * Every chunk of the job, from the first or after an index, as they come, each once; ends when the job has. Connections
   * that break are made again. When a worker is lost and another attempt begins, its chunks follow with a higher `attempt`.
   * From the hosted platform, which hands out each chunk once, throws StreamBrokenError where one may be missing.
   */
  stream(id: string, options: StreamOptions = {}): AsyncGenerator<Chunk> {
    return streamChunks(this.#requests, id, options)
  }

  /** The values that the handler yielded, each whole, however many chunks it took. */
  values(id: string, options: StreamOptions = {}): AsyncGenerator<Value> {
    return streamValues(this.stream(id, options)) as AsyncGenerator<Value>
  }

  /** Answers the status that the job then has: one that had ended before keeps its own. */
  async cancel(id: string, options: RequestOptions = {}): Promise<Submitted> {
    checkId(id)
    return this.#requests.ask({ ...post(`/cancel/${encodeURIComponent(id)}`, options), read: readSubmitted })
  }

  /** Queues a job again that is FAILED or TIMED_OUT. */
  async retry(id: string, options: RequestOptions = {}): Promise<Submitted> {
    checkId(id)
    let isRepeated = false
    const onTrouble = (cause: QueueUnreachableError): void => {
      isRepeated ||= cause.mayHaveArrived
    }
    try {
      const request = post(`/retry/${encodeURIComponent(id)}`, options)
      return await this.#requests.ask({ ...request, read: readSubmitted, onTrouble })
    } catch (cause) {
      if (!isRepeated || !(cause instanceof QueueRefusedError)) throw cause
      // The answer of an earlier try may be what got lost: then the job waits or runs by now.
      const { status } = await this.status(id, options)
      if (isEnded(status)) throw cause
      return { id, status }
    }
  }

  /** Cancels all jobs that wait; answers how many. Those of a try whose answer got lost are not counted. */
  async purgeQueue(options: RequestOptions = {}): Promise<number> {
    const { removed } = await this.#requests.ask({
      ...post('/purge-queue', options),
      read: (document) => purgedSchema.parse(document),
    })
    return removed
  }

  health({ signal }: RequestOptions = {}): Promise<HealthBody> {
    return this.#requests.ask({
      method: 'GET',
      path: '/health',
      timeoutMs: REQUEST_MS,
      read: (document) => healthSchema.parse(document),
      signal,
    })
  }

  /** Ends its connections; what is under way, and every call from now on, rejects with ClientClosedError. */
  close(): Promise<void> {
    return this.#requests.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** The id must not get lost: whatever keeps this from waiting, the job is there. */
  async #goOnWaiting(
    seen: JobRecord,
    until: number,
    signal: AbortSignal | undefined,
  ): Promise<JobRecord<Output>> {
    try {
      return (await this.#wait.end(seen.id, { until, signal })) as JobRecord<Output>
    } catch (cause) {
      if (cause instanceof JobNotEndedError) return cause.record as JobRecord<Output>
      const isOfQueue = [QueueUnreachableError, QueueRefusedError, UnexpectedAnswerError].some(
        (kind) => cause instanceof kind,
      )
      if (isOfQueue) return seen as JobRecord<Output>
      throw cause
    }
  }
}

type Request = Omit<Ask<unknown>, 'read' | 'onTrouble'>

function submit(
  path: Ask<unknown>['path'],
  submission: NewSubmission<object>,
  timeoutMs: number,
  { idempotencyKey = randomUUID(), signal }: SubmitOptions,
): Request {
  checkIdempotencyKey(idempotencyKey)
  return {
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json', 'idempotency-key': idempotencyKey },
    body: JSON.stringify(submission),
    timeoutMs,
    signal,
  }
}

function post(path: string, { signal }: RequestOptions): Request {
  return { method: 'POST', path, timeoutMs: REQUEST_MS, signal }
}

function readSubmitted(document: unknown): Submitted {
  return submittedSchema.parse(document)
}

// Lenient where the hosted platform may say less.
const purgedSchema = z.object({ removed: z.int() })
const count = z.int().min(0).catch(0)
const healthSchema = z.object({
  jobs: z.object({ completed: count, failed: count, inProgress: count, inQueue: count, retried: count }),
  workers: z.object({
    idle: count,
    running: count,
    ready: count,
    initializing: count,
    throttled: count,
    unhealthy: count,
  }),
})
