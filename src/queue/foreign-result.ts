// Reading what a worker of the hosted platform posts: its results, its progress, its chunks.

import { z } from 'zod'
import type { JobError } from '../job/job.ts'
import { limits } from '../job/limits.ts'
import { JsonTextError, parseKeepingRaw, RawJson } from '../lib/raw-json.ts'
import { Refusal, type JobFailureCode } from '../protocol/errors.ts'
import type { End, NewChunk } from '../store/job-store.ts'

export type ForeignResult =
  | { kind: 'progress'; progress: Uint8Array }
  /** A progress that is no JSON, NaN for instance: the job goes on without it. */
  | { kind: 'unreadable-progress' }
  | { kind: 'end'; end: End; wantsRecycling?: boolean }

export interface ForeignPiece {
  /** JSON text. */
  output: string
  metrics?: string
  /** Its place in a value that the worker has split, as this package's worker tells it. */
  part?: NonNullable<NewChunk['part']>
}

export type ForeignChunk = ({ kind: 'chunk' } & ForeignPiece) | { kind: 'unreadable'; error: JobError }

/** A result or a progress, as posted to job-done: the body is a JSON document whatever its label says. */
export function readForeignResult(body: Uint8Array): ForeignResult {
  const document = readObject(body, ['output', 'error'])
  if ('code' in document) {
    if (saysProgress(body)) return { kind: 'unreadable-progress' }
    return { kind: 'end', end: { event: 'fail', error: document } }
  }
  const { output, error, status, stopPod } = document.members
  const wantsRecycling = stopPod === true
  const outputBytes = output instanceof RawJson ? output.bytes : undefined
  if (status === 'IN_PROGRESS') {
    const progress = outputBytes ?? Buffer.from('null')
    if (progress.byteLength <= limits.progressBytes) return { kind: 'progress', progress }
    const bytes = progress.byteLength
    throw new Refusal('BODY_TOO_LARGE', {
      bytes,
      limit: limits.progressBytes,
      operation: 'a progress report',
    })
  }
  if (outputBytes && outputBytes.byteLength > limits.outputBytes) {
    const message = `The output is ${outputBytes.byteLength} bytes of JSON, more than the ${limits.outputBytes} that are kept. Upload it and return its address.`
    const tooLarge = failure('OUTPUT_TOO_LARGE', 'OutputError', message)
    return { kind: 'end', end: { event: 'fail', error: tooLarge }, wantsRecycling }
  }
  const kept = outputBytes ? { output: outputBytes } : {}
  const reported = error instanceof RawJson ? error.parse() : undefined
  if (!(error instanceof RawJson) || !reported)
    return { kind: 'end', end: { event: 'complete', ...kept }, wantsRecycling }
  const errorText = cut(typeof reported === 'string' ? reported : error.toString())
  return {
    kind: 'end',
    end: { event: 'fail', error: readForeignError(reported, errorText), errorText, ...kept },
    wantsRecycling,
  }
}

/** One streamed piece, as posted to job-stream. */
export function readForeignChunk(body: Uint8Array): ForeignChunk {
  const document = readObject(body, ['output', 'metrics'])
  if ('code' in document) return { kind: 'unreadable', error: document }
  const { output, metrics, part: told } = document.members
  const text = output instanceof RawJson ? output.toString() : 'null'
  const part = partSchema.safeParse(told).data
  const piece = { kind: 'chunk', output: text, ...(part && { part }) } as const
  if (!(metrics instanceof RawJson && metrics.isObject)) return piece
  if (metrics.bytes.byteLength > limits.metricsBytes) {
    const message = `The metrics of a chunk are ${metrics.bytes.byteLength} bytes of JSON, more than ${limits.metricsBytes}. Put them into the output.`
    return { kind: 'unreadable', error: failure('OUTPUT_TOO_LARGE', 'OutputError', message) }
  }
  return { ...piece, metrics: metrics.toString() }
}

/** Such a worker writes the status first. */
function saysProgress(body: Uint8Array): boolean {
  const start = Buffer.from(body.subarray(0, 64)).toString('latin1')
  return /^\s*\{\s*"status"\s*:\s*"IN_PROGRESS"/.test(start)
}

const partSchema = z.object({
  as: z.enum(['text', 'array', 'bytes', 'json']),
  back: z.int().min(0).max(1_000_000),
  last: z.boolean(),
})

const hostedErrorSchema = z.object({
  error_type: z.string(),
  error_message: z.string(),
  error_traceback: z.string().optional(),
})

/** The hosted worker's own JSON where it is that, else the text as the message. Any truthy value fails the job. */
function readForeignError(reported: unknown, text: string): JobError {
  const hosted = hostedErrorSchema.safeParse(
    typeof reported === 'string' ? parseOrNothing(reported) : reported,
  )
  if (!hosted.success) return failure('HANDLER_ERROR', 'Error', text)
  const { error_type, error_message, error_traceback } = hosted.data
  const type = /^<class '(?:\w+\.)*(\w+)'>$/.exec(error_type)?.[1] ?? error_type
  const error = failure('HANDLER_ERROR', type, error_message)
  return error_traceback === undefined ? error : { ...error, stack: cut(error_traceback) }
}

function readObject(
  body: Uint8Array,
  raw: readonly string[],
): { members: Record<string, unknown> } | JobError {
  try {
    const document = parseKeepingRaw(body, raw, Number.POSITIVE_INFINITY)
    if (typeof document === 'object' && document !== null && !Array.isArray(document)) {
      return { members: { ...document } }
    }
    return failure('OUTPUT_NOT_JSON', 'OutputError', 'The worker posted a JSON value that is no object.')
  } catch (cause) {
    if (!(cause instanceof JsonTextError)) throw cause
    const message = `The worker posted a result that is not JSON: ${cause.message}. NaN and Infinity are not JSON; replace them before returning.`
    return failure('OUTPUT_NOT_JSON', 'OutputError', message)
  }
}

function parseOrNothing(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Most errors are plain text; that they do not parse is how one tells.
    return undefined
  }
}

function failure(code: JobFailureCode, type: string, message: string): JobError {
  return { type, message: cut(message), code }
}

function cut(text: string): string {
  return text.length <= limits.errorTextChars ? text : `${text.slice(0, limits.errorTextChars)}…`
}
