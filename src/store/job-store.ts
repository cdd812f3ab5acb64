// The contract of the jobs: what every engine guarantees, in the words of the queue.

import type { PartKind } from '../job/chunk.ts'
import type { JobError, Policy, TraceContext } from '../job/job.ts'
import type { JobStatus } from '../job/lifecycle.ts'

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

/** From now on for so long; a lease that lasts longer stays as it is. */
export interface LeaseTerm {
  now: number
  leaseMs: number
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

/** What a queue asks of its workers. Jobs of low priority count apart: they scale nothing. */
export interface QueueLoad {
  /** In line, those of low priority left out, and those. One past its ttl may be among them until it is swept. */
  waiting: number
  waitingLowPriority: number
  /** How long the first in line that counts has waited, over all its attempts since it was submitted or retried, ms; 0 without one. */
  oldestWaitMs: number
  /** Submissions that count, ever, each once; those from before an engine counted them are missing. */
  arrived: number
  /** Jobs that ran to an end, well or not, ever; of low priority too. */
  ended: number
}

export type Refused =
  | { kind: 'not-found' }
  | { kind: 'wrong-status'; status: JobStatus }
  /** Its ttl passed after it ended: queued again it would be deleted at once. */
  | { kind: 'ttl-passed' }

/**
 * The jobs. Every verb but `purge` is atomic: it happens whole or not at all, and its promise resolves once it is durable,
 * so that a crash after it loses nothing and a crash before it leaves nothing behind. Verbs called in one turn
 * of the event loop take effect in that order; reads and `sweep` may see more or less of what is under way in their turn.
 * Callers pass `now`; a job past its ttl or its retention is not there for any verb, whether or not it was swept. Those
 * that are given no `now` may find it until it is.
 *
 * The sealed s3Config goes to leases alone. The commit in which a job ends drops it, unless the lifecycle lets a job of
 * that status be retried; such a job has it until a retry would answer `ttl-passed`, when the next sweep drops it.
 */
export interface JobStore {
  /**
   * Puts a job at the back of its queue. The same idempotency key answers the job it made before, while that exists.
   * Ids are new: an engine may refuse one that is there, or take it for a submission whose answer was lost and answer again.
   */
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
    term: LeaseTerm,
  ): Promise<Set<string>>
  /** The same for a wire without tokens: keeps those of `ids` that the worker holds, answers those it does not. */
  extendHeldBy(
    endpoint: string,
    worker: string,
    ids: readonly string[],
    term: LeaseTerm,
  ): Promise<Set<string>>
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
  /**
   * Cancels all jobs that waited when it was called; answers how many. Each of them whole, but an engine may take many in
   * rounds, between which others are served: after a crash, or an error, some are cancelled and the rest wait. A job that
   * comes, or comes back, meanwhile is left.
   */
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
  /** Cheap, however many wait: whoever scales asks every second. */
  load(endpoint: string, now: number): Promise<QueueLoad>
  /**
   * One round of tidying: lapsed leases go back or fail, silent jobs time out, ttl and retention delete, and what can
   * no longer be retried loses its sealed s3Config. A job past its ttl is deleted and nothing else, and one that is both
   * silent and lapsed times out. Handles a bounded number and answers how many. Time that was not served lapses no lease
   * and times out no job: a round later than `servedMs` after the last one, whoever did that, first gives every lease
   * and deadline as much time as has passed since, and so does a lease, a start or an extension that comes before it; the
   * first one that a server does gives them `leaseMs` from now at least, unless another server was there meanwhile.
   */
  sweep(now: number, served: { leaseMs: number; servedMs: number }): Promise<number>
}
