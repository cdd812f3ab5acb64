// A worker's metrics for Prometheus: one subscriber to its events.

import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { WorkerEvents } from './events.ts'
import type { Health } from './health.ts'

const SECONDS = [0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1_800]

/** Counts from now on; the answer gives the text that Prometheus reads. */
export function countWorkerEvents(
  events: WorkerEvents,
  health: () => Health,
): () => Promise<{ type: string; text: string }> {
  const register = new Registry()
  const registers = [register]
  collectDefaultMetrics({ register })
  const counter = <Label extends string>(
    name: string,
    help: string,
    labelNames: Label[] = [],
  ): Counter<Label> => new Counter({ name: `longshore_worker_${name}`, help, labelNames, registers })
  const gauge = (
    name: string,
    help: string,
    value: (now: Exclude<Health, { status: 'starting' }>) => number,
  ): void => {
    const collect = function (this: Gauge): void {
      const now = health()
      if (now.status !== 'starting') this.set(value(now))
    }
    register.registerMetric(new Gauge({ name: `longshore_worker_${name}`, help, registers: [], collect }))
  }
  const jobs = counter('jobs_total', 'Jobs that have ended here, by outcome.', ['outcome'])
  const seconds = new Histogram({
    name: 'longshore_worker_job_seconds',
    help: 'How long jobs ran.',
    buckets: SECONDS,
    registers,
  })
  const deaths = counter(
    'executor_deaths_total',
    'Handler processes that ended unasked, by signal or exit code.',
    ['cause'],
  )
  const stalls = counter(
    'stalls_total',
    'Times that a handler blocked its event loop for more than a second.',
  )
  const failures = counter('exchange_failures_total', 'Requests to the queue that came to nothing.')
  gauge('jobs_running', 'Jobs that run now.', ({ running }) => running)
  gauge('concurrency', 'Jobs that may run at a time.', ({ concurrency }) => concurrency)
  gauge('executors_ready', 'Handler processes that take jobs.', ({ executors }) => executors.ready)
  gauge(
    'last_answer_seconds',
    'Time since the queue last answered.',
    ({ lastAnswerMs }) => (lastAnswerMs ?? 0) / 1_000,
  )
  events.on('ended', ({ outcome, executionMs }) => {
    jobs.inc({ outcome })
    seconds.observe(executionMs / 1_000)
  })
  events.on('died', ({ signal, exitCode }) => deaths.inc({ cause: signal ?? `exit ${exitCode}` }))
  events.on('stalled', () => stalls.inc())
  events.on('unreachable', () => failures.inc())
  return async () => ({ type: register.contentType, text: await register.metrics() })
}
