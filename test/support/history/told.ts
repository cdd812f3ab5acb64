// What clients, workers and servers are told: the events of a history.

import type { JobError } from '../../../src/job/job.ts'
import type { JobStatus } from '../../../src/job/lifecycle.ts'

/** A record as a client was shown it; what else it has is compared too. */
export interface SeenRecord {
  status: JobStatus
  attempt?: number
  output?: unknown
  error?: JobError | undefined
  [more: string]: unknown
}

export interface SeenChunk {
  index: number
  attempt?: number
  output: unknown
}

export interface SeenCounts {
  completed: number
  failed: number
  retried: number
  inQueue: number
  inProgress: number
}

/** How a worker says that a job has ended. */
export interface Result {
  status: JobStatus
  output?: unknown
  error?: JobError | undefined
}

/** `asked`: how much had been told when the question was put, where the answer took its time; see History.moment. */
interface Answered {
  asked?: number
}

interface OfLease {
  id: string
  lease: string
  worker: string
}

export type Told =
  /** A client was given the id of its submission. */
  | { kind: 'submitted'; id: string }
  /** A client gave up a submission without an answer: there may be a job that nobody was told of. */
  | { kind: 'unanswered' }
  /** A client's retry was accepted. */
  | ({ kind: 'retried'; id: string } & Answered)
  /** From here on the ttl or the retention may delete the job. */
  | { kind: 'mayGo'; id: string }
  /** From here on the service may end the job so by itself: it is cancelled, or its worker is silent. */
  | { kind: 'mayEnd'; id: string; status: 'CANCELLED' | 'FAILED' | 'TIMED_OUT' }
  /** A client looked; no record: it is not there. */
  | ({ kind: 'seen'; id: string; record?: SeenRecord | undefined } & Answered)
  /** A client read a job's stream from its beginning, to its end unless it is a part. */
  | ({ kind: 'read'; id: string; chunks: readonly SeenChunk[]; isPart?: true } & Answered)
  /** Somebody with a right to read looked at the counters. */
  | ({ kind: 'counted'; counts: SeenCounts } & Answered)
  | ({ kind: 'leased'; attempt?: number } & OfLease & Answered)
  /** A worker sent this chunk of its lease; whether it came is another matter. */
  | ({ kind: 'made'; ordinal: number; output: unknown } & OfLease)
  /** A worker was told that chunks up to this ordinal of its lease are stored. */
  | ({ kind: 'streamed'; stored: number } & OfLease)
  /** A worker sent this result, or how its job ends if no attempt is left; `chunks`: how many it has made. */
  | ({ kind: 'reported'; chunks?: number } & OfLease & Result)
  /** A worker was told what became of its result. */
  | ({ kind: 'settled'; answer: 'accepted' | 'stale' } & OfLease & Result)

export type Kind = Told['kind']

/** `at`: its place in the history. It is known to come after what was told before it was asked, and to nothing else. */
export type Event<K extends Kind = Kind> = Told & { kind: K; at: number; asked: number }

export function all<K extends Kind>(events: readonly Event[], kind: K): Event<K>[] {
  return events.filter((event): event is Event<K> => event.kind === kind)
}

/** Whether something of the kind had been told by then. */
export function hadBy(events: readonly Event[], kind: Kind, at: number): boolean {
  return events.some((event) => event.kind === kind && event.at < at)
}

export function text(value: unknown): string {
  return JSON.stringify(value) ?? 'nothing'
}
