// The contract of what is owed to webhooks.

import type { TraceContext } from '../job/job.ts'
import type { Dialect, JobRecord } from './job-store.ts'

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
