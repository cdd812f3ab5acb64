// The contract of the durable state: what every engine guarantees, in the words of the queue.

import type { Clock } from '../lib/clock.ts'
import type { JobError, Policy, TraceContext } from '../job/job.ts'
import type { JobStatus } from '../job/lifecycle.ts'
import type { PartKind } from '../job/chunk.ts'
import type { Key } from '../resource/key.ts'
import type { PresenceStore, RateStore } from './traffic.ts'

/** The world's fault, not the caller's. `code` is stable; the cause says what the engine met. */
export class StoreError extends Error {
  readonly code:
    | 'STORE_FULL'
    | 'STORE_UNAVAILABLE'
    | 'STORE_IN_USE'
    | 'STORE_TOO_NEW'
    | 'STORE_UNREADABLE'
    | 'STORE_MISCONFIGURED'

  constructor(code: StoreError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'StoreError'
    this.code = code
  }
}

/** A named queue and its defaults. */
export interface Endpoint {
  id: string
  executionTimeoutMs: number
  maxAttempts: number
}

/** The hosted platform's clients and receivers know a few things by other words. */
export type Dialect = 'hosted'

export interface NewJob {
  endpoint: string
  id: string
  input: Uint8Array
  policy: Policy
  webhook?: string
  /** Whose words its webhook uses; those of this service when left out. */
  dialect?: Dialect
  /** Sealed by the caller; the store never sees what is in it, and has it no longer than the job may run. */
  sealedS3Config?: Uint8Array
  retentionMs: number
  trace?: TraceContext
  idempotency?: { key: string; bodyHash: string }
  now: number
}

export type Enqueued =
  | { kind: 'created'; id: string; status: JobStatus }
  | { kind: 'duplicate'; id: string; status: JobStatus }
  | { kind: 'conflict'; id: string }

export interface JobRecord {
  id: string
  endpoint: string
  status: JobStatus
  reason?: string
  attempt: number
  /** Who holds it, held it last, or let its lease lapse; nobody after it was handed back, and before the first lease. */
  workerId?: string
  submittedAt: number
  /** ms not running since submission or the last retry, over all attempts, up to now or the end. */
  delayTime: number
  /** ms of the last attempt, up to now or the end. */
  executionTime: number
  /** JSON text. */
  output?: Uint8Array
  error?: JobError
  /** The error as the worker wrote it, where its wire knows only texts. */
  errorText?: string
  /** JSON text; only while IN_PROGRESS. */
  progress?: Uint8Array
}

/** A job as a list shows it. */
export type JobSummary = Omit<JobRecord, 'output' | 'progress' | 'errorText'> & { endedAt?: number }

export interface JobPage {
  jobs: JobSummary[]
  /** What to give as `before` for the jobs submitted earlier; left out when there are none. */
  next?: string
}

export interface LeaseAsk {
  endpoint: string
  worker: string
  count: number
  leaseMs: number
  /** For a worker that does not report starts: its clocks start with the lease, with this grace after the limit. */
  startsAtLease?: { graceMs: number }
  /** Leaves out jobs of which this worker's was the last lease to lapse, after this: without tokens it may still run them. */
  notLostSince?: number
  now: number
}

export interface LeasedJob {
  id: string
  lease: string
  attempt: number
  executionTimeoutMs: number
  policy: Policy
  input: Uint8Array
  webhook?: string
  sealedS3Config?: Uint8Array
  trace?: TraceContext
  /** How long it did not run before this lease, ms. */
  waitedMs: number
  /** No other job may share its process: it may be what ended one before. */
  isAlone: boolean
}

/** The right to speak for a running job: its lease token, or, for a wire without tokens, the worker that holds it. */
export type Fence = { endpoint: string; id: string } & ({ lease: string } | { worker: string })

/** `stale`: the fence does not hold (any more); nothing was changed. */
export type FencedAnswer = 'accepted' | 'stale'

export type End =
  | { event: 'complete'; output?: Uint8Array }
  | { event: 'fail'; error: JobError; errorText?: string; output?: Uint8Array }
  | { event: 'timeOut'; error: JobError }

export interface NewChunk {
  /** JSON text. */
  output: Uint8Array
  /** JSON text of an object. */
  metrics?: string
  /** One piece of a larger value; `back` counts the pieces of it before this one. */
  part?: { as: PartKind; back: number; last: boolean }
}

export interface StoredChunk {
  index: number
  attempt: number
  output: Uint8Array
  metrics?: string
  part?: { as: PartKind; first: number; last: boolean }
}

export type StreamRead =
  | { kind: 'gone' }
  | {
      kind: 'read'
      status: JobStatus
      chunks: StoredChunk[]
      /** Index of the newest chunk there is. */
      lastIndex: number
      /** What readers have up to this index was an earlier lease's: it does not belong to the chunks after it. */
      leaseIndex: number
    }

export interface JobCounts {
  completed: number
  failed: number
  inProgress: number
  inQueue: number
  retried: number
}

/** What has happened, told after it is durable. A lost event may delay somebody, and must harm nobody. */
export type StoreEvent =
  /** Events of this endpoint may have been lost: whoever waits for some has to look. */
  | { kind: 'missed'; endpoint: string }
  /** There is something to lease. */
  | { kind: 'queued'; endpoint: string }
  /** The job ended, was deleted, or went back to the queue. */
  | { kind: 'changed'; endpoint: string; id: string; status: JobStatus | 'deleted' }
  | { kind: 'chunks'; endpoint: string; id: string }
  | { kind: 'progress'; endpoint: string; id: string }
  /** A job with a webhook has ended. */
  | { kind: 'webhook' }
  /** A lease ended without its worker's doing. */
  | { kind: 'stop'; endpoint: string; worker: string; id: string; lease: string; reason: StopCause }

export type StopCause = 'cancelled' | 'expired' | 'timeout' | 'lease-lost'

export type Refused =
  | { kind: 'not-found' }
  | { kind: 'wrong-status'; status: JobStatus }
  /** Its ttl passed after it ended: queued again it would be deleted at once. */
  | { kind: 'ttl-passed' }

/**
 * The jobs. Every verb is atomic: it happens whole or not at all, and its promise resolves once it is durable,
 * so that a crash after it loses nothing and a crash before it leaves nothing behind. Verbs called in one turn
 * of the event loop take effect in that order. Callers pass `now`; a job past its ttl or its retention is
 * not there for any verb, whether or not it was swept. Those that are given no `now` may find it until it is.
 *
 * The sealed s3Config goes to leases alone. The commit in which a job ends drops it, unless the lifecycle lets a job of
 * that status be retried; such a job has it until a retry would answer `ttl-passed`, when the next sweep drops it.
 */
export interface JobStore {
  /** Puts a job at the back of its queue. The same idempotency key answers the job it made before, while that exists. */
  enqueue(job: NewJob): Promise<Enqueued>
  /** Leases up to `count` jobs, oldest first, each with a new token. Two callers never get the same job. */
  lease(ask: LeaseAsk): Promise<LeasedJob[]>
  /** Starts the clocks of this attempt, `agoMs` before now. A repeat changes nothing. */
  start(
    fence: Fence,
    report: { agoMs: number; graceMs: number; leaseMs: number; now: number },
  ): Promise<FencedAnswer>
  /** Keeps leases alive; answers those tokens of `leases` that no longer hold. */
  extend(
    endpoint: string,
    leases: readonly { id: string; lease: string }[],
    until: number,
  ): Promise<Set<string>>
  /** The same for a wire without tokens: keeps those of `ids` that the worker holds, answers those it does not. */
  extendHeldBy(endpoint: string, worker: string, ids: readonly string[], until: number): Promise<Set<string>>
  /**
   * Adds chunks whose first has this ordinal (from 1) within the lease; those already there are skipped. Answers the
   * ordinal up to which all are stored; a gap stores nothing. Without an ordinal they follow the last.
   */
  appendChunks(
    fence: Fence,
    report: { firstOrdinal?: number; chunks: readonly NewChunk[]; now: number },
  ): Promise<{ state: 'accepted'; stored: number } | { state: 'stale' }>
  /** Replaces the progress of a running job (JSON text). */
  setProgress(fence: Fence, progress: Uint8Array): Promise<FencedAnswer>
  /**
   * Ends the job. `executionMs` is the worker's own measure; without it the time since the start counts. `behind` when
   * fewer than `chunks` of this lease are stored: then nothing happens, and the end is to be told again with them.
   */
  settle(
    fence: Fence,
    end: End,
    report: { executionMs?: number; chunks?: number; now: number },
  ): Promise<FencedAnswer | 'behind'>
  /** Gives the job back to its old place in the queue, the attempt not counted, its chunks removed. */
  release(fence: Fence, now: number): Promise<FencedAnswer>
  /**
   * Gives back a job whose process died for a reason that may be this job or one beside it: like a release, but the
   * attempt counts, its time is the worker's measure, and the job is leased as one that runs alone. With no attempt
   * left it fails with the error.
   */
  lose(fence: Fence, report: { error: JobError; executionMs: number; now: number }): Promise<FencedAnswer>
  /** Idempotent: answers the status as it is now. A running job's worker gets a stop. */
  cancel(
    endpoint: string,
    id: string,
    now: number,
  ): Promise<{ kind: 'done'; status: JobStatus } | { kind: 'not-found' }>
  /** Puts a failed job at the back of the queue, its output, error and chunks removed, its attempts counted afresh. */
  retry(endpoint: string, id: string, now: number): Promise<{ kind: 'done'; status: JobStatus } | Refused>
  /** Cancels all jobs that wait; answers how many. */
  purge(endpoint: string, now: number): Promise<number>
  /** Moves the ttl of a job that has not ended; deletes it at once when that is past. */
  setTtl(endpoint: string, id: string, ttlMs: number, now: number): Promise<void>
  find(endpoint: string, id: string, now: number): Promise<JobRecord | undefined>
  /** An endpoint's jobs, newest submission first, from before a place that an earlier page named. */
  list(endpoint: string, page: { count: number; before?: string; now: number }): Promise<JobPage>
  /** Chunks after an index, or after the job's read position; at most about `maxBytes` of them, one at least. */
  readChunks(
    endpoint: string,
    id: string,
    read: { after?: number; maxBytes: number; now: number },
  ): Promise<StreamRead>
  /** Moves the read position forward; never back. */
  markRead(endpoint: string, id: string, index: number): Promise<void>
  count(endpoint: string): Promise<JobCounts>
  /** How long the job that is leased next has waited, ms; 0 when none waits. */
  headWaitedMs(endpoint: string, now: number): Promise<number>
  /**
   * One round of tidying: lapsed leases go back or fail, silent jobs time out, ttl and retention delete, and what can
   * no longer be retried loses its sealed s3Config. A job past its ttl is deleted and nothing else, and one that is both
   * silent and lapsed times out. Handles a bounded number and answers how many. Time that was not served lapses no lease
   * and times out no job: a round later than `servedMs` after the last one, whoever did that, first gives every lease
   * and deadline as much time as has passed since; the first one that a server does gives them `leaseMs` from now at
   * least, unless another server was there meanwhile.
   */
  sweep(now: number, served: { leaseMs: number; servedMs: number }): Promise<number>
}

/** The news of one job's end, to be told to its webhook: the record as it was then, whatever becomes of the job. */
export interface Delivery {
  id: string
  url: string
  record: JobRecord
  dialect?: Dialect
  /** JSON text. */
  input: Uint8Array
  trace?: TraceContext
  /** 1 at the first try. */
  attempt: number
}

/**
 * Deliveries owed to webhooks. One comes into being in the very commit in which a job with a webhook ends; a retry of
 * the job drops what is still owed for its former end.
 */
export interface WebhookStore {
  /**
   * Up to `count` that are due, longest due first, none of an origin in `without`. For `holdMs` nobody else is given
   * them; whoever dies with one in hand leaves it to be claimed again after that.
   */
  claimDeliveries(ask: {
    count: number
    holdMs: number
    without: readonly string[]
    now: number
  }): Promise<Delivery[]>
  /** It was delivered, or given up. */
  dropDelivery(id: string): Promise<void>
  /** A try failed; the next one is due then. */
  postponeDelivery(id: string, dueAt: number): Promise<void>
  /** When the next one is due, if there is one. */
  nextDeliveryAt(): Promise<number | undefined>
}

export interface EndpointStore {
  /** Makes the endpoint unless it exists. */
  ensureEndpoint(id: string): Promise<Endpoint>
  findEndpoint(id: string): Promise<Endpoint | undefined>
  listEndpoints(): Promise<Endpoint[]>
}

/** API keys, by the hash of their text; the text itself is never stored. */
export interface KeyStore {
  addKey(key: Key & { hash: string }): Promise<void>
  findKey(hash: string): Promise<Key | undefined>
  /** Oldest first. */
  listKeys(): Promise<Key[]>
  /** False when there is no such key. From its resolution on the key opens nothing. */
  revokeKey(id: string): Promise<boolean>
}

/** The keys alone, opened beside a running service. */
export interface OpenKeys {
  readonly keys: KeyStore
  close(): Promise<void>
}

export interface Store {
  /** Wall time as all servers of this store have it. */
  readonly clock: Clock
  readonly jobs: JobStore
  readonly endpoints: EndpointStore
  readonly keys: KeyStore
  readonly webhooks: WebhookStore
  readonly rates: RateStore
  readonly presence: PresenceStore
  /** Calls back after each commit; answers a function that ends it. */
  watch(listener: (event: StoreEvent) => void): () => void
  /** Resolves while the store can be read and written. Throws StoreError. */
  ping(): Promise<void>
  /** Finishes what was asked, then lets go of the file or the connection. */
  close(): Promise<void>
}
