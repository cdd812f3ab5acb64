// What the supervisor and the handler's process say to each other: the heads of their frames.

import { z } from 'zod'
import { jobErrorSchema, type Policy, type S3Config } from '../job/job.ts'

/** Supervisor to child. The payload of `run` is the input as JSON. */
export type ToChild =
  | {
      type: 'run'
      run: number
      id: string
      attempt: number
      policy: Policy
      s3Config?: S3Config
      scratchDir: string
    }
  | { type: 'abort'; run: number; reason: string }
  /** So many bytes of this run's chunks are stored: the generator may go on. */
  | { type: 'stored'; run: number; bytes: number }
  | { type: 'leave' }

const run = z.int().min(0)
const executionMs = z.number().min(0)

/** Child to supervisor: the author's code runs there, so what comes is checked. Payloads are JSON text. */
export const fromChildSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('ready') }),
  z.object({ type: z.literal('unready'), code: z.string(), message: z.string() }),
  z.object({
    type: z.literal('chunk'),
    run,
    metrics: z.string().optional(),
    part: z
      .object({ as: z.enum(['text', 'array', 'bytes', 'json']), back: z.int().min(0), last: z.boolean() })
      .optional(),
  }),
  z.object({ type: z.literal('progress'), run }),
  z.object({ type: z.literal('completed'), run, executionMs }),
  z.object({ type: z.literal('failed'), run, executionMs, error: jobErrorSchema }),
  z.object({
    type: z.literal('log'),
    run,
    level: z.enum(['debug', 'info', 'warn', 'error']),
    fields: z.record(z.string(), z.unknown()),
    message: z.string(),
  }),
])
export type FromChild = z.output<typeof fromChildSchema>
