// What a handler file exports: its shapes and types. Light, since every handler imports it.

import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Policy, S3Config, TraceContext } from '../job/job.ts'

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
  handler: HandlerFunction<StandardSchemaV1.InferOutput<Schema>>
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
