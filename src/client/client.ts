// The typed client: submit, wait, stream, look, cancel, retry, purge, health.

import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { backoffMs } from '../lib/backoff.ts'
import { pause, systemClock, type Clock } from '../lib/clock.ts'
import { isEnded, jobStatuses, type JobStatus } from '../job/lifecycle.ts'
import type { Chunk } from '../job/chunk.ts'
import {
  chunkSchema,
  healthSchema,
  jobRecordSchema,
  purgedSchema,
  submittedSchema,
  type HealthBody,
  type JobRecordBody,
  type Submitted,
} from '../protocol/endpoint-api.ts'
import { Http, QueueUnreachableError, type HttpAnswer, type HttpRequest } from './http.ts'

export { QueueRefusedError, QueueUnreachableError } from './http.ts'

export interface ClientOptions {
  /** `http(s)://host:port/v2/{endpointId}`. */
  endpointUrl: string
  apiKey: string
  /** Tries in all of one request that cannot be answered; 5 by default. */
  attempts?: number
  clock?: Clock
}

export interface NewSubmission {
  input: Record<string, unknown>
  webhook?: string
  policy?: { executionTimeout?: number; lowPriority?: boolean; ttl?: number }
  s3Config?: {
    accessId: string
    accessSecret: string
    bucketName: string
    endpointUrl: string
    objectPath?: string
    region?: string
  }
}

const REQUEST_MS = 30_000
/** A long answer is held this much longer than it was asked to be held. */
const MARGIN_MS = 15_000
const STREAM_WAIT_MS = 20_000

/**
 * Speaks to one endpoint. Requests that cannot be answered (network, 5xx, 429) are repeated with jittered backoff;
 * submissions carry an Idempotency-Key, so that a repeated one makes one job. Throws QueueRefusedError for what
 * the service refuses and QueueUnreachableError when the tries are used up.
 */
export class Client {
  readonly #http: Http
  readonly #attempts: number
  readonly #clock: Clock

  constructor({ endpointUrl, apiKey, attempts = 5, clock = systemClock }: ClientOptions) {
    this.#http = new Http({ endpointUrl, token: apiKey })
    this.#attempts = attempts
    this.#clock = clock
  }

  run(submission: NewSubmission): Promise<Submitted> {
    return this.#ask(submittedSchema, { ...submit('/run', submission), timeoutMs: REQUEST_MS })
  }

  /** The record when the job has ended, or as it is after `waitMs` (1,000 to 300,000). */
  runsync(submission: NewSubmission, { waitMs = 90_000 } = {}): Promise<JobRecordBody> {
    const request = { ...submit(`/runsync?wait=${waitMs}`, submission), timeoutMs: waitMs + MARGIN_MS }
    return this.#ask(jobRecordSchema, request)
  }

  status(id: string): Promise<JobRecordBody> {
    return this.#ask(jobRecordSchema, {
      method: 'GET',
      path: `/status/${encodeURIComponent(id)}`,
      timeoutMs: REQUEST_MS,
    })
  }

  /** Every chunk of the job, from the first or after an index, as they come; ends when the job has. */
  async *stream(
    id: string,
    { after = 0, signal }: { after?: number; signal?: AbortSignal } = {},
  ): AsyncGenerator<Chunk> {
    let last = after
    for (;;) {
      const path = `/stream/${encodeURIComponent(id)}?after=${last}&wait=${STREAM_WAIT_MS}`
      const answer = await this.#request({
        method: 'GET',
        path,
        timeoutMs: STREAM_WAIT_MS + MARGIN_MS,
        ...(signal && { signal }),
      })
      const chunks = z.array(chunkSchema).parse(JSON.parse(answer.body.toString('utf8')))
      for (const chunk of chunks) {
        last = Math.max(last, chunk.index)
        yield chunk as Chunk
      }
      if (chunks.length === 0 && isEnded(statusOf(answer))) return
    }
  }

  cancel(id: string): Promise<Submitted> {
    return this.#ask(submittedSchema, {
      method: 'POST',
      path: `/cancel/${encodeURIComponent(id)}`,
      timeoutMs: REQUEST_MS,
    })
  }

  retry(id: string): Promise<Submitted> {
    return this.#ask(submittedSchema, {
      method: 'POST',
      path: `/retry/${encodeURIComponent(id)}`,
      timeoutMs: REQUEST_MS,
    })
  }

  /** Cancels all jobs that wait; answers how many. */
  async purgeQueue(): Promise<number> {
    const { removed } = await this.#ask(purgedSchema, {
      method: 'POST',
      path: '/purge-queue',
      timeoutMs: REQUEST_MS,
    })
    return removed
  }

  health(): Promise<HealthBody> {
    return this.#ask(healthSchema, { method: 'GET', path: '/health', timeoutMs: REQUEST_MS })
  }

  close(): Promise<void> {
    return this.#http.close()
  }

  async #ask<T>(schema: z.ZodType<T>, request: HttpRequest): Promise<T> {
    const { body } = await this.#request(request)
    return schema.parse(JSON.parse(body.toString('utf8')))
  }

  async #request(request: HttpRequest): Promise<HttpAnswer> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.#http.request(request)
      } catch (cause) {
        if (!(cause instanceof QueueUnreachableError) || tries >= this.#attempts) throw cause
        const waitMs = Math.max(cause.retryAfterMs ?? 0, backoffMs(tries, { baseMs: 200, maxMs: 10_000 }))
        await pause(this.#clock, waitMs, request.signal)
      }
    }
  }
}

function submit(
  path: string,
  submission: NewSubmission,
): Pick<HttpRequest, 'method' | 'path' | 'headers' | 'body'> {
  return {
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json', 'idempotency-key': randomUUID() },
    body: JSON.stringify(submission),
  }
}

function statusOf(answer: HttpAnswer): JobStatus {
  const name = answer.headers['x-job-status']
  const status = jobStatuses.find((known) => known === name)
  if (!status)
    throw new Error(`The stream's answer has x-job-status '${String(name)}'. Use a service of this version.`)
  return status
}
