// The durable state as a whole: the contracts that every engine keeps, and what holds for all of them.

import type { Clock } from '../lib/clock.ts'
import type { EndpointStore } from './endpoint-store.ts'
import type { FleetStore } from './fleet-store.ts'
import type { JobStore } from './job-store.ts'
import type { KeyStore } from './key-store.ts'
import type { StoreEvent } from './store-event.ts'
import type { PresenceStore, RateStore } from './traffic.ts'
import type { WebhookStore } from './webhook-store.ts'

export interface Store {
  /** Wall time as all servers of this store have it. */
  readonly clock: Clock
  readonly jobs: JobStore
  readonly endpoints: EndpointStore
  readonly keys: KeyStore
  readonly webhooks: WebhookStore
  readonly fleet: FleetStore
  readonly rates: RateStore
  readonly presence: PresenceStore
  /** Calls back after each commit; answers a function that ends it. */
  watch(listener: (event: StoreEvent) => void): () => void
  /** Resolves while the store can be read and written, and has these endpoints. Throws StoreError. */
  ping(endpoints?: readonly string[]): Promise<void>
  /**
   * This server is about to go: what it asks or has asked of a store that is silent fails within a second or so, rather than
   * when the store is given up. Resolves once that is so.
   */
  leave(): Promise<void>
  /** Finishes what was asked, then lets go of the file or the connection. */
  close(): Promise<void>
}
