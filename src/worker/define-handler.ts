// What a handler file exports: its shapes and types. Light, since every handler imports it.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Policy, S3Config, TraceContext } from '../job/job.ts'
import type { S3 } from '../s3/s3.ts'

/** What the submission carried. */
export interface Job<Input = unknown> {
  readonly id: string
  readonly input: Input
  readonly policy: Policy
  readonly s3Config?: S3Config
}

/** Why a job's signal aborted. */
export type AbortReason = 'timeout' | 'cancelled' | 'lease-lost' | 'shutdown'

/** Writes to the worker's log, each line with the job's id. */
export interface JobLog {
  debug: LogMethod
  info: LogMethod
  warn: LogMethod
  error: LogMethod
}
export interface LogMethod {
  (message: string): void
  (fields: Record<string, unknown>, message?: string): void
}

export interface JobContext {
  /** Aborts at executionTimeout, on cancel, and when the worker has to go; `signal.reason.message` is an AbortReason. */
  readonly signal: AbortSignal
  /** 1 at first, one more after each attempt whose worker was lost. */
  readonly attempt: number
  /** A folder of this job's own, made at first use and removed after the job; what first asks for it later gets none. */
  readonly scratchDir: string
  /**
   * Files in and out of the bucket of the job's s3Config; undefined without one. Under `longshore run` without any bucket it
   * is a folder, `./local-bucket`.
   */
  readonly s3?: S3 | undefined
  readonly log: JobLog
  /** W3C trace context of the submission. With @opentelemetry/api installed it is the active context already. */
  readonly trace?: TraceContext
  /** Shows clients how far the job is: any JSON value of up to 64 kB; the latest counts. */
  progress(value: unknown): void
}

/** A value, a promise, or a generator (sync or async) whose values are streamed as chunks. */
export type HandlerFunction<Input = unknown> = (job: Job<Input>, context: JobContext) => unknown

export interface HandlerDefinition<Schema extends StandardSchemaV1 = StandardSchemaV1> {
  /** Checks the job's input before the handler runs, and gives `job.input` its type (zod or any Standard Schema). */
  input?: Schema
  /** Awaited once per executor process, before its first job: load models here. */
  setup?: () => void | Promise<void>
  /**
   * Jobs at a time: a number, or a function of the present one that is asked about once a second. From 1 to 1,000;
   * default 1. The command line's --concurrency takes precedence over a number.
   */
  concurrency?: number | ((current: number) => number | Promise<number>)
  /** When true, every job begins in a fresh process. A handler can ask for one by returning `refresh_worker: true`. */
  refresh?: boolean
  /** When true, all yielded values as one array are the job's output too. */
  aggregateStream?: boolean
  /**
   * Outputs that are too large go to the job's bucket, and the job's output is `{ url, key, bytes, contentType }`. `overBytes`
   * is how large that is: from 0 up to the 20,000,000 bytes of JSON that are kept, which is the default. Off by default. A
   * handler can say it for one output by returning `spill(output)`.
   */
  spill?: boolean | SpillOptions
  handler: HandlerFunction<StandardSchemaV1.InferOutput<Schema>>
}

export interface SpillOptions {
  /** JSON of more bytes goes to the bucket. */
  overBytes?: number
}

const definitionMark = Symbol.for('longshore.definition')

/** Describes a handler with more than its function. The result is what a handler file exports by default. */
export function defineHandler<Schema extends StandardSchemaV1 = StandardSchemaV1<unknown, unknown>>(
  definition: HandlerDefinition<Schema>,
): HandlerDefinition<Schema> {
  return Object.assign({ ...definition }, { [definitionMark]: true })
}

const chunkMark = Symbol.for('longshore.chunk')

export interface YieldedChunk {
  readonly output: unknown
  readonly metrics: Record<string, unknown>
}

/** A value to yield together with metrics, which readers of the stream see beside it. */
export function chunk(output: unknown, metrics: Record<string, unknown> = {}): YieldedChunk {
  return Object.assign({ output, metrics }, { [chunkMark]: true })
}

export function isYieldedChunk(value: unknown): value is YieldedChunk {
  return typeof value === 'object' && value !== null && chunkMark in value
}

const spillMark = Symbol.for('longshore.spill')

export interface SpillableOutput {
  readonly output: unknown
  readonly options: SpillOptions
}

/** An output to return that goes to the job's bucket when it is too large, whatever the definition says. */
export function spill(output: unknown, options: SpillOptions = {}): SpillableOutput {
  return Object.assign({ output, options }, { [spillMark]: true })
}

export function isSpillableOutput(value: unknown): value is SpillableOutput {
  return typeof value === 'object' && value !== null && spillMark in value
}
