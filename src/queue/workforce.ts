// What whoever starts and ends workers asks of the queue: who is heard, what waits, and that one gets no more jobs.

import type { Clock } from '../lib/clock.ts'
import type { QueueLoad } from '../store/job-store.ts'
import type { Store } from '../store/store.ts'
import type { Presence } from '../store/traffic.ts'
import type { Dispatch } from './dispatch.ts'
import type { ForeignWorkers } from './foreign-workers.ts'
import type { Workers } from './workers.ts'

export interface WorkforceOptions {
  store: Store
  clock: Clock
  workers: Workers
  dispatch: Dispatch
  foreign: ForeignWorkers
}

export class Workforce {
  readonly #options: WorkforceOptions

  constructor(options: WorkforceOptions) {
    this.#options = options
  }

  /** Those that were heard lately, at whichever server. */
  heard(endpoint: string): Promise<Presence[]> {
    return this.#options.workers.heard(endpoint)
  }

  load(endpoint: string): Promise<QueueLoad> {
    const { store, clock } = this.#options
    return store.jobs.load(endpoint, clock.now())
  }

  /** At this server it gets no job any more, and is told to end after those that it has. Safe to repeat. */
  drain(endpoint: string, worker: string): void {
    this.#options.dispatch.drain(endpoint, worker)
    this.#options.foreign.drain(endpoint, worker)
  }

  setFleetCounts(...said: Parameters<Workers['setFleetCounts']>): void {
    this.#options.workers.setFleetCounts(...said)
  }

  /** It is gone: nothing is remembered of it. */
  forget(endpoint: string, worker: string): void {
    this.#options.dispatch.forget(endpoint, worker)
    this.#options.foreign.forget(endpoint, worker)
    this.#options.workers.forget(endpoint, worker)
  }
}
