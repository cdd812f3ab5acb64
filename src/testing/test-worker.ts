// longshore/testing: a handler in the test's own process, run as an executor would, with all that it says recorded.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { joinChunks, pieceWeight, type Part } from '../job/chunk.ts'
import { policySchema, type JobError, type S3Config, type TraceContext } from '../job/job.ts'
import { readS3Environment } from '../s3/config.ts'
import type { OpenBucket } from '../s3/s3-helpers.ts'
import { ChildRun } from '../worker/child-run.ts'
import type { AbortReason, HandlerDefinition, HandlerFunction } from '../worker/define-handler.ts'
import { Masker } from '../worker/mask.ts'
import type { FromChild } from '../worker/messages.ts'
import { removeFolder } from '../worker/scratch.ts'
import { describeThrown } from '../worker/thrown.ts'
import { GRACE_MS, onFakeTime, onRealTime } from './fake-time.ts'

/** One chunk as readers of the stream see it. */
export interface TestChunk {
  index: number
  output: unknown
  metrics: Record<string, unknown>
  part?: Part
}

export interface TestLog {
  level: 'debug' | 'info' | 'warn' | 'error'
  message: string
  fields: Record<string, unknown>
}

/** How a run ended, in the words of the job's record, and what it said on the way. */
export interface TestResult {
  status: 'COMPLETED' | 'FAILED' | 'TIMED_OUT' | 'CANCELLED'
  /** As a client gets it: gone through JSON. Only when COMPLETED. */
  output?: unknown
  /** Only when FAILED or TIMED_OUT. */
  error?: JobError
  chunks: TestChunk[]
  /** The streamed values, pieces put together again. */
  values: unknown[]
  progress: unknown[]
  logs: TestLog[]
  /** Whether the handler asked for a fresh process. */
  refresh: boolean
}

export interface TestJob {
  id?: string
  attempt?: number
  s3Config?: S3Config
  /** A folder that stands for the bucket as `context.s3`: keys are files in it. The s3Config then gives its objectPath alone. */
  localBucket?: string
  trace?: TraceContext
  /** ms, as the submission's policy would have it: the job is stopped after so much real time. */
  executionTimeout?: number
}

export interface TestWorker {
  /**
   * Runs one job to its end. Never rejects: a handler that throws is a result with status FAILED, and so is an input that
   * is no JSON (`INVALID_INPUT`) and a `setup` that throws (`SETUP_FAILED`, for every job).
   */
  run(input: unknown, job?: TestJob): Promise<TestResult>
  /**
   * The same, chunk by chunk as they are made; throws the job's error when it fails. Whoever stops reading cancels the job,
   * and has it end first.
   */
  stream(input: unknown, job?: TestJob): AsyncGenerator<TestChunk, TestResult>
  /** The next run is cancelled when so many ms have passed for it. Its timers run ahead, so nobody waits for them. */
  cancelAfter(ms: number): TestWorker
  /** The same with its executionTimeout. */
  timeoutAfter(ms: number): TestWorker
}

/** A job that failed, as `stream` throws it; `code` as in the record. */
export class TestJobError extends Error {
  readonly code: string
  readonly result: TestResult

  constructor({ type, message, code }: JobError, result: TestResult) {
    super(message)
    this.name = type
    this.code = code
    this.result = result
  }
}

let runs = 0

/** A worker for one handler, a function or what `defineHandler` made. Its `setup` runs once, before the first job. */
export function createTestWorker<Schema extends StandardSchemaV1, Input>(
  handler: HandlerFunction<Input> | HandlerDefinition<Schema>,
): TestWorker {
  const definition = (typeof handler === 'function' ? { handler } : handler) as HandlerDefinition
  let ready: Promise<void> | undefined
  let stop: Stop | undefined
  const setUp = async (): Promise<void> => definition.setup?.()
  const begin = (input: unknown, job: TestJob, onChunk?: (chunk: TestChunk) => void): Begun => {
    const run = new TestRun(definition, job, onChunk)
    const stopping = stop
    stop = undefined
    const over = async (): Promise<TestResult> => {
      try {
        await onRealTime(() => (ready ??= setUp()))
      } catch (thrown) {
        return run.failed({ ...describeThrown(thrown), code: 'SETUP_FAILED' })
      }
      const execute = (): Promise<void> => run.execute(input, job.executionTimeout)
      if (stopping) await onFakeTime(execute, { ms: stopping.ms, call: () => run.abort(stopping.reason) })
      else await onRealTime(execute)
      return run.result
    }
    return { over: over(), cancel: () => run.abort('cancelled') }
  }
  const stopAfter = (ms: number, reason: AbortReason): TestWorker => {
    stop = { ms, reason }
    return worker
  }
  const worker: TestWorker = {
    run: (input, job = {}) => begin(input, job).over,
    stream: (input, job = {}) => streamed((onChunk) => begin(input, job, onChunk)),
    cancelAfter: (ms) => stopAfter(ms, 'cancelled'),
    timeoutAfter: (ms) => stopAfter(ms, 'timeout'),
  }
  return worker
}

interface Begun {
  over: Promise<TestResult>
  cancel(): void
}

interface Stop {
  ms: number
  reason: AbortReason
}

class TestRun {
  readonly #onChunk: ((chunk: TestChunk) => void) | undefined
  readonly #child: ChildRun
  readonly #result: TestResult = {
    status: 'COMPLETED',
    chunks: [],
    values: [],
    progress: [],
    logs: [],
    refresh: false,
  }
  readonly #scratchDir: string
  readonly #graceOver = Promise.withResolvers<void>()
  #grace: NodeJS.Timeout | undefined
  #reason: AbortReason | undefined

  constructor(definition: HandlerDefinition, job: TestJob, onChunk?: (chunk: TestChunk) => void) {
    runs += 1
    this.#onChunk = onChunk
    const { id = `test-${runs}`, attempt = 1, s3Config, localBucket, trace, executionTimeout } = job
    const masker = new Masker(readS3Environment().bucket)
    masker.learn(runs, s3Config)
    this.#scratchDir = join(tmpdir(), `longshore-test-${process.pid}-${runs}`)
    const message = {
      type: 'run' as const,
      run: runs,
      id,
      attempt,
      policy: { ...policySchema.parse({}), ...(executionTimeout !== undefined && { executionTimeout }) },
      scratchDir: this.#scratchDir,
      ...(s3Config && { s3Config }),
      ...(trace && { trace }),
    }
    this.#child = new ChildRun(definition, message, {
      send: (head, payload) => this.#take(head, payload),
      flush: () => undefined,
      reportsMemory: false,
      mask: masker.mask,
      openBucket: localBucket === undefined ? undefined : bucketIn(localBucket),
    })
  }

  /** Until the handler has ended, or has had its grace after a stop. */
  async execute(input: unknown, timeoutMs: number | undefined): Promise<void> {
    let text: string
    try {
      text = JSON.stringify(input) ?? '{}'
    } catch (thrown) {
      const { message } = describeThrown(thrown)
      this.failed({ type: 'InputError', message: `The input is no JSON: ${message}`, code: 'INVALID_INPUT' })
      return
    }
    const late =
      timeoutMs === undefined ? undefined : setTimeout(() => this.abort('timeout'), Math.max(0, timeoutMs))
    await Promise.race([this.#child.execute(Buffer.from(text)), this.#graceOver.promise])
    clearTimeout(late)
    clearTimeout(this.#grace)
    await removeFolder(this.#scratchDir)
  }

  failed(error: JobError): TestResult {
    this.#result.status = 'FAILED'
    this.#result.error = error
    return this.#result
  }

  /** As in the worker: what aborted a job decides, whatever its handler still did. */
  get result(): TestResult {
    const result = this.#result
    result.values = joinChunks(result.chunks)
    if (this.#reason === undefined) return result
    delete result.output
    delete result.error
    result.status = this.#reason === 'timeout' ? 'TIMED_OUT' : 'CANCELLED'
    if (this.#reason === 'timeout') {
      const message = 'The handler ran longer than its executionTimeout; its signal was aborted.'
      result.error = { type: 'TimeoutError', message, code: 'TIMED_OUT' }
    }
    return result
  }

  /** The first reason counts. */
  abort(reason: AbortReason): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.#child.abort(reason)
    this.#grace = setTimeout(() => this.#graceOver.resolve(), GRACE_MS)
  }

  #take(head: FromChild, payload: Uint8Array | undefined): void {
    const result = this.#result
    switch (head.type) {
      case 'chunk':
        return this.#takeChunk(head, payload ?? new Uint8Array(0))
      case 'progress':
        return void result.progress.push(parsed(payload))
      case 'log':
        return void result.logs.push({ level: head.level, message: head.message, fields: head.fields })
      case 'completed':
        result.output = parsed(payload)
        result.refresh = head.refresh ?? false
        return
      case 'failed':
        result.status = 'FAILED'
        result.error = head.error
        return
      default:
    }
  }

  #takeChunk({ metrics, part }: Extract<FromChild, { type: 'chunk' }>, payload: Uint8Array): void {
    const { chunks } = this.#result
    const index = chunks.length + 1
    const chunk: TestChunk = {
      index,
      output: parsed(payload),
      metrics: metrics === undefined ? {} : (JSON.parse(metrics) as Record<string, unknown>),
      ...(part && { part: { as: part.as, first: index - part.back, last: part.last } }),
    }
    chunks.push(chunk)
    this.#child.stored(pieceWeight(payload, metrics))
    this.#onChunk?.(chunk)
  }
}

async function* streamed(
  begin: (onChunk: (chunk: TestChunk) => void) => Begun,
): AsyncGenerator<TestChunk, TestResult> {
  const chunks: TestChunk[] = []
  let wake = (): void => undefined
  let isOver = false
  const begun = begin((chunk) => {
    chunks.push(chunk)
    wake()
  })
  const ended = begun.over.finally(() => {
    isOver = true
    wake()
  })
  ended.catch(() => undefined)
  try {
    for (;;) {
      yield* chunks.splice(0)
      if (chunks.length > 0) continue
      if (isOver) break
      await new Promise<void>((resolve) => (wake = resolve))
    }
  } finally {
    // Whoever stops reading wants no more of the job either.
    if (!isOver) begun.cancel()
    await ended
  }
  const result = await ended
  if (result.error) throw new TestJobError(result.error, result)
  return result
}

/** Says nothing of where the objects are kept: whoever named the folder knows. */
function bucketIn(folder: string): OpenBucket {
  return async () => {
    const { LocalBucket } = await import('../s3/local-bucket.ts')
    return new LocalBucket(folder, () => undefined)
  }
}

function parsed(payload: Uint8Array | undefined): unknown {
  return JSON.parse(Buffer.from(payload ?? []).toString('utf8') || 'null')
}
