// longshore start: a worker on a handler file, until it is told to stop.

import { existsSync } from 'node:fs'
import { systemClock } from '../lib/clock.ts'
import { createWorkerEvents, type WorkerEvents } from '../worker/events.ts'
import type { Health, HealthServer } from '../worker/health.ts'
import { followConcurrency } from '../worker/concurrency.ts'
import { ConfigError, handlerEnv, loadWorkerConfig, namesQueue, type WorkerConfig } from '../worker/config.ts'
import { Executor, type ExecutorSettings } from '../worker/executor.ts'
import { logWorkerEvents } from '../worker/log.ts'
import { Worker } from '../worker/worker.ts'
import { CommandError } from './fail.ts'
import { createLogger } from './logger.ts'
import { openLink, type QueueLink } from './queue-link.ts'
import { stopSignal } from './stop-signal.ts'

/** A worker, or with `test_input` one job. Where no queue is set, ./test_input.json is that job. */
export async function start(
  handlerPath: string,
  { test_input, testInput = test_input, ...flags }: Record<string, string>,
): Promise<void> {
  const input = testInput ?? (namesQueue(process.env) ? undefined : findTestInput())
  if (input === undefined) return work(handlerPath, flags)
  const { run } = await import('./run.ts')
  await run(handlerPath, input, '--test_input')
}

const TEST_INPUT = 'test_input.json'

function findTestInput(): string {
  if (!existsSync(TEST_INPUT)) {
    throw new CommandError(
      `No queue is set, and there is no ${TEST_INPUT} in ${process.cwd()}. Set LONGSHORE_ENDPOINT_URL and LONGSHORE_WORKER_TOKEN to work for a queue, or try one job with --test_input '{"input":{…}}'.`,
    )
  }
  process.stderr.write(`No queue is set: runs the job in ./${TEST_INPUT} once.\n`)
  return `@${TEST_INPUT}`
}

/** Starts the executor first and loads the rest beside it; leases once the handler is ready. */
async function work(handlerPath: string, flags: Record<string, string>): Promise<void> {
  const startedAt = systemClock.monotonic()
  const stop = stopSignal()
  const config = readConfig(flags)
  const events = createWorkerEvents()
  const clock = systemClock
  const executor = new Executor({
    handlerPath,
    env: handlerEnv(process.env),
    clock,
    events,
    output: 'lines',
    ...executorSettings(config),
  })
  const ready = executor.start()
  ready.catch(() => undefined)
  const logger = await createLogger('longshore-worker')
  logWorkerEvents(events, logger)
  const { link, endpointUrl, workerId, mends } = await openLink(config, { clock, events })
  let worker: Worker | undefined
  let watched: HealthServer | undefined
  try {
    watched = await watch(config, events, () => healthOf(worker, executor))
    const first = await Promise.race([ready, stop.told])
    if (first !== undefined) return
    const concurrency = config.concurrency ?? executor.facts?.concurrency ?? 1
    const { drainMs, killGraceMs } = config
    worker = new Worker({ link, executor, clock, events, concurrency, drainMs, killGraceMs })
    const leasing = worker
    stop.onSignal((signal) => leasing.drain(signal))
    void executor.hopeless.then((cause) => leasing.fail(cause))
    const startMs = Math.round(clock.monotonic() - startedAt)
    events.emit('ready', { endpointUrl, workerId, concurrency, startMs })
    if (executor.facts?.problem !== undefined) events.emit('resized', { problem: executor.facts.problem })
    leasing.start()
    const unfollow = executor.facts?.resizes
      ? followConcurrency({ executor, worker: leasing, events, clock })
      : undefined
    await leasing.left.finally(unfollow)
  } catch (cause) {
    throw explain(cause, mends)
  } finally {
    await executor.close()
    await link.close()
    watched?.close()
    stop.release()
  }
}

function healthOf(worker: Worker | undefined, executor: Executor): Health {
  if (!worker) return { status: 'starting' }
  const { readyProcesses: ready, processes, hasSpare } = executor
  return { ...worker.health, executors: { ready, processes, hasSpare } }
}

/** The port that others watch this worker by, when one is wanted. */
async function watch(
  { healthHost: host, healthPort: port }: WorkerConfig,
  events: WorkerEvents,
  health: () => Health,
): Promise<HealthServer | undefined> {
  if (port === undefined) return undefined
  const { serveHealth } = await import('../worker/health.ts')
  const { countWorkerEvents } = await import('../worker/metrics.ts')
  try {
    const server = await serveHealth({ host, port, health, metrics: countWorkerEvents(events, health) })
    events.emit('watched', { host, port: server.port })
    return server
  } catch (cause) {
    throw new CommandError(
      `The worker cannot listen on ${host}:${port} for --health-port: ${cause instanceof Error ? cause.message : String(cause)}. Choose another port.`,
    )
  }
}

function executorSettings(config: WorkerConfig): ExecutorSettings {
  const { executors, spare, importTimeoutMs, setupTimeoutMs, killGraceMs, maxJobsPerExecutor, maxMemoryMb } =
    config
  const settings: ExecutorSettings = { executors, spare, importTimeoutMs, setupTimeoutMs, killGraceMs }
  if (maxJobsPerExecutor !== undefined) settings.maxJobsPerExecutor = maxJobsPerExecutor
  if (maxMemoryMb !== undefined) settings.maxMemoryMb = maxMemoryMb
  return settings
}

function readConfig(flags: Record<string, string>): WorkerConfig {
  try {
    return loadWorkerConfig(process.env, flags)
  } catch (cause) {
    if (cause instanceof ConfigError) throw new CommandError(cause.message)
    throw cause
  }
}

function explain(cause: unknown, mends: QueueLink['mends']): unknown {
  if (!(cause instanceof Error) || !('status' in cause)) return cause
  const mend = cause.status === 401 ? mends.key : mends.other
  return new CommandError(`The queue refuses this worker: ${cause.message} ${mend}`)
}
