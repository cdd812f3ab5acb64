// One job in the handler's process: call the handler, stream what it yields, serialise what it returns.

import { mkdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { splitBytes, splitJson, type Piece } from '../job/chunk.ts'
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
import { NotJsonError, toJson } from './serialise.ts'

export type Send = (head: FromChild, payload?: Uint8Array) => void

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

export class ChildRun {
  readonly #definition: HandlerDefinition
  readonly #message: RunMessage
  readonly #send: Send
  readonly #abort = new AbortController()
  #unsent = 0
  #onStored: (() => void) | undefined
  #hasScratch = false
  #startedAt = 0

  constructor(definition: HandlerDefinition, message: RunMessage, send: Send) {
    this.#definition = definition
    this.#message = message
    this.#send = send
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
        'The output is bytes. Yield them to stream them, or upload them with context.s3 and return the URL.',
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
    for (;;) {
      const { done, value } = await generator.next()
      if (done) return aggregate ? values : value
      const { output, metrics } = isYieldedChunk(value) ? value : { output: value, metrics: undefined }
      if (aggregate) values.push(output)
      this.#sendChunk(output, metrics, values.length)
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
    const pieces: Piece[] =
      output instanceof Uint8Array
        ? splitBytes(output, metricsBytes)
        : splitJson(toJson(output, `chunk ${at}`), metricsBytes)
    for (const [index, piece] of pieces.entries()) {
      const payload = Buffer.from(piece.output)
      this.#unsent += payload.byteLength
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
    return (first: string | Record<string, unknown>, message: string = ''): void => {
      if (typeof first === 'string') send({ type: 'log', run, level, fields: {}, message: first })
      else send({ type: 'log', run, level, fields: first, message })
    }
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** Whatever a handler threw, in the one shape of a failed job. */
export function describeThrown(thrown: unknown): JobError {
  const cut = (text: string): string =>
    text.length > limits.errorTextChars ? `${text.slice(0, limits.errorTextChars)}…` : text
  if (!(thrown instanceof Error)) {
    return {
      type: typeof thrown,
      message: cut(typeof thrown === 'string' ? thrown : inspectBriefly(thrown)),
      code: 'HANDLER_ERROR',
    }
  }
  const code = thrown instanceof RunFailure || thrown instanceof NotJsonError ? thrown.code : 'HANDLER_ERROR'
  const error: JobError = { type: thrown.name, message: cut(thrown.message), code }
  return thrown.stack && code === 'HANDLER_ERROR' ? { ...error, stack: cut(thrown.stack) } : error
}

function inspectBriefly(thrown: unknown): string {
  try {
    return JSON.stringify(thrown) ?? String(thrown)
  } catch {
    // A thrown cycle or BigInt still has a name.
    return Object.prototype.toString.call(thrown)
  }
}
