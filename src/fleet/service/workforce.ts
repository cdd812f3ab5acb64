// What the fleet asks of the queue: which workers are heard, and that one gets no more jobs.

import type { QueueLoad } from '../../store/job-store.ts'
import type { Presence } from '../../store/traffic.ts'

export interface Workforce {
  /** Those that were heard lately, at whichever server; a worker's id is its pod's. */
  heard(endpoint: string): Promise<Presence[]>
  load(endpoint: string): Promise<QueueLoad>
  /** From now on it gets no job, and is told to end after those that it has. Safe to repeat; says it again to who has missed it. */
  drain(endpoint: string, worker: string): void
  /** Workers of the endpoint that start, and those that it is to have and that may not be started yet; said again when it changes. */
  setFleetCounts(endpoint: string, counts: { initializing: number; throttled: number }): void
  /** It is gone: nothing is remembered of it. */
  forget(endpoint: string, worker: string): void
}
