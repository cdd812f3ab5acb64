// One job in the handler's process: call the handler, stream what it yields, serialise what it returns.

import { mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { pieceWeight, splitBytes, splitJson, type Piece } from '../job/chunk.ts'
import { limits } from '../job/limits.ts'
import type { JobError } from '../job/job.ts'
import type { JobFailureCode } from '../protocol/errors.ts'
import {
  isYieldedChunk,
  type HandlerDefinition,
  type Job,
  type JobContext,
  type JobLog,
  type LogMethod,
} from './define-handler.ts'
import type { FromChild, ToChild } from './messages.ts'
import { NotJsonError, TooLargeError, toJson } from './serialise.ts'

export type Send = (head: FromChild, payload?: Uint8Array) => void

export interface Outgoing {
  send: Send
  /** Writes what was sent now rather than at the end of the turn. */
  readonly flush: () => void
}

type RunMessage = Extract<ToChild, { type: 'run' }>

/** A failure with a code of its own, as opposed to whatever a handler may throw. */
class RunFailure extends Error {
  readonly code: JobFailureCode

  constructor(code: JobFailureCode, name: string, message: string) {
    super(message)
    this.code = code
    this.name = name
  }
}

const TURN_MS = 10

export class ChildRun {
  readonly #definition: HandlerDefinition
  readonly #message: RunMessage
  readonly #send: Send
  readonly #flush: () => void
  readonly #abort = new AbortController()
  #unsent = 0
  #onStored: (() => void) | undefined
  #hasScratch = false
  #startedAt = 0

  constructor(definition: HandlerDefinition, message: RunMessage, { send, flush }: Outgoing) {
    this.#definition = definition
    this.#message = message
    this.#send = send
    this.#flush = flush
  }

  abort(reason: string): void {
    this.#abort.abort(new DOMException(reason, 'AbortError'))
    this.#onStored?.()
  }

  stored(bytes: number): void {
    this.#unsent -= bytes
    if (this.#unsent < limits.unsentChunkBytes) this.#onStored?.()
  }

  /** Runs the job to its end and reports it; never rejects. */
  async execute(input: Uint8Array): Promise<void> {
    this.#startedAt = performance.now()
    try {
      const output = await this.#call(input)
      this.#send({ type: 'completed', run: this.#message.run, executionMs: this.#executionMs }, output)
    } catch (thrown) {
      this.fail(describeThrown(thrown))
    }
    if (this.#hasScratch) await rm(this.#message.scratchDir, { recursive: true, force: true })
  }

  fail(error: JobError): void {
    this.#send({ type: 'failed', run: this.#message.run, executionMs: this.#executionMs, error })
  }

  get #executionMs(): number {
    return performance.now() - this.#startedAt
  }

  async #call(input: Uint8Array): Promise<Uint8Array> {
    const { handler, aggregateStream = false } = this.#definition
    const value = await this.#checkedInput(JSON.parse(Buffer.from(input).toString('utf8')))
    const returned = await handler(this.#job(value), this.#context())
    const output = isGenerator(returned) ? await this.#drain(returned, aggregateStream) : returned
    if (output instanceof Uint8Array) {
      throw new NotJsonError(
        'The output is bytes. Yield them to stream them, or upload them and return the URL.',
      )
    }
    const bytes = Buffer.from(toJson(output, 'output'))
    if (bytes.byteLength > limits.outputBytes) {
      throw new RunFailure(
        'OUTPUT_TOO_LARGE',
        'OutputError',
        `The output is ${bytes.byteLength} bytes of JSON, more than the ${limits.outputBytes} that are kept. Yield it in pieces, or upload it and return its URL.`,
      )
    }
    return bytes
  }

  async #checkedInput(input: unknown): Promise<unknown> {
    const schema = this.#definition.input
    if (!schema) return input
    const result = await schema['~standard'].validate(input)
    if (!result.issues) return result.value
    const problems = result.issues.map(({ path, message }) => {
      const steps = (path ?? []).map((step) => String(typeof step === 'object' ? step.key : step))
      return `${['input', ...steps].join('.')}: ${message}`
    })
    throw new RunFailure(
      'INVALID_INPUT',
      'InputError',
      `The input does not fit the handler's schema. ${problems.join('; ')}.`,
    )
  }

  /** Streams every value; what it gives is the output: all values, or what the generator returns. */
  async #drain(generator: Generator | AsyncGenerator, aggregate: boolean): Promise<unknown> {
    const values: unknown[] = []
    let turnedAt = performance.now()
    for (let at = 1; ; at += 1) {
      const { done, value } = await generator.next()
      if (done) return aggregate ? values : value
      const { output, metrics } = isYieldedChunk(value) ? value : { output: value, metrics: undefined }
      // What is streamed as null is null in the aggregate too.
      if (aggregate) values.push(output === undefined ? null : output)
      this.#sendChunk(output, metrics, at)
      // A generator may compute for long between two values: what it gave must not wait for that,
      this.#flush()
      // and one that never waits for anything must still hear of an abort.
      if (performance.now() - turnedAt > TURN_MS) {
        await new Promise((resolve) => setImmediate(resolve))
        turnedAt = performance.now()
      }
      if (this.#unsent > limits.unsentChunkBytes) await this.#untilStored()
      if (this.#abort.signal.aborted) {
        await generator.return(undefined)
        throw this.#abort.signal.reason
      }
    }
  }

  #sendChunk(output: unknown, metrics: Record<string, unknown> | undefined, at: number): void {
    const metricsText = metrics && Object.keys(metrics).length > 0 ? toJson(metrics, 'metrics') : undefined
    const metricsBytes = Buffer.byteLength(metricsText ?? '')
    if (metricsBytes > limits.metricsBytes) {
      throw new NotJsonError(
        `The metrics of chunk ${at} are ${metricsBytes} bytes of JSON, more than ${limits.metricsBytes}. Put them into the output.`,
      )
    }
    const pieces: Piece[] =
      output instanceof Uint8Array
        ? splitBytes(output, metricsBytes)
        : splitJson(toJson(output, `chunk ${at}`), metricsBytes)
    for (const [index, piece] of pieces.entries()) {
      const payload = Buffer.from(piece.output)
      this.#unsent += pieceWeight(payload, index === 0 ? metricsText : undefined)
      this.#send(
        {
          type: 'chunk',
          run: this.#message.run,
          ...(index === 0 && metricsText !== undefined && { metrics: metricsText }),
          ...(piece.part && { part: piece.part }),
        },
        payload,
      )
    }
  }

  async #untilStored(): Promise<void> {
    while (this.#unsent > limits.unsentChunkBytes && !this.#abort.signal.aborted) {
      await new Promise<void>((resolve) => (this.#onStored = resolve))
    }
    this.#onStored = undefined
  }

  #job(input: unknown): Job {
    const { id, policy, s3Config } = this.#message
    return s3Config ? { id, input, policy, s3Config } : { id, input, policy }
  }

  #context(): JobContext {
    const { run, attempt } = this.#message
    const makeScratchDir = (): string => this.#makeScratchDir()
    return {
      signal: this.#abort.signal,
      attempt,
      log: jobLog(run, this.#send),
      get scratchDir() {
        return makeScratchDir()
      },
      progress: (value) => {
        const payload = Buffer.from(toJson(value, 'progress'))
        if (payload.byteLength > limits.progressBytes) {
          throw new NotJsonError(
            `The progress is ${payload.byteLength} bytes of JSON, more than ${limits.progressBytes}. Send less of it.`,
          )
        }
        this.#send({ type: 'progress', run }, payload)
      },
    }
  }

  #makeScratchDir(): string {
    if (!this.#hasScratch) mkdirSync(this.#message.scratchDir, { recursive: true, mode: 0o700 })
    this.#hasScratch = true
    return this.#message.scratchDir
  }
}

function isGenerator(value: unknown): value is Generator | AsyncGenerator {
  if (typeof value !== 'object' || value === null || !('next' in value) || typeof value.next !== 'function')
    return false
  return Symbol.asyncIterator in value || Symbol.iterator in value
}

function jobLog(run: number, send: Send): JobLog {
  const at = (level: 'debug' | 'info' | 'warn' | 'error'): LogMethod => {
    return (first: unknown, second: unknown = ''): void => {
      const isFields = typeof first === 'object' && first !== null && !isArray(first)
      const message = textOf(isFields ? second : first).slice(0, limits.logBytes)
      send({ type: 'log', run, level, fields: isFields ? loggable(first) : {}, message })
    }
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function isArray(value: object): boolean {
  try {
    return Array.isArray(value)
  } catch {
    // A revoked proxy is nothing any more.
    return false
  }
}

const SECRET_NAMES = /^(accessId|accessSecret|s3Config|authorization|apiKey|token|password|secret)$/i

/** Secrets are masked wherever in the fields they are. */
function masked(key: string, value: unknown): unknown {
  return SECRET_NAMES.test(key) ? '[masked]' : value
}

/** A log line must never fail a job: what JSON cannot say, or too much of it, is told in a word. */
function loggable(fields: object): Record<string, unknown> {
  try {
    if (fields instanceof Error) return { err: describeThrown(fields) }
    const text = JSON.stringify(fields, masked)
    if (text.length <= limits.logBytes) return JSON.parse(text) as Record<string, unknown>
    return { cut: `fields of ${text.length} characters, more than ${limits.logBytes}` }
  } catch (cause) {
    return { cut: `fields that are not JSON: ${cause instanceof Error ? cause.message : String(cause)}` }
  }
}

/** Whatever a handler threw, in the one shape of a failed job. Never throws, whatever its getters do. */
export function describeThrown(thrown: unknown): JobError {
  try {
    return describe(thrown)
  } catch {
    return {
      type: 'Error',
      message: 'The handler threw something that cannot be read. Throw an Error.',
      code: 'HANDLER_ERROR',
    }
  }
}

function describe(thrown: unknown): JobError {
  if (!(thrown instanceof Error)) {
    return { type: typeof thrown, message: cut(textOf(thrown)), code: 'HANDLER_ERROR' }
  }
  // An author may put anything into an error's fields.
  const { name, message, stack } = thrown as { name: unknown; message: unknown; stack: unknown }
  const code =
    thrown instanceof RunFailure || thrown instanceof NotJsonError || thrown instanceof TooLargeError
      ? thrown.code
      : 'HANDLER_ERROR'
  const error: JobError = { type: cut(textOf(name) || 'Error'), message: cut(textOf(message)), code }
  return typeof stack === 'string' && code === 'HANDLER_ERROR' ? { ...error, stack: cut(stack) } : error
}

function cut(text: string): string {
  return text.length > limits.errorTextChars ? `${text.slice(0, limits.errorTextChars)}…` : text
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    // A cycle or a BigInt still has a name; a revoked proxy has none.
    try {
      return Object.prototype.toString.call(value)
    } catch {
      return '[unreadable]'
    }
  }
}
