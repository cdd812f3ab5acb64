// The handler's process: loads the author's file once, then runs jobs that the supervisor sends over a socket.

import { AsyncLocalStorage } from 'node:async_hooks'
import { writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { encodeFrame, FrameDecoder } from '../lib/frames.ts'
import { ChildRun, describeThrown } from './child-run.ts'
import type { HandlerDefinition } from './define-handler.ts'
import { findHandlerFile, loadHandler } from './handler.ts'
import { HandlerLoadError } from './load-failure.ts'
import type { FromChild, ToChild } from './messages.ts'

/** The socket to the supervisor, inherited at this descriptor. */
const SOCKET_FD = 3
const LIMITS = { headBytes: 1_048_576, payloadBytes: 64_000_000 }

const socket = new Socket({ fd: SOCKET_FD })
const runs = new Map<number, ChildRun>()
/** Tells, in hooks that fire anywhere, on whose behalf the code was running. */
const current = new AsyncLocalStorage<number>()

let outgoing: Uint8Array[] = []

/** Frames of one turn leave in one write: that is most of the cost of a small job. */
function send(head: FromChild, payload?: Uint8Array): void {
  if (outgoing.length === 0) queueMicrotask(() => setImmediate(flush))
  outgoing.push(...encodeFrame(head, payload))
}

function flush(): void {
  if (outgoing.length === 0) return
  const frames = outgoing
  outgoing = []
  socket.write(frames.length === 1 && frames[0] ? frames[0] : Buffer.concat(frames))
}

async function main(): Promise<void> {
  // Without its supervisor nobody wants the results.
  socket.on('close', () => process.exit(0))
  socket.on('error', () => process.exit(0))
  installDeathReports()
  let definition: HandlerDefinition
  try {
    definition = await prepare(process.argv[2] ?? '')
  } catch (cause) {
    const error =
      cause instanceof HandlerLoadError ? cause : new HandlerLoadError('SETUP_FAILED', String(cause))
    send({ type: 'unready', code: error.code, message: error.message })
    flush()
    socket.end(() => process.exit(1))
    return
  }
  const decoder = new FrameDecoder(LIMITS)
  socket.on('data', (bytes) => {
    for (const { head, payload } of decoder.push(bytes)) obey(definition, head as ToChild, payload)
  })
  send({ type: 'ready' })
}

async function prepare(path: string): Promise<HandlerDefinition> {
  const definition = await loadHandler(findHandlerFile(path))
  try {
    await definition.setup?.()
  } catch (cause) {
    const { message, stack } = describeThrown(cause)
    const place = stack?.split('\n').find((line) => line.includes('file://') || line.includes('/'))
    throw new HandlerLoadError(
      'SETUP_FAILED',
      `setup() of ${path} failed: ${message}${place ? ` (${place.trim()})` : ''}. Mend it, then start again.`,
    )
  }
  return definition
}

function obey(definition: HandlerDefinition, message: ToChild, payload: Uint8Array): void {
  switch (message.type) {
    case 'run': {
      const run = new ChildRun(definition, message, { send, flush })
      runs.set(message.run, run)
      current.run(message.run, () => void run.execute(payload).finally(() => runs.delete(message.run)))
      return
    }
    case 'abort':
      return runs.get(message.run)?.abort(message.reason)
    case 'stored':
      return runs.get(message.run)?.stored(message.bytes)
    case 'leave':
      flush()
      return void socket.end(() => process.exit(0))
    default:
      message satisfies never
  }
}

/** An accident is charged to the job whose code caused it, where that can be told. */
function installDeathReports(): void {
  const die = (thrown: unknown): void => {
    const run = current.getStore()
    const error = { ...describeThrown(thrown), code: 'UNCAUGHT' }
    if (run !== undefined) runs.get(run)?.fail(error)
    process.stderr.write(`${error.stack ?? error.message}\n`)
    flush()
    socket.end(() => process.exit(1))
  }
  process.on('uncaughtException', die)
  process.on('unhandledRejection', die)
  process.on('exit', (code) => {
    const run = current.getStore()
    if (run === undefined || !runs.has(run)) return
    const message = `The handler called process.exit(${code}), which ended its process. Return or throw instead.`
    const frame = encodeFrame({
      type: 'failed',
      run,
      executionMs: 0,
      error: { type: 'ExitError', message, code: 'EXITED' },
    })
    try {
      writeSync(SOCKET_FD, Buffer.concat([...outgoing, ...frame]))
    } catch {
      // The pipe is full or gone: the supervisor sees the exit code all the same.
    }
  })
}

void main()
