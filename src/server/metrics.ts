// The service's metrics for Prometheus: what it counts while it runs, and what the store knows when it is asked.

import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { FastifyInstance } from 'fastify'
import type { Clock } from '../lib/clock.ts'
import type { Telemetry } from '../queue/telemetry.ts'
import type { Workers } from '../queue/workers.ts'
import type { JobCounts } from '../store/job-store.ts'
import type { Store } from '../store/store.ts'

const WAIT_SECONDS = [0.005, 0.02, 0.1, 0.5, 2, 10, 60, 600, 3_600]
const RUN_SECONDS = [0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1_800]
const HTTP_SECONDS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60]

export class Metrics implements Telemetry {
  readonly #register = new Registry()
  readonly #leaseWait: Histogram<'endpoint'>
  readonly #runTime: Histogram<'endpoint' | 'outcome'>
  readonly #webhooks: Counter<'endpoint' | 'result'>
  readonly #http: Histogram<'method' | 'route' | 'status'>

  constructor() {
    const registers = [this.#register]
    collectDefaultMetrics({ register: this.#register })
    this.#leaseWait = new Histogram({
      name: 'longshore_lease_wait_seconds',
      help: 'How long jobs waited before a worker got them.',
      labelNames: ['endpoint'],
      buckets: WAIT_SECONDS,
      registers,
    })
    this.#runTime = new Histogram({
      name: 'longshore_run_seconds',
      help: 'How long runs took, by what they came to.',
      labelNames: ['endpoint', 'outcome'],
      buckets: RUN_SECONDS,
      registers,
    })
    this.#webhooks = new Counter({
      name: 'longshore_webhook_attempts_total',
      help: 'Tries of webhooks, by what they came to.',
      labelNames: ['endpoint', 'result'],
      registers,
    })
    this.#http = new Histogram({
      name: 'longshore_http_request_seconds',
      help: 'Requests by route, with the time until they were answered.',
      labelNames: ['method', 'route', 'status'],
      buckets: HTTP_SECONDS,
      registers,
    })
  }

  leased(endpoint: string, waitedMs: number): void {
    this.#leaseWait.observe({ endpoint }, waitedMs / 1000)
  }

  ran(endpoint: string, outcome: string, executionMs: number): void {
    this.#runTime.observe({ endpoint, outcome }, executionMs / 1000)
  }

  webhook({ endpoint, result }: Parameters<Telemetry['webhook']>[0]): void {
    this.#webhooks.inc({ endpoint, result })
  }

  /** Counts every request that comes to a route. */
  watchRequests(http: FastifyInstance): void {
    http.addHook('onResponse', async (request, reply) => {
      const { method, routeOptions } = request
      const labels = { method, route: routeOptions.url ?? 'none', status: String(reply.statusCode) }
      this.#http.observe(labels, reply.elapsedTime / 1000)
    })
  }

  /** Adds what the store and the workers are like at the moment of asking. */
  watchQueues({ store, workers, clock }: { store: Store; workers: Workers; clock: Clock }): void {
    const gauge = (
      name: string,
      help: string,
      of: (endpoint: string) => Promise<Record<string, number>>,
      label?: 'state',
    ): void => {
      const collect = async function (this: Gauge): Promise<void> {
        this.reset()
        for (const { id: endpoint } of await store.endpoints.listEndpoints()) {
          for (const [state, value] of Object.entries(await of(endpoint))) {
            this.set(label ? { endpoint, state } : { endpoint }, value)
          }
        }
      }
      const labelNames = label ? ['endpoint', label] : ['endpoint']
      this.#register.registerMetric(
        new Gauge({ name: `longshore_${name}`, help, labelNames, registers: [], collect }),
      )
    }
    gauge(
      'jobs',
      'Jobs that wait and that run.',
      async (endpoint) => {
        const { inQueue, inProgress } = await store.jobs.count(endpoint)
        return { in_queue: inQueue, in_progress: inProgress }
      },
      'state',
    )
    const totals: [name: string, help: string, of: (counts: JobCounts) => number][] = [
      ['jobs_completed', 'Jobs that were ever completed.', ({ completed }) => completed],
      ['jobs_failed', 'Jobs that ever failed or timed out.', ({ failed }) => failed],
      ['jobs_retried', 'Attempts that were ever lost, and retries.', ({ retried }) => retried],
    ]
    for (const [name, help, of] of totals) {
      const collect = async function (this: Counter): Promise<void> {
        this.reset()
        for (const { id: endpoint } of await store.endpoints.listEndpoints()) {
          this.inc({ endpoint }, of(await store.jobs.count(endpoint)))
        }
      }
      const config = {
        name: `longshore_${name}_total`,
        help,
        labelNames: ['endpoint'],
        registers: [],
        collect,
      }
      this.#register.registerMetric(new Counter(config))
    }
    gauge('queue_age_seconds', 'How long the job at the head of the queue has waited.', async (endpoint) => ({
      age: (await store.jobs.headWaitedMs(endpoint, clock.now())) / 1000,
    }))
    gauge(
      'workers',
      'Workers by what they do.',
      async (endpoint) => ({ ...(await workers.count(endpoint)) }),
      'state',
    )
  }

  async text(): Promise<{ type: string; text: string }> {
    return { type: this.#register.contentType, text: await this.#register.metrics() }
  }
}
