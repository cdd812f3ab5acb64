// What a store tells of its jobs, to whoever waits at this server or another.

import type { JobStatus } from '../job/lifecycle.ts'

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
