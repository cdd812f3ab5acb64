// longshore start: a worker on a handler file, until it is told to stop.

import { existsSync } from 'node:fs'
import { isStranger, resolve, settled, type Sources } from '../config/resolve.ts'
import { keysOf, settingKeys } from '../config/settings.ts'
import { systemClock } from '../lib/clock.ts'
import { createWorkerEvents, type WorkerEvents } from '../worker/events.ts'
import type { Health, HealthServer } from '../worker/health.ts'
import { followConcurrency } from '../worker/concurrency.ts'
import { handlerEnv, loadWorkerConfig, namesQueue, type WorkerConfig } from '../worker/config.ts'
import { Executor, type ExecutorSettings } from '../worker/executor.ts'
import type { LiveSocket } from '../worker/live-socket.ts'
import { logWorkerEvents } from '../worker/log.ts'
import { Worker } from '../worker/worker.ts'
import { CommandError } from './fail.ts'
import { createLogger } from './logger.ts'
import { openLink, type QueueLink } from './queue-link.ts'
import { gather, namedHandler, orCommandError, settingsFor, type Flags } from './sources.ts'
import { stopSignal } from './stop-signal.ts'

/** A worker, or with `testInput` one job. Where no queue is set, ./test_input.json is that job. */
export async function start(flags: Flags, testInput: string | undefined): Promise<void> {
  const sources = await gather(flags)
  // A flag that is none may have been meant to name one: a worker says so.
  const isForQueue = namesQueue(sources) || Object.values(sources.flags).some(isStranger)
  // A worker tells its problems with those of the queue.
  if (testInput !== undefined || !isForQueue) orCommandError(() => settled(resolve(sources, 'start')))
  const input = testInput ?? (isForQueue ? undefined : findTestInput(sources))
  if (input === undefined) return work(sources)
  const { runWith } = await import('./run.ts')
  // What only a worker for a queue has does nothing then.
  await runWith({ ...settingsFor('run', forRun(sources)), testInput: input, flag: '--test_input' })
}

function forRun({ flags, ...said }: Sources): Sources {
  const others = new Set<string>(settingKeys.filter((key) => !keysOf('run').includes(key)))
  return { ...said, flags: Object.fromEntries(Object.entries(flags).filter(([key]) => !others.has(key))) }
}

const TEST_INPUT = 'test_input.json'

/** In an image a forgotten variable is not to look like work that is done. */
function findTestInput({ env }: Sources): string {
  if (env['LONGSHORE_LIVE_SOCKET'] !== undefined)
    throw new CommandError(
      `No queue is set. Set LONGSHORE_ENDPOINT_URL and LONGSHORE_WORKER_TOKEN, for example with docker run -e, or try one job with "longshore run". As LONGSHORE_LIVE_SOCKET is set, this is a worker of an image, and does not run ${TEST_INPUT} instead.`,
    )
  if (!existsSync(TEST_INPUT)) {
    throw new CommandError(
      `No queue is set, and there is no ${TEST_INPUT} in ${process.cwd()}. Set LONGSHORE_ENDPOINT_URL and LONGSHORE_WORKER_TOKEN to work for a queue, or try one job with --test_input '{"input":{…}}'.`,
    )
  }
  process.stderr.write(`No queue is set: runs the job in ./${TEST_INPUT} once.\n`)
  return `@${TEST_INPUT}`
}

/** Starts the executor first and loads the rest beside it; leases once the handler is ready. */
async function work(sources: Sources): Promise<void> {
  const startedAt = systemClock.monotonic()
  const stop = stopSignal()
  const { config, warnings } = orCommandError(() => loadWorkerConfig(sources))
  const handlerPath = namedHandler(config, 'start')
  const events = createWorkerEvents()
  const clock = systemClock
  const executor = new Executor({
    handlerPath,
    env: handlerEnv(process.env, config),
    clock,
    events,
    output: 'lines',
    ...executorSettings(config),
  })
  const ready = executor.start()
  ready.catch(() => undefined)
  const logger = await createLogger('longshore-worker', config.logLevel)
  for (const sentence of warnings) logger.warn(sentence)
  logWorkerEvents(events, logger)
  const { link, endpointUrl, workerId, mends } = await openLink(config, { clock, events })
  let worker: Worker | undefined
  let watched: HealthServer | undefined
  let live: LiveSocket | undefined
  try {
    live = await openLive(config, events, () => healthOf(worker, executor))
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
    live?.close()
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

/** Where `longshore doctor --live` asks. A worker does its work without it too, so that it only warns. */
async function openLive(
  { liveSocket: path }: WorkerConfig,
  events: WorkerEvents,
  health: () => Health,
): Promise<LiveSocket | undefined> {
  if (path === undefined) return undefined
  const { openLiveSocket } = await import('../worker/live-socket.ts')
  try {
    return await openLiveSocket({ path, status: () => health().status })
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    events.emit('warned', {
      message: `"longshore doctor --live" cannot ask this worker at ${path}: ${why}. Set LONGSHORE_LIVE_SOCKET to a path of its own.`,
    })
    return undefined
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

function explain(cause: unknown, mends: QueueLink['mends']): unknown {
  if (!(cause instanceof Error) || !('status' in cause)) return cause
  const mend = cause.status === 401 ? mends.key : mends.other
  return new CommandError(`The queue refuses this worker: ${cause.message} ${mend}`)
}
