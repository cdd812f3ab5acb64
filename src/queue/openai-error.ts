// Failures in the form that clients of the OpenAI interface know.

import { z } from 'zod'
import type { JobRecord } from '../store/job-store.ts'

export type OpenAiErrorType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'not_found_error'
  | 'rate_limit_error'
  | 'timeout_error'
  | 'server_error'

export class OpenAiError extends Error {
  readonly status: number
  /** The answer's body. */
  readonly body: { error: unknown }

  constructor(status: number, type: OpenAiErrorType, code: string, message: string, error?: unknown) {
    super(message)
    this.status = status
    this.body = { error: error ?? { message, type, param: null, code } }
  }
}

/** Why there is no answer: the job failed, timed out or was cancelled. */
export function openAiFailure({ id, status, error }: JobRecord): OpenAiError | undefined {
  switch (status) {
    case 'COMPLETED':
      return undefined
    case 'TIMED_OUT':
      return new OpenAiError(504, 'timeout_error', 'TIMED_OUT', error?.message ?? `Job ${id} timed out.`)
    case 'CANCELLED':
      return new OpenAiError(503, 'server_error', 'CANCELLED', `Job ${id} was cancelled.`)
    default: {
      const code = error?.code ?? 'FAILED'
      const message = error?.message ?? `Job ${id} is ${status}.`
      if (code === 'INVALID_INPUT') return new OpenAiError(400, 'invalid_request_error', code, message)
      return new OpenAiError(500, 'server_error', code, message)
    }
  }
}

const statusSchema = z.coerce.number().int().min(400).max(599)
const errorObjectSchema = z
  .object({ error: z.unknown(), status: statusSchema.optional().catch(undefined) })
  .refine(({ error }) => Boolean(error))
const bareErrorSchema = z.object({ object: z.literal('error'), code: z.unknown() })

/**
 * A handler's own error, `{ error }` or `{ object: 'error' }`, as model servers make them: its status is the number that
 * its code is, or what `{ error, status }` says. Nothing for any other value.
 */
export function openAiErrorOf(json: Uint8Array): OpenAiError | undefined {
  const text = Buffer.from(json.buffer, json.byteOffset, json.byteLength)
  // Most answers have no such word, and some are large.
  if (!text.includes('"error"')) return undefined
  const value: unknown = JSON.parse(text.toString('utf8'))
  const wrapped = errorObjectSchema.safeParse(value)
  const bare = bareErrorSchema.safeParse(value)
  const error = wrapped.success ? wrapped.data.error : bare.success ? value : undefined
  if (error === undefined) return undefined
  const message = messageOf(error)
  const status = wrapped.data?.status ?? statusSchema.safeParse(fieldOf(error, 'code')).data ?? 500
  const type = status < 500 ? 'invalid_request_error' : 'server_error'
  return new OpenAiError(
    status,
    type,
    'HANDLER_ERROR',
    message,
    typeof error === 'object' ? error : undefined,
  )
}

function messageOf(error: unknown): string {
  if (typeof error === 'string') return error
  const message = fieldOf(error, 'message')
  return typeof message === 'string' ? message : 'The handler answered with an error.'
}

function fieldOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}
