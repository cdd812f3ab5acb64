// A queue on its way from one engine to another: what the one says of it and the other takes.

import type { JobStatus } from '../job/lifecycle.ts'
import type { Key } from '../resource/key.ts'
import type { RecordKind } from './fleet-store.ts'
import type { Endpoint } from './endpoint-store.ts'
import type { Dialect, StoredChunk } from './job-store.ts'

export interface MovedEndpoint extends Endpoint {
  completed: number
  failed: number
  retried: number
  /** Submissions that were not of low priority. */
  arrived: number
}

/** A job as it was at one time: what a record is made of, and what a webhook is told. */
export interface MovedRun {
  id: string
  endpoint: string
  status: JobStatus
  reason?: string
  attempt: number
  worker?: string
  submittedAt: number
  countedFrom: number
  ranMs: number
  endedAt?: number
  executionMs?: number
  dialect?: Dialect
  /** JSON text, as are error, input and output. */
  trace?: string
  error?: string
  errorText?: string
  output?: Uint8Array
  input: Uint8Array
}

/** One that nobody runs. */
export interface MovedJob extends MovedRun {
  /** Place in the order of submissions, and place in line. */
  submission: number
  position: number
  goneAt: number
  retentionMs: number
  executionTimeoutMs?: number
  isLowPriority: boolean
  ttlMs: number
  webhook?: string
  sealedS3Config?: Uint8Array
  idempotency?: { key: string; bodyHash: string }
  isAlone: boolean
  lapsed?: { at: number; by: string }
  lastIndex: number
  leaseIndex: number
  readIndex: number
  chunks: Iterable<StoredChunk>
}

export interface MovedDelivery extends MovedRun {
  url: string
  origin: string
  dueAt: number
  attempts: number
}

/** What the fleet keeps, as JSON text. */
export interface MovedRecord {
  kind: RecordKind
  id: string
  /** Where names of the kind are unique. */
  name?: string
  revision: number
  body: string
}

/** Everything there is, one after the other: a queue may be larger than the memory. */
export interface QueueSource {
  endpoints(): MovedEndpoint[]
  keys(): (Key & { hash: string })[]
  jobs(): Iterable<MovedJob>
  records(): Iterable<MovedRecord>
  /** In the order in which they were made. */
  deliveries(): Iterable<MovedDelivery>
  close(): Promise<void>
}

export interface QueueTarget {
  addKey(key: Key & { hash: string }): Promise<void>
  addJob(job: MovedJob): Promise<void>
  addRecord(record: MovedRecord): Promise<void>
  addDelivery(delivery: MovedDelivery): Promise<void>
  /** After all that is theirs. */
  addEndpoint(endpoint: MovedEndpoint): Promise<void>
  /** Nothing more comes: from here on it can be served. */
  finish(): Promise<void>
  close(): Promise<void>
}
