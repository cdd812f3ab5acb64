// longshore dev: a queue service and a worker in one, and a fresh executor after every save.

import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { JobBoard } from '../dev/job-board.ts'
import { resolve as resolveSettings } from '../config/resolve.ts'
import type { Settled } from '../config/settings.ts'
import { Reloads } from '../dev/reloads.ts'
import { Screen } from '../dev/screen.ts'
import { readTerminalKeys } from '../dev/terminal-keys.ts'
import { sayWorkerEvents } from '../dev/worker-words.ts'
import { systemClock as clock } from '../lib/clock.ts'
import { LOCAL_BUCKET } from '../s3/config.ts'
import { shownStore } from '../store/shown-store.ts'
import { handlerEnv } from '../worker/config.ts'
import { createWorkerEvents } from '../worker/events.ts'
import { Executor } from '../worker/executor.ts'
import { findHandlerFile } from '../worker/handler.ts'
import type { DevService } from './dev-service.ts'
import type { LogLevel } from './logger.ts'
import { codeFrame, sourceFrame } from './source-frame.ts'
import { gather, namedHandler, settingsFor, type Flags } from './sources.ts'
import { stopSignal, type StopSignal } from './stop-signal.ts'
import { testInputBeside } from './test-input.ts'

export interface DevOptions {
  /** What was said of it; without that a port is taken which is free. */
  port?: number
  logLevel: LogLevel
}

export async function devCommand(flags: Flags): Promise<void> {
  const sources = await gather(flags)
  const settings = settingsFor('dev', sources)
  const { origins } = resolveSettings(sources, 'dev')
  await dev(settings, {
    ...(origins.port !== undefined && { port: settings.port }),
    // A terminal that is drawn on has room for what is worth a warning.
    logLevel: origins.logLevel === undefined ? 'warn' : settings.logLevel,
  })
}

/** Runs until it is told to stop, and leaves nothing running. */
async function dev(settings: Settled<'dev'>, options: DevOptions): Promise<void> {
  const handlerPath = namedHandler(settings, 'dev')
  const { killGraceMs, importTimeoutMs, setupTimeoutMs } = settings
  const handlerFile = findHandlerFile(handlerPath)
  const stop = stopSignal()
  const screen = new Screen(process.stdout)
  const events = createWorkerEvents()
  sayWorkerEvents(events, screen)
  const executor = new Executor({
    handlerPath,
    env: { ...handlerEnv(process.env, settings), [LOCAL_BUCKET]: join(process.cwd(), 'local-bucket') },
    clock,
    events,
    output: 'lines',
    executors: 1,
    spare: 'bare',
    importTimeoutMs,
    setupTimeoutMs,
    killGraceMs,
    isInDevelopment: true,
  })
  const reloads = new Reloads({ handlerFile, executor, events, screen, clock, codeFrame })
  // How it fares is told by its events, now and after every save.
  executor.start().catch(() => undefined)
  stop.onSignal(() => reloads.close())
  endAtOnceWhenToldTwice(stop, executor)
  // Undone from the last to the first, each whatever becomes of the others.
  const closing = new AsyncDisposableStack()
  closing.defer(() => stop.release())
  closing.defer(() => executor.close())
  closing.defer(() => reloads.close())
  try {
    // The handler is loaded in its process meanwhile.
    const { startDevService } = await import('./dev-service.ts')
    const { startDevWorker } = await import('./dev-worker.ts')
    const say = (line: string): void => screen.print(line)
    const service = await startDevService({ ...options, settings, say })
    closing.defer(() => service.close())
    if (stop.isTold) return
    const sample = sampleOf(handlerPath)
    screen.print(greeting(service, settings.devStore, sample))
    const board = new JobBoard({
      executor,
      screen,
      clock,
      frameOf: ({ stack }) => stack && sourceFrame(stack),
    })
    const { endpointUrl, key } = service
    const worker = startDevWorker({ executor, board, events, endpointUrl, key, killGraceMs })
    closing.defer(() => board.close())
    closing.defer(() => worker.close())
    closing.defer(takeKeys({ screen, reloads, service, sample }))
    await stop.told
  } finally {
    await closing.disposeAsync()
  }
}

/** A second signal does not wait for anybody; only the handler's processes are seen off. */
function endAtOnceWhenToldTwice(stop: StopSignal, executor: Executor): void {
  let signals = 0
  stop.onSignal(() => {
    signals += 1
    // oxlint-disable-next-line unicorn/no-process-exit -- whatever still waits is what it is not to wait for
    if (signals === 2) void executor.close().finally(() => process.exit(0))
  })
  // The terminal was closed, or whoever read this went away: nobody is left to say anything else.
  const end = (): void => void process.kill(process.pid, 'SIGTERM')
  process.once('SIGHUP', end)
  process.stdout.once('error', end).on('error', () => undefined)
}

/** The file beside the handler, which may come and go. */
interface Sample {
  /** As it is said. */
  name: string
  file: string
}

function sampleOf(handlerPath: string): Sample {
  const name = testInputBeside(handlerPath)
  return { name, file: resolve(name) }
}

function greeting({ endpointUrl, key }: DevService, store: string, { file }: Sample): string {
  const data = existsSync(file) ? quoted(`@${file}`) : `'{"input":{}}'`
  const kept =
    store === 'sqlite::memory:' ? 'jobs are kept in memory' : `jobs are kept in ${shownStore(store)}`
  return [
    `Serving ${endpointUrl}  (${kept})`,
    '',
    `  curl ${endpointUrl}/runsync -H 'Authorization: Bearer ${key}' -d ${data}`,
    '',
  ].join('\n')
}

/** As a shell takes it for one word. */
function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

interface Offer {
  screen: Screen
  reloads: Reloads
  service: DevService
  sample: Sample
}

function takeKeys({ screen, reloads, service, sample }: Offer): () => void {
  const { stdin } = process
  if (!stdin.isTTY || !screen.isLive) return () => undefined
  const once = existsSync(sample.file) ? '' : ', once it is there'
  screen.print(`Enter sends ${sample.name}${once} · r loads the handler again · Ctrl-C ends\n`)
  return readTerminalKeys({
    stdin,
    keys: {
      r: () => reloads.again(),
      '\r': () => void send(sample, service).catch((cause: Error) => screen.print(cause.message)),
    },
    onResumed: () => screen.print(''),
  })
}

async function send({ name, file }: Sample, { endpointUrl, key: token }: DevService): Promise<void> {
  const body = sampleIn(name, file)
  const { Http, QueueRefusedError } = await import('../client/http.ts')
  const http = new Http({ endpointUrl, token })
  try {
    await http.request({
      method: 'POST',
      path: '/run',
      headers: { 'content-type': 'application/json' },
      body,
      timeoutMs: 10_000,
    })
  } catch (cause) {
    // What is refused is what stands in the file.
    if (cause instanceof QueueRefusedError) throw new Error(`${name}: ${cause.message}`, { cause })
    throw cause
  } finally {
    await http.close()
  }
}

function sampleIn(name: string, file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === 'ENOENT'
    const what = isMissing
      ? `There is no ${name}. Write one, such as {"input":{}}, and press Enter again.`
      : `${name} cannot be read: ${(cause as Error).message}.`
    throw new Error(what, { cause })
  }
}
