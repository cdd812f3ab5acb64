// What clients ask of the service: submit, look, wait, stream, cancel, retry, purge.

import { randomUUIDv7 } from 'node:crypto'
import { pause, type Clock } from '../lib/clock.ts'
import { PrivateAddressError, refusePrivateHost } from '../lib/public-address.ts'
import type { Submission, TraceContext } from '../job/job.ts'
import { isEnded, type JobStatus } from '../job/lifecycle.ts'
import { limits } from '../job/limits.ts'
import { Refusal } from '../protocol/errors.ts'
import type { RequestsBody, Submitted } from '../protocol/endpoint-api.ts'
import type { Dialect, JobCounts, JobRecord, StoredChunk } from '../store/job-store.ts'
import type { Store } from '../store/store.ts'
import { followJob, type JobNews } from './job-follow.ts'
import type { JobWatch } from './job-watch.ts'
import { bodyHash, type SecretBox } from './secret-box.ts'

export interface QueueOptions {
  endpoints?: readonly string[]
  store: Store
  watch: JobWatch
  /** Without it no submission with an s3Config is taken. */
  secrets?: SecretBox
  clock: Clock
  /** Aborts when the service stops: whoever waits is answered with what there is. */
  stopping: AbortSignal
  /** Whether webhooks may be at addresses of this machine and of private networks. */
  allowPrivateWebhooks: boolean
}

export interface SubmitOptions {
  operation: 'run' | 'runsync'
  /** Whether the caller asked for a wait of its own: its result is kept longer. */
  hasWait?: boolean
  /** `body` is all that was sent: another one under the same key is refused. */
  idempotency?: { key: string; body: Uint8Array }
  trace?: TraceContext
  dialect?: Dialect
}

export interface StreamOptions {
  after?: number
  waitMs?: number
  /** Aborts when the reader has gone. */
  gone: AbortSignal
}

export interface StreamAnswer {
  status: JobStatus
  chunks: StoredChunk[]
  /** Whether there are chunks that this answer had no room for. */
  hasMore: boolean
  /** To be called once the answer is written; moves the read position unless `after` was given. */
  written: () => Promise<void>
  /** To be called when it never will be. */
  lost: () => void
}

/** Of chunks in answers that are not written yet, about. */
const HELD_FOR_READERS_BYTES = 64_000_000
/** How long one reader of a stream keeps the next one waiting. */
const DELIVERY_MS = 5_000

/** Every method refuses an endpoint or a job that does not exist with a Refusal. */
export class Queue {
  readonly #options: QueueOptions
  /** Stream answers on their way, by job. */
  readonly #delivering = new Map<string, Promise<void>>()
  /** Stream answers with chunks that are not written yet. */
  #answersUnderWay = 0

  constructor(options: QueueOptions) {
    this.#options = options
  }

  async submit(endpoint: string, submission: Submission, options: SubmitOptions): Promise<Submitted> {
    const { store, secrets, clock } = this.#options
    await this.requireEndpoint(endpoint)
    const { input, policy, webhook, s3Config } = submission
    const { idempotency } = options
    if (webhook !== undefined) this.#checkWebhook(webhook)
    if (s3Config && !secrets) throw new Refusal('SECRET_KEY_MISSING', { field: 's3Config' })
    const answer = await store.jobs.enqueue({
      endpoint,
      id: randomUUIDv7(),
      input: input.bytes,
      policy,
      retentionMs: retentionMs(options),
      now: clock.now(),
      ...(webhook !== undefined && { webhook }),
      ...(options.dialect && { dialect: options.dialect }),
      ...(s3Config && secrets && { sealedS3Config: secrets.seal(s3Config) }),
      ...(idempotency && {
        idempotency: { key: idempotency.key, bodyHash: bodyHash(idempotency.body, s3Config && secrets) },
      }),
      ...(options.trace && { trace: options.trace }),
    })
    if (answer.kind === 'conflict') {
      throw new Refusal('IDEMPOTENCY_CONFLICT', { key: idempotency?.key, id: answer.id })
    }
    return { id: answer.id, status: answer.status }
  }

  /** Names are judged when they are called: they may lead elsewhere by then. */
  #checkWebhook(webhook: string): void {
    if (this.#options.allowPrivateWebhooks) return
    try {
      refusePrivateHost(new URL(webhook))
    } catch (cause) {
      if (!(cause instanceof PrivateAddressError)) throw cause
      const problem =
        'must not be at an address of this machine or of a private network, unless the service was started with --allow-private-webhooks'
      throw new Refusal('FIELD_INVALID', { field: 'webhook', problem })
    }
  }

  async find(endpoint: string, id: string): Promise<JobRecord> {
    await this.requireEndpoint(endpoint)
    const record = await this.#options.store.jobs.find(endpoint, id, this.#options.clock.now())
    if (!record) throw new Refusal('JOB_NOT_FOUND', { endpoint, id })
    return record
  }

  async list(endpoint: string, page: { limit?: number; before?: string }): Promise<RequestsBody> {
    await this.requireEndpoint(endpoint)
    const { jobs, next } = await this.#options.store.jobs.list(endpoint, {
      count: page.limit ?? limits.listJobs.default,
      now: this.#options.clock.now(),
      ...(page.before !== undefined && { before: page.before }),
    })
    return next === undefined ? { requests: jobs } : { requests: jobs, next }
  }

  async setTtl(endpoint: string, id: string, ttlMs: number): Promise<void> {
    await this.requireEndpoint(endpoint)
    await this.#options.store.jobs.setTtl(endpoint, id, ttlMs, this.#options.clock.now())
  }

  /** The record once the job has ended, or as it is after `waitMs`, when the caller has gone or the service stops. */
  async waitForEnd(endpoint: string, id: string, waitMs: number, gone: AbortSignal): Promise<JobRecord> {
    const { clock, watch, stopping } = this.#options
    const until = clock.monotonic() + waitMs
    using watched = watch.watch(id)
    for (;;) {
      const record = await this.find(endpoint, id)
      const left = until - clock.monotonic()
      if (isEnded(record.status) || left <= 0 || gone.aborted || stopping.aborted) return record
      await watched.latch.wait(clock, left, [gone, stopping])
    }
  }

  /** New chunks; waits for them while there are none and the job has not ended. */
  async stream(endpoint: string, id: string, options: StreamOptions): Promise<StreamAnswer> {
    const { store, clock, watch, stopping } = this.#options
    const { after, gone, waitMs = limits.streamWaitMs.default } = options
    await this.requireEndpoint(endpoint)
    const until = clock.monotonic() + waitMs
    using watched = watch.watch(id)
    for (;;) {
      if (after === undefined) await this.#delivered(id, gone)
      const read = await store.jobs.readChunks(endpoint, id, {
        maxBytes: this.#roomForAnAnswer(),
        now: clock.now(),
        ...(after !== undefined && { after }),
      })
      if (read.kind === 'gone') throw new Refusal('JOB_NOT_FOUND', { endpoint, id })
      const { status, chunks } = read
      const left = until - clock.monotonic()
      if (chunks.length > 0 || isEnded(status) || left <= 0 || gone.aborted || stopping.aborted) {
        // Another reader was given these meanwhile: look again once it has them.
        if (after === undefined && this.#delivering.has(id) && !gone.aborted) continue
        return {
          status,
          chunks,
          hasMore: (chunks.at(-1)?.index ?? read.lastIndex) < read.lastIndex,
          ...this.#counted(
            chunks,
            this.#deliver(endpoint, id, after === undefined ? chunks.at(-1) : undefined),
          ),
        }
      }
      await watched.latch.wait(clock, left, [gone, stopping])
    }
  }

  /** Readers may be slow and many: what chunks are held for all of them together is bounded, and each gets its share. */
  #roomForAnAnswer(): number {
    const share = HELD_FOR_READERS_BYTES / (this.#answersUnderWay + 1)
    return Math.min(limits.streamReadBytes, Math.max(limits.chunkBytes, share))
  }

  #counted(
    chunks: readonly StoredChunk[],
    { written, lost }: Pick<StreamAnswer, 'written' | 'lost'>,
  ): Pick<StreamAnswer, 'written' | 'lost'> {
    let isOver = chunks.length === 0
    if (!isOver) this.#answersUnderWay += 1
    const over = (): void => {
      if (!isOver) this.#answersUnderWay -= 1
      isOver = true
    }
    return {
      written() {
        over()
        return written()
      },
      lost() {
        over()
        lost()
      },
    }
  }

  /** News of the job as it comes, from after a chunk's index. Refuses at once when there is no such job. */
  async follow(
    endpoint: string,
    id: string,
    { after, gone }: { after: number; gone: AbortSignal },
  ): Promise<AsyncGenerator<JobNews>> {
    const { store, watch, clock, stopping } = this.#options
    await this.find(endpoint, id)
    return followJob({ store, watch, clock, endpoint, id, after, signals: [gone, stopping] })
  }

  /** Until `written` or `lost` is called nobody else is given what comes after the read position. */
  #deliver(
    endpoint: string,
    id: string,
    last: StoredChunk | undefined,
  ): Pick<StreamAnswer, 'written' | 'lost'> {
    if (!last) return { written: async () => undefined, lost: () => undefined }
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#delivering.set(id, promise)
    const over = (): void => {
      if (this.#delivering.get(id) === promise) this.#delivering.delete(id)
      resolve()
    }
    return {
      written: () => this.#options.store.jobs.markRead(endpoint, id, last.index).finally(over),
      lost: over,
    }
  }

  /** The read position moves once an answer is written: whoever reads next waits for that, for a while. */
  async #delivered(id: string, gone: AbortSignal): Promise<void> {
    const delivering = this.#delivering.get(id)
    if (!delivering) return
    const tooSlow = new AbortController()
    await Promise.race([
      delivering,
      pause(this.#options.clock, DELIVERY_MS, AbortSignal.any([gone, tooSlow.signal])),
    ])
    tooSlow.abort()
    // A reader that takes its answer too slowly shares it with this one.
    if (this.#delivering.get(id) === delivering) this.#delivering.delete(id)
  }

  async cancel(endpoint: string, id: string): Promise<Submitted> {
    await this.requireEndpoint(endpoint)
    const answer = await this.#options.store.jobs.cancel(endpoint, id, this.#options.clock.now())
    if (answer.kind === 'not-found') throw new Refusal('JOB_NOT_FOUND', { endpoint, id })
    return { id, status: answer.status }
  }

  async retry(endpoint: string, id: string): Promise<Submitted> {
    await this.requireEndpoint(endpoint)
    const answer = await this.#options.store.jobs.retry(endpoint, id, this.#options.clock.now())
    switch (answer.kind) {
      case 'done':
        return { id, status: answer.status }
      case 'not-found':
        throw new Refusal('JOB_NOT_FOUND', { endpoint, id })
      case 'wrong-status':
        throw new Refusal('WRONG_STATUS', { id, status: answer.status })
      case 'ttl-passed':
        throw new Refusal('TTL_PASSED', { id })
      default:
        return answer satisfies never
    }
  }

  async purge(endpoint: string): Promise<number> {
    await this.requireEndpoint(endpoint)
    return this.#options.store.jobs.purge(endpoint, this.#options.clock.now())
  }

  async count(endpoint: string): Promise<JobCounts> {
    await this.requireEndpoint(endpoint)
    return this.#options.store.jobs.count(endpoint)
  }

  async requireEndpoint(endpoint: string): Promise<void> {
    const { store, endpoints } = this.#options
    if (await store.endpoints.findEndpoint(endpoint)) return
    const isLost = endpoints?.includes(endpoint) && !(await store.endpoints.wasRemoved(endpoint))
    throw new Refusal(isLost ? 'STORE_UNAVAILABLE' : 'ENDPOINT_NOT_FOUND', { endpoint })
  }
}

function retentionMs({ operation, hasWait }: SubmitOptions): number {
  if (operation === 'run') return limits.retentionMs.run
  return hasWait ? limits.retentionMs.runsyncWithWait : limits.retentionMs.runsync
}
