// The queue service over a store, without HTTP: what clients and workers ask of, and what goes on by itself.

import type { Clock } from '../lib/clock.ts'
import type { Store } from '../store/store.ts'
import { Dispatch } from './dispatch.ts'
import { Drained } from './drained.ts'
import { ForeignWorkers } from './foreign-workers.ts'
import { JobWatch } from './job-watch.ts'
import { LeaseLine } from './lease-line.ts'
import { Queue } from './queue.ts'
import { SecretBox } from './secret-box.ts'
import { runSweeper } from './sweeper.ts'
import { WebhookCall } from './webhook-call.ts'
import type { Telemetry } from './telemetry.ts'
import { Webhooks } from './webhooks.ts'
import { Workers } from './workers.ts'
import { Workforce } from './workforce.ts'

export interface ServiceSettings {
  /** Those that are served for sure: the store may have come back without one, and then it is made anew. */
  endpoints?: readonly string[]
  /** Seals what must not be readable in the store; without it no job with such things is taken. */
  secret?: string
  /** How long a lease lives unheard, ms. */
  leaseMs?: number
  /** Without it webhooks at addresses of this machine and of private networks are refused. */
  allowPrivateWebhooks?: boolean
  /** Signs webhook calls. */
  webhookSecret?: string
}

export interface ServiceOptions extends ServiceSettings {
  store: Store
  clock: Clock
  telemetry: Telemetry
  /** A worker asked to be recycled by whoever started it. */
  onRetired: (worker: { endpoint: string; worker: string }) => void
  onError: (cause: unknown) => void
}

const DEFAULT_LEASE_MS = 10_000

export class Service {
  readonly queue: Queue
  readonly dispatch: Dispatch
  readonly foreign: ForeignWorkers
  readonly workers: Workers
  /** For whoever starts workers. */
  readonly workforce: Workforce
  readonly #stopping = new AbortController()
  readonly #line: LeaseLine
  readonly #watch: JobWatch
  readonly #webhookCall: WebhookCall
  readonly #background: Promise<unknown>
  readonly #store: Store
  readonly #onError: (cause: unknown) => void

  constructor(options: ServiceOptions) {
    const { store, clock, telemetry, onError, onRetired, webhookSecret } = options
    const { leaseMs = DEFAULT_LEASE_MS, allowPrivateWebhooks = false } = options
    const stopping = this.#stopping.signal
    const secrets = options.secret === undefined ? undefined : new SecretBox(options.secret)
    const workers = new Workers({ clock, presence: store.presence, onError })
    const watch = new JobWatch(store)
    const drained = new Drained()
    const line = new LeaseLine({ store, clock, telemetry, onError, ...(secrets && { secrets }) })
    const call = new WebhookCall({
      allowPrivate: allowPrivateWebhooks,
      ...(webhookSecret !== undefined && { signingSecret: webhookSecret }),
    })
    this.#store = store
    this.#onError = onError
    this.workers = workers
    this.#watch = watch
    this.#line = line
    this.#webhookCall = call
    this.queue = new Queue({
      store,
      watch,
      clock,
      stopping,
      allowPrivateWebhooks,
      ...(options.endpoints && { endpoints: options.endpoints }),
      ...(secrets && { secrets }),
    })
    this.dispatch = new Dispatch({ store, line, workers, drained, clock, leaseMs, telemetry, onError })
    this.foreign = new ForeignWorkers({
      store,
      line,
      workers,
      drained,
      clock,
      stopping,
      telemetry,
      onRetired,
      onError,
    })
    const { dispatch, foreign } = this
    this.workforce = new Workforce({ store, clock, workers, dispatch, foreign })
    const webhooks = new Webhooks({
      store,
      clock,
      onError,
      onAttempt: (attempt) => telemetry.webhook(attempt),
      send: (request, signal) => call.send(request, signal),
    })
    this.#background = Promise.all([
      runSweeper({ store, clock, leaseMs, onError }, stopping),
      webhooks.run(stopping),
    ])
  }

  /** Answers whoever waits with what there is; from now on nobody is leased anything. */
  stop(): void {
    this.#stopping.abort()
    this.dispatch.close()
    this.foreign.close()
    this.workers.close()
    this.#store.leave().catch(this.#onError)
  }

  /** Resolves once nothing goes on any more. The store stays open. */
  async close(): Promise<void> {
    this.stop()
    this.#line.close()
    this.#watch.close()
    await this.#background
    await this.#webhookCall.close()
  }
}
