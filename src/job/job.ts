// What a job is made of: the schemas of a submission and of what comes of it.

import { z } from 'zod'
import { RawJson } from '../lib/raw-json.ts'
import { jobStatuses } from './lifecycle.ts'
import { limits } from './limits.ts'

const { executionTimeoutMs, ttlMs } = limits

/** A whole number of ms; the message gives both bounds. */
function msBetween({ min, max }: { min: number; max: number }): z.ZodInt {
  const error = `must be a whole number from ${min} to ${max} ms`
  return z.int({ error }).min(min, { error }).max(max, { error })
}

/** Clients and URLs of every kind carry it, so it is kept to these characters. */
export const jobIdSchema = z.string().regex(/^[A-Za-z0-9_-]{1,128}$/)

export const endpointIdSchema = z
  .string()
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9_-]*$/,
    'must be letters, digits, "-" and "_", starting with a letter or digit',
  )
  .max(limits.endpointIdChars)

/** How a job is to be run. Unknown keys are refused: a misspelt limit must not go unnoticed. */
export const policySchema = z.strictObject({
  /** Longest run once started, ms; the endpoint's own default when left out. */
  executionTimeout: msBetween(executionTimeoutMs).optional(),
  /** When true the job does not make the service start workers. */
  lowPriority: z.boolean().default(false),
  /** The job's whole life from submission, waiting and running, ms. */
  ttl: msBetween(ttlMs).default(ttlMs.default),
})
export type Policy = z.output<typeof policySchema>

const s3Text = z.string().min(1).max(limits.s3FieldChars)

/** Object storage of the submitter, handed to the worker and to nobody else. Unknown keys are dropped. */
export const s3ConfigSchema = z.object({
  accessId: s3Text.regex(/^[\x21-\x7e]*$/, 'must be printable ASCII without spaces: it goes into a header'),
  accessSecret: s3Text,
  bucketName: s3Text.regex(/^[^/\s]*$/, 'must be the name of a bucket, without "/" and spaces'),
  endpointUrl: z.url({ protocol: /^https?$/ }).max(limits.s3FieldChars),
  objectPath: z
    .string()
    .max(limits.s3FieldChars)
    .refine(
      (path) => !/\p{Cc}/u.test(path) && !path.split('/').some((part) => part === '.' || part === '..'),
      'must have no "." or ".." as a part and no control characters',
    )
    .optional(),
  region: s3Text.regex(/^[A-Za-z0-9._-]*$/, 'must be letters, digits, ".", "_" and "-"').optional(),
})
export type S3Config = z.output<typeof s3ConfigSchema>

/** What a client submits. Other top-level keys are dropped, as clients of the hosted platform send some. */
export const submissionSchema = z.object({
  /** Kept as the bytes that came, so that a handler in any language sees every digit. */
  input: z
    .custom<RawJson>((value) => value instanceof RawJson, {
      error: (issue) => (issue.input === undefined ? 'is required' : 'must be an object'),
    })
    .refine((input) => input.isObject, 'must be an object')
    .meta({ override: { type: 'object', description: "Parameters for the worker's handler." } }),
  webhook: z
    .url({ protocol: /^https?$/ })
    .max(limits.webhookUrlChars)
    .optional(),
  policy: policySchema.prefault({}),
  s3Config: s3ConfigSchema.optional(),
})
export type Submission = z.output<typeof submissionSchema>

export const jobStatusSchema = z.enum(jobStatuses)

/** Why a job failed. One shape for return, throw, crash and timeout. */
export const jobErrorSchema = z.object({
  type: z.string(),
  message: z.string(),
  stack: z.string().optional(),
  code: z.string(),
})
export type JobError = z.output<typeof jobErrorSchema>

/** W3C trace context: whoever submitted the job, so that a handler's spans hang below theirs. */
export const traceContextSchema = z.object({
  traceparent: z.string().regex(/^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/),
  tracestate: z.string().max(512).optional(),
})
export type TraceContext = z.output<typeof traceContextSchema>
