// One job in the handler's process: call the handler, stream what it yields, serialise what it returns.

import { types } from 'node:util'
import { pieceWeight, splitBytes, splitJson, type Piece } from '../job/chunk.ts'
import { limits } from '../job/limits.ts'
import type { JobError } from '../job/job.ts'
import { bytesFrom, countBytes, monotonicMs, parseJson, queueTurn } from '../lib/intrinsics.ts'
import {
  isSpillableOutput,
  isYieldedChunk,
  type HandlerDefinition,
  type Job,
  type SpillOptions,
} from './define-handler.ts'
import { ContextMaker, type ContextOptions } from './job-context.ts'
import type { FromChild, ToChild } from './messages.ts'
import { isPlain, NotJsonError, toJson } from './serialise.ts'
import { isSpillOptions, spillIfLarge } from './spill.ts'
import { describeThrown, maskedError, RunFailure, textOf } from './thrown.ts'

export type Send = (head: FromChild, payload?: Uint8Array) => void

export interface ChildOptions {
  send: Send
  /** Whether ends come with the memory that the process has then. */
  readonly reportsMemory: boolean
  /** Replaces secrets in a text. */
  readonly mask: (text: string) => string
  /** Writes what was sent now rather than at the end of the turn. */
  readonly flush: () => void
  /** Opens what stands for the bucket of the job. */
  readonly openBucket?: ContextOptions['openBucket']
}

type RunMessage = Extract<ToChild, { type: 'run' }>

/** All values of a generator, as the JSON that they were streamed as. */
class Aggregate {
  readonly #values: readonly string[]

  constructor(values: readonly string[]) {
    this.#values = values
  }

  toBytes(): Buffer {
    return bytesFrom(`[${this.#values.join(',')}]`)
  }
}

const TURN_MS = 10
/** How long a generator may take to close after one of its chunks was refused. */
const CLOSE_MS = 5_000

export class ChildRun {
  readonly #definition: HandlerDefinition
  readonly #message: RunMessage
  readonly #send: Send
  readonly #flush: () => void
  readonly #reportsMemory: boolean
  readonly #mask: (text: string) => string
  readonly #abort = new AbortController()
  readonly #maker: ContextMaker
  #unsent = 0
  #onStored: (() => void) | undefined
  #startedAt = 0
  #ranMs = 0
  #isStreaming = false
  #wantsRefresh = false

  constructor(definition: HandlerDefinition, message: RunMessage, options: ChildOptions) {
    this.#definition = definition
    this.#message = message
    this.#send = options.send
    this.#flush = options.flush
    this.#reportsMemory = options.reportsMemory
    this.#mask = options.mask
    this.#maker = new ContextMaker({
      message,
      signal: this.#abort.signal,
      send: options.send,
      mask: options.mask,
      openBucket: options.openBucket,
    })
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
    this.#startedAt = monotonicMs()
    try {
      const output = await this.#call(input)
      this.#ranMs = this.#executionMs
      await this.#maker.close()
      this.#send({ type: 'completed', ...this.#ended() }, output)
    } catch (thrown) {
      const error = maskedError(describeThrown(thrown), this.#mask)
      this.#ranMs = this.#executionMs
      await this.#maker.close()
      // Whoever reads the stream learns of it there; the record says so too.
      if (this.#isStreaming && !this.#abort.signal.aborted) await this.#sendError(error)
      this.#send({ type: 'failed', ...this.#ended(), error })
    }
  }

  #ended(): Pick<
    Extract<FromChild, { type: 'completed' }>,
    'run' | 'executionMs' | 'isStream' | 'refresh' | 'rssBytes' | 'scratch'
  > {
    this.#maker.end()
    return {
      run: this.#message.run,
      executionMs: this.#ranMs,
      ...(this.#isStreaming && { isStream: true }),
      ...(this.#wantsRefresh && { refresh: true }),
      ...(this.#maker.hasScratch && { scratch: true }),
      ...(this.#reportsMemory && { rssBytes: process.memoryUsage.rss() }),
    }
  }

  async #sendError({ type, message, code }: JobError): Promise<void> {
    await this.#sendChunk({ error: { type, message, code } }, undefined, 0)
  }

  get #executionMs(): number {
    return monotonicMs() - this.#startedAt
  }

  async #call(input: Uint8Array): Promise<Uint8Array> {
    const { handler, aggregateStream = false } = this.#definition
    const value = await this.#checkedInput(parseJson(bytesFrom(input).toString('utf8')))
    const returned = await handler(this.#job(value), this.#maker.context)
    const ended = isGenerator(returned) ? await this.#drain(returned, aggregateStream) : returned
    return this.#output(ended)
  }

  async #output(ended: unknown): Promise<Uint8Array> {
    const { output: given, spill } = this.#withSpill(ended)
    const output = this.#withoutRefresh(given)
    if (output instanceof Uint8Array) {
      throw new NotJsonError(
        'The output is bytes. Yield them to stream them, or upload them with context.s3 and return the URL.',
      )
    }
    const bytes = output instanceof Aggregate ? output.toBytes() : bytesFrom(toJson(output, 'output'))
    const isSmall = bytes.byteLength <= limits.outputBytes && spill === false
    const spilled = isSmall ? undefined : await spillIfLarge(bytes, spill, this.#maker.spillBucket)
    return spilled ? bytesFrom(toJson(spilled, 'output')) : bytes
  }

  /** What the handler says of one output goes before what its definition says. */
  #withSpill(ended: unknown): { output: unknown; spill: boolean | SpillOptions } {
    const { spill = false } = this.#definition
    if (!isSpillableOutput(ended)) return { output: ended, spill }
    const { output, options } = ended
    if (isSpillOptions(options)) return { output, spill: options }
    throw new TypeError(
      `overBytes of spill() must be a number from 0 to ${limits.outputBytes}, got ${textOf(Reflect.get(Object(options), 'overBytes'))}.`,
    )
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
    const values: string[] = []
    let turnedAt = monotonicMs()
    this.#isStreaming = true
    for (let at = 1; ; at += 1) {
      const { done, value } = await generator.next()
      if (done) return aggregate ? new Aggregate(values) : value
      try {
        const text = await this.#stream(value, aggregate, at)
        // As it was when it was yielded: an author may go on with the same object.
        if (aggregate && text !== undefined) values.push(text)
        // A generator may compute for long between two values: what it gave must not wait for that,
        this.#flush()
        // and one that never waits for anything must still hear of an abort.
        if (monotonicMs() - turnedAt > TURN_MS) {
          await new Promise((resolve) => queueTurn(resolve))
          turnedAt = monotonicMs()
        }
        if (this.#unsent > limits.unsentChunkBytes) await this.#untilStored()
        this.#abort.signal.throwIfAborted()
      } catch (thrown) {
        await this.#closeEarly(generator)
        throw thrown
      }
    }
  }

  /** Has its `finally` run while the job is still its own: what it holds is free when the job is told as ended. */
  async #closeEarly(generator: Generator | AsyncGenerator): Promise<void> {
    const closed = (async () => void (await generator.return(undefined)))()
    // One that was aborted has its grace; one that failed has no other end than this.
    if (this.#abort.signal.aborted) return closed
    const bound = new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, CLOSE_MS)
      const clear = (): void => clearTimeout(timer)
      closed.then(clear, clear)
    })
    // Why the job fails is known already.
    await Promise.race([closed.catch(() => undefined), bound])
  }

  async #stream(value: unknown, aggregate: boolean, at: number): Promise<string | undefined> {
    const { output: given, metrics } = isYieldedChunk(value) ? value : { output: value, metrics: undefined }
    const output = this.#withoutRefresh(given)
    if (aggregate && output instanceof Uint8Array) {
      throw new NotJsonError(
        `Chunk ${at} is bytes, which an aggregate cannot hold. Leave aggregateStream out.`,
      )
    }
    return this.#sendChunk(output, metrics, at)
  }

  /** Gives the value's JSON; bytes have none. */
  async #sendChunk(
    output: unknown,
    metrics: Record<string, unknown> | undefined,
    at: number,
  ): Promise<string | undefined> {
    const metricsText = metrics && Object.keys(metrics).length > 0 ? toJson(metrics, 'metrics') : undefined
    const metricsBytes = countBytes(metricsText ?? '')
    if (metricsBytes > limits.metricsBytes) {
      throw new NotJsonError(
        `The metrics of chunk ${at} are ${metricsBytes} bytes of JSON, more than ${limits.metricsBytes}. Put them into the output.`,
      )
    }
    const text = output instanceof Uint8Array ? undefined : toJson(output, `chunk ${at}`)
    const pieces: Piece[] =
      output instanceof Uint8Array ? splitBytes(output, metricsBytes) : splitJson(text ?? '', metricsBytes)
    for (const [index, piece] of pieces.entries()) {
      if (this.#unsent > limits.unsentChunkBytes) await this.#untilStored()
      if (this.#abort.signal.aborted) break
      const payload = bytesFrom(piece.output)
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
    return text
  }

  /** Takes note of `refresh_worker: true`, which is a word to the worker and no output. */
  #withoutRefresh(value: unknown): unknown {
    if (typeof value !== 'object' || value === null || value instanceof Aggregate) return value
    if (!('refresh_worker' in value)) return value
    // Without its class a value would be told otherwise.
    if (!isPlain(value) || 'toJSON' in value) {
      this.#wantsRefresh ||= Boolean(value.refresh_worker)
      return value
    }
    const { refresh_worker: wish, ...output } = value
    this.#wantsRefresh ||= Boolean(wish)
    return output
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
}

/** An iterator of another kind may be anything: a Map's, or an object that an author's own code still uses. */
function isGenerator(value: unknown): value is Generator | AsyncGenerator {
  return types.isGeneratorObject(value)
}
