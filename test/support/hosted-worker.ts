// A worker on the hosted wire whose runs a test plays itself.

import { onTestFinished } from 'vitest'
import { HostedLink, type HostedLinkOptions } from '../../src/client/hosted-link.ts'
import type { HostedUrls } from '../../src/client/hosted-wire.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { createWorkerEvents, type WorkerEventMap } from '../../src/worker/events.ts'
import type { AbortReason } from '../../src/worker/define-handler.ts'
import type { Outcome } from '../../src/worker/outcome.ts'
import type { Assignment, RunListener } from '../../src/worker/run.ts'
import { Worker } from '../../src/worker/worker.ts'
import { Facts } from './facts.ts'

export interface PlayedRun {
  assignment: Assignment
  input: unknown
  listener: RunListener
  /** Bytes of chunks that are stored. */
  readonly stored: number
  /** Why it was told to stop; the test ends it. */
  readonly reason: AbortReason | undefined
  chunk(value: unknown, metrics?: string): void
  progress(value: unknown): void
  complete(output: unknown, more?: { refresh?: true }): void
  fail(message: string): void
  end(outcome: Outcome): void
}

export interface HostedWorker {
  worker: Worker
  link: HostedLink
  runs: Facts<PlayedRun>
  warnings: Facts<{ message: string; id?: string | undefined }>
  unreachable: Facts<WorkerEventMap['unreachable'][0]>
  reachable: Facts<WorkerEventMap['reachable'][0]>
  /** The run of a job, once it has begun. */
  runOf: (id: string) => Promise<PlayedRun>
}

export function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value))
}

export function hostedLink(
  urls: HostedUrls,
  options: Partial<HostedLinkOptions> = {},
): { link: HostedLink; warnings: HostedWorker['warnings'] } {
  const warnings: HostedWorker['warnings'] = new Facts()
  const link = new HostedLink({
    urls,
    workerId: 'w1',
    apiKey: 'the key',
    pingIntervalMs: 60_000,
    version: 'longshore-1.2.3',
    hostname: 'host-1',
    clock: systemClock,
    onWarning: (message, id) => warnings.add({ message, id }),
    ...options,
  })
  onTestFinished(() => link.close())
  return { link, warnings }
}

/** A worker that has begun to take jobs, for one test. */
export function startHostedWorker(
  urls: HostedUrls,
  {
    concurrency = 1,
    drainMs = 5_000,
    ...options
  }: Partial<HostedLinkOptions> & { concurrency?: number; drainMs?: number } = {},
): HostedWorker {
  const { link, warnings } = hostedLink(urls, options)
  const runs = new Facts<PlayedRun>()
  const unreachable: HostedWorker['unreachable'] = new Facts()
  const reachable: HostedWorker['reachable'] = new Facts()
  const events = createWorkerEvents()
  events.on('unreachable', (fact) => unreachable.add(fact))
  events.on('reachable', (fact) => reachable.add(fact))
  const worker = new Worker({
    link,
    executor: { run: (assignment, listener) => play(assignment, listener, runs) },
    clock: systemClock,
    events,
    concurrency,
    drainMs,
    killGraceMs: 100,
  })
  worker.left.catch(() => undefined)
  onTestFinished(() => worker.fail(new Error('The test is over.')))
  worker.start()
  const runOf = (id: string): Promise<PlayedRun> => runs.first(({ assignment }) => assignment.id === id)
  return { worker, link, runs, warnings, unreachable, reachable, runOf }
}

function play(
  assignment: Assignment,
  listener: RunListener,
  runs: Facts<PlayedRun>,
): ReturnType<ConstructorParameters<typeof Worker>[0]['executor']['run']> {
  const { promise, resolve } = Promise.withResolvers<Outcome>()
  let stored = 0
  let reason: AbortReason | undefined
  const run: PlayedRun = {
    assignment,
    input: JSON.parse(Buffer.from(assignment.input).toString('utf8')),
    listener,
    get stored() {
      return stored
    },
    get reason() {
      return reason
    },
    chunk: (value, metrics) =>
      listener.onChunk({ output: json(value), ...(metrics !== undefined && { metrics }) }),
    progress: (value) => listener.onProgress(json(value)),
    complete: (output, more) => resolve({ kind: 'completed', output: json(output), executionMs: 1, ...more }),
    fail: (message) =>
      resolve({
        kind: 'failed',
        error: { type: 'RangeError', message, code: 'HANDLER_ERROR' },
        executionMs: 1,
      }),
    end: resolve,
  }
  // The worker looks at the run before anything comes of it.
  queueMicrotask(() => {
    listener.onStart()
    runs.add(run)
  })
  return {
    outcome: promise,
    abort: (why) => {
      reason ??= why
      resolve({ kind: 'stopped', reason: why, executionMs: 1 })
    },
    stored: (bytes) => void (stored += bytes),
  }
}
