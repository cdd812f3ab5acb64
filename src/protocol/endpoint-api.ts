// The client interface under /v2/{endpointId}: what is asked and what is answered.

import { z } from 'zod'
import { endpointIdSchema, jobErrorSchema, jobIdSchema, jobStatusSchema } from '../job/job.ts'
import { limits } from '../job/limits.ts'
import { queryInt } from './query.ts'

export const endpointParamsSchema = z.object({ endpointId: endpointIdSchema })
export const jobParamsSchema = endpointParamsSchema.extend({ id: jobIdSchema })

export const openaiParamsSchema = endpointParamsSchema.extend({ '*': z.string() })

const { waitMs, ttlMs, streamWaitMs, listJobs } = limits

/** What a submission may say in its headers; checked where it is read. */
export const submissionHeadersSchema = z.looseObject({
  'idempotency-key': z
    .unknown()
    .optional()
    .meta({
      override: {
        type: 'string',
        minLength: 1,
        maxLength: limits.idempotencyKeyChars,
        description: 'Makes it safe to repeat the submission: the same key makes one job.',
      },
    }),
  traceparent: z
    .unknown()
    .optional()
    .meta({ override: { type: 'string', description: 'W3C trace context.' } }),
  tracestate: z
    .unknown()
    .optional()
    .meta({ override: { type: 'string', description: 'W3C trace context.' } }),
})

export const runsyncQuerySchema = z.object({
  /** How long the request waits for the job's end, ms. */
  wait: queryInt(waitMs).optional(),
})

export const statusQuerySchema = z.object({
  /** Sets the job's ttl, ms from its submission. */
  ttl: queryInt(ttlMs).optional(),
})

export const streamQuerySchema = z.object({
  /** Chunks with a higher index only; moves no read position. */
  after: queryInt({ min: 0, max: Number.MAX_SAFE_INTEGER }).optional(),
  /** How long to hold an answer that would be empty, ms. */
  wait: queryInt(streamWaitMs).optional(),
})

export const streamHeadersSchema = z.looseObject({
  'last-event-id': z
    .unknown()
    .optional()
    .meta({
      override: { type: 'string', description: 'Pushed streams go on after the chunk of this index.' },
    }),
})

export const requestsQuerySchema = z.object({
  /** Jobs on one page. */
  limit: queryInt(listJobs).optional(),
  /** `next` of the page before. */
  before: z
    .string()
    .regex(/^\d{1,15}$/, { error: "must be the 'next' of another page" })
    .optional(),
})

export const submittedSchema = z.object({ id: jobIdSchema, status: jobStatusSchema })
export type Submitted = z.output<typeof submittedSchema>

/** A job as clients see it. `delayTime` and `executionTime` are ms; `output` is whatever the handler made. */
export const jobRecordSchema = submittedSchema.extend({
  delayTime: z.int(),
  executionTime: z.int(),
  attempt: z.int(),
  workerId: z.string().optional(),
  /** Why the job is where it is, when more than one road leads there. */
  reason: z.string().optional(),
  error: jobErrorSchema.optional(),
  /** The latest progress that a running handler reported. */
  progress: z.unknown().optional(),
  output: z.unknown().optional(),
})
export type JobRecordBody = z.output<typeof jobRecordSchema>

/** The same in the words of the hosted platform, whose clients know errors as texts. */
export const hostedRecordSchema = submittedSchema.extend({
  delayTime: z.int(),
  /** Once it has ended. */
  executionTime: z.int().optional(),
  workerId: z.string().optional(),
  /** Lost attempts; left out when there were none. */
  retries: z.int().min(1).optional(),
  error: z.string().optional(),
  /** The job's output, or a running job's progress. */
  output: z.unknown().optional(),
})

const epochMs = z.int()

/** A job in a list: no payloads. Times at which something happened are ms since 1970. */
export const jobSummarySchema = jobRecordSchema.omit({ progress: true, output: true }).extend({
  submittedAt: epochMs,
  endedAt: epochMs.optional(),
})
export const requestsSchema = z.object({ requests: z.array(jobSummarySchema), next: z.string().optional() })
export type RequestsBody = z.output<typeof requestsSchema>

export const chunkSchema = z.object({
  output: z.unknown(),
  metrics: z.record(z.string(), z.unknown()),
  index: z.int(),
  attempt: z.int().optional(),
  part: z
    .object({ as: z.enum(['text', 'array', 'bytes', 'json']), first: z.int(), last: z.boolean() })
    .optional(),
})

export const streamAnswerSchema = z.array(chunkSchema)

/** `index` and `attempt` are told to whoever asks with `after`. */
const hostedChunkSchema = chunkSchema.pick({ output: true, part: true, attempt: true }).extend({
  index: z.int().optional(),
  metrics: z.record(z.string(), z.unknown()).optional(),
})
export const hostedStreamSchema = z.object({ status: jobStatusSchema, stream: z.array(hostedChunkSchema) })

export const purgedSchema = z.object({ removed: z.int(), status: z.literal('completed') })

const count = z.int().min(0)
export const healthSchema = z.object({
  jobs: z.object({ completed: count, failed: count, inProgress: count, inQueue: count, retried: count }),
  workers: z.object({
    idle: count,
    running: count,
    ready: count,
    initializing: count,
    throttled: count,
    unhealthy: count,
  }),
})
export type HealthBody = z.output<typeof healthSchema>

export const errorBodySchema = z.object({ error: z.string(), code: z.string() })

/** Failures under /openai; a handler's own error may say more. */
export const openaiErrorSchema = z.object({ error: z.unknown() })

export const openaiRequestSchema = z.looseObject({ stream: z.boolean().optional() })

export const healthzSchema = z.object({ status: z.literal('ok') })
