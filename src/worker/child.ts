// The handler's process: loads the author's file once, then runs jobs that the supervisor sends over a socket.

import { AsyncLocalStorage } from 'node:async_hooks'
import { writeFileSync, writeSync } from 'node:fs'
import { setSourceMapsSupport } from 'node:module'
import { Socket } from 'node:net'
import { StringDecoder } from 'node:string_decoder'
import { Worker } from 'node:worker_threads'
import type { JobError } from '../job/job.ts'
import { limits } from '../job/limits.ts'
import { encodeFrame, FrameDecoder } from '../lib/frames.ts'
import {
  bytesFrom,
  concatBytes,
  stringifyJson,
  monotonicMs,
  queueSoon,
  queueTurn,
} from '../lib/intrinsics.ts'
import { isClosedReason } from '../s3/closed-reason.ts'
import { readS3Environment } from '../s3/config.ts'
import { ChildRun } from './child-run.ts'
import type { HandlerDefinition } from './define-handler.ts'
import { versionOf } from './file-version.ts'
import { findHandlerFile, loadHandler, type ImportWatch } from './handler.ts'
import { HandlerLoadError, setupFailed } from './load-failure.ts'
import type { EndNote, FromChild, HandlerFacts, ToChild } from './messages.ts'
import { Masker } from './mask.ts'
import { LineMarker } from './output-lines.ts'
import { describeThrown, maskedError } from './thrown.ts'
import { findTracing, type WithinTrace } from './tracing.ts'

/** The socket to the supervisor, inherited at this descriptor, and the one of the watchdog. */
const SOCKET_FD = 3
const WATCHDOG_FD = 4
/** Longer than the turn of a busy loop, so that what is sent in one turn leaves in one write. */
const FLUSH_MS = 100
const NOTE_CHARS = 8_000
const LIMITS = { headBytes: 1_048_576, payloadBytes: 64_000_000 }

const socket = new Socket({ fd: SOCKET_FD })
const runs = new Map<number, ChildRun>()
/** Tells, in hooks that fire anywhere, on whose behalf the code was running. */
const current = new AsyncLocalStorage<number>()
const masker = new Masker(readS3Environment().bucket)

let definition: HandlerDefinition | undefined
let withinTrace: WithinTrace = (_trace, call) => call()
let reportsMemory = false
let runtimeMs = 0
let outgoing: Uint8Array[] = []
let flushedAt = 0
/** The last word is said: what comes after it would break it off. */
let isDying = false

/** Frames of one turn leave in one write: that is most of the cost of a small job. */
function send(head: FromChild, payload?: Uint8Array): void {
  if (isDying) return
  if (outgoing.length === 0) queueSoon(() => queueTurn(flush))
  outgoing.push(...encodeFrame(head, payload))
  // A handler that computes without a pause has its progress and its log seen all the same.
  if (monotonicMs() - flushedAt > FLUSH_MS) flush()
}

function flush(): void {
  if (outgoing.length === 0) return
  const frames = outgoing
  outgoing = []
  flushedAt = monotonicMs()
  socket.write(frames.length === 1 && frames[0] ? frames[0] : concatBytes(frames))
}

function main(): void {
  // Without its supervisor nobody wants the results.
  socket.on('close', () => process.exit(0))
  socket.on('error', () => process.exit(0))
  offerToTheKernel()
  installDeathReports()
  markOutput()
  startWatchdog()
  runtimeMs = monotonicMs()
  send({ type: 'up' })
  const decoder = new FrameDecoder(LIMITS)
  socket.on('data', (bytes) => {
    for (const { head, payload } of decoder.push(bytes)) obey(head as ToChild, payload)
  })
}

function obey(message: ToChild, payload: Uint8Array): void {
  switch (message.type) {
    case 'load':
      reportsMemory = message.reportsMemory
      return void load(message.handlerPath, message.reportsFiles ? tellFiles : undefined)
    case 'run':
      return begin(message, payload)
    case 'abort':
      return runs.get(message.run)?.abort(message.reason)
    case 'stored':
      return runs.get(message.run)?.stored(message.bytes)
    case 'resize':
      return void resize(message.current)
    case 'leave':
      flush()
      return void socket.end(() => process.exit(0))
    default:
      message satisfies never
  }
}

async function load(path: string, watch: ImportWatch | undefined): Promise<void> {
  const from = monotonicMs()
  try {
    const { loaded, importedAt } = await prepare(path, watch)
    definition = loaded
    const setupMs = monotonicMs() - importedAt
    const start = { runtimeMs, importMs: importedAt - from, setupMs, rssBytes: process.memoryUsage.rss() }
    send({ type: 'ready', facts: factsOf(loaded), start })
  } catch (cause) {
    const error =
      cause instanceof HandlerLoadError ? cause : new HandlerLoadError('SETUP_FAILED', String(cause))
    const { code, message, place } = error
    send({ type: 'unready', code, message, ...(place && { place }) })
    flush()
    socket.end(() => process.exit(1))
  }
}

/** At once: an import may block this process for ever, and what it read then is what has to be mended. */
function tellFile(path: string, more: { isSearched?: true } = {}): void {
  send({ type: 'file', file: { path, version: versionOf(path), ...more } })
  flush()
}

const tellFiles: ImportWatch = {
  loads: (file) => tellFile(file),
  misses: (folder) => tellFile(folder, { isSearched: true }),
}

async function prepare(
  path: string,
  watch: ImportWatch | undefined,
): Promise<{ loaded: HandlerDefinition; importedAt: number }> {
  const file = findHandlerFile(path)
  // A handler that was bundled or compiled speaks of its author's lines all the same.
  setSourceMapsSupport(true, { nodeModules: false })
  const loaded = await loadHandler(file, watch)
  withinTrace = await findTracing(file)
  send({ type: 'imported' })
  const importedAt = monotonicMs()
  try {
    await loaded.setup?.()
  } catch (cause) {
    throw setupFailed(path, describeThrown(cause).message, cause)
  }
  return { loaded, importedAt }
}

function factsOf({ refresh = false, concurrency }: HandlerDefinition): HandlerFacts {
  const facts = { refresh, resizes: typeof concurrency === 'function' }
  if (concurrency === undefined || facts.resizes) return facts
  const problem = problemOf('concurrency', concurrency)
  return problem === undefined ? { ...facts, concurrency: Number(concurrency) } : { ...facts, problem }
}

function begin(message: Extract<ToChild, { type: 'run' }>, input: Uint8Array): void {
  if (!definition) return
  masker.learn(message.run, message.s3Config)
  const run = new ChildRun(definition, message, { send, flush, reportsMemory, mask: masker.mask })
  runs.set(message.run, run)
  current.run(message.run, () => {
    void withinTrace(message.trace, () => run.execute(input)).finally(() => {
      runs.delete(message.run)
      masker.forget(message.run)
    })
  })
}

function problemOf(name: string, wanted: unknown): string | undefined {
  const isFit = Number.isInteger(wanted) && Number(wanted) >= 1 && Number(wanted) <= limits.concurrency
  if (isFit) return undefined
  const got = typeof wanted === 'number' ? String(wanted) : describeThrown(wanted).message
  return `${name} of the handler must be a whole number from 1 to ${limits.concurrency}, got ${got}.`
}

async function resize(now: number): Promise<void> {
  const ask = definition?.concurrency
  if (typeof ask !== 'function') return
  try {
    const wanted = await ask(now)
    const problem = problemOf(`concurrency(${now})`, wanted)
    send(problem === undefined ? { type: 'resized', concurrency: wanted } : { type: 'resized', problem })
  } catch (cause) {
    send({
      type: 'resized',
      problem: `concurrency(${now}) of the handler threw: ${describeThrown(cause).message}`,
    })
  }
}

/** When memory runs out, the kernel is to take this process and not the supervisor, whatever else is larger. */
function offerToTheKernel(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000')
  } catch {
    // Not Linux, or not allowed here: then the kernel chooses.
  }
}

/** Printed lines carry the run they belong to; written at once, so that they survive whatever comes next. */
function markOutput(): void {
  for (const stream of [process.stdout, process.stderr]) {
    const marker = new LineMarker()
    // A character may come in two writes, as from a program whose output is passed on.
    const decoder = new StringDecoder('utf8')
    let last: number | undefined
    const write = stream.write.bind(stream)
    stream.write = (chunk: Uint8Array | string, ...rest: unknown[]): boolean => {
      const run = current.getStore()
      const encoding = typeof rest[0] === 'string' ? (rest[0] as BufferEncoding) : undefined
      // What was begun by another, or in bytes before a text, comes to no more.
      const cut = run !== last || typeof chunk === 'string' ? decoder.end() : ''
      const begun = cut === '' ? '' : marker.mark(cut, last)
      last = run
      const text =
        typeof chunk === 'string'
          ? bytesFrom(chunk, encoding).toString('utf8')
          : decoder.write(bytesFrom(chunk))
      const callback = rest.find((one) => typeof one === 'function') as (() => void) | undefined
      return write(begun + marker.mark(masker.mask(text), run), callback)
    }
  }
}

function startWatchdog(): void {
  const extension = import.meta.filename.endsWith('.ts') ? 'ts' : 'js'
  const watchdog = new Worker(new URL(`./watchdog.${extension}`, import.meta.url), {
    stdout: false,
    stderr: false,
  })
  watchdog.on('message', () => watchdog.postMessage('turned'))
  // Without it a handler is only less well guarded.
  watchdog.on('error', (cause) =>
    process.stderr.write(`The watchdog of this process failed: ${describeThrown(cause).message}\n`),
  )
  watchdog.unref()
}

/** An accident is charged to the job whose code caused it, where that can be told. */
function installDeathReports(): void {
  const die = (thrown: unknown): void => {
    if (isDying) return
    const run = current.getStore()
    const error = maskedError({ ...describeThrown(thrown), code: 'UNCAUGHT' }, masker.mask)
    send(dying(run, error))
    flush()
    isDying = true
    // Should the socket not get that far, it is known all the same whose doing this is.
    if (run !== undefined) noteAtOnce({ error: inShort(error), run })
    socket.end(() => process.exit(1))
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', (thrown) => {
    // A transfer that its job did not wait for was stopped with it: nobody is the worse for that.
    if (!isClosedReason(thrown)) die(thrown)
  })
  process.on('exit', (exitCode) => {
    const run = current.getStore()
    if (run === undefined || socket.writableEnded) return
    noteAtOnce({ exitCode, run })
    // Between the pieces of a frame that is still being written this would be garbage.
    if (socket.writableLength === 0 && outgoing.length > 0) writeAtOnce(SOCKET_FD, concatBytes(outgoing))
  })
}

/** As much of it as a pipe takes in one write. */
function inShort({ type, message, stack, code }: JobError): JobError {
  const short = { type: type.slice(0, 1_000), message: message.slice(0, NOTE_CHARS), code }
  return stack === undefined ? short : { ...short, stack: stack.slice(0, NOTE_CHARS) }
}

function noteAtOnce(note: EndNote): void {
  writeAtOnce(WATCHDOG_FD, bytesFrom(`\n${stringifyJson(note)}\n`))
}

function writeAtOnce(descriptor: number, bytes: Uint8Array): void {
  try {
    writeSync(descriptor, bytes)
  } catch {
    // The pipe is full or gone: the supervisor sees the exit code all the same.
  }
}

function dying(run: number | undefined, error: JobError): FromChild {
  return run === undefined ? { type: 'dying', error } : { type: 'dying', run, error }
}

main()
