// The routes of the hosted platform's worker wire: what a foreign worker sends and is sent.

import { z } from 'zod'
import { endpointParamsSchema } from './endpoint-api.ts'
import { workerIdSchema } from './exchange.ts'
import { queryInt } from './query.ts'
import { jobIdSchema, policySchema, s3ConfigSchema } from '../job/job.ts'

/** Such a worker glues "&name=value" to its URL, which lands in the last path segment when there is no "?". */
function firstOfGlued(schema: z.ZodType<string, string>): z.ZodType<string, string> {
  return z
    .string()
    .transform((segment) => segment.split('&', 1)[0] ?? '')
    .pipe(schema)
}

export const exchangeParamsSchema = endpointParamsSchema.extend({ workerId: workerIdSchema })
export const workerParamsSchema = endpointParamsSchema.extend({ workerId: firstOfGlued(workerIdSchema) })
export const workerJobParamsSchema = endpointParamsSchema.extend({
  workerId: workerIdSchema,
  id: firstOfGlued(jobIdSchema),
})

/** A job as a worker of the hosted kind gets it. */
export const foreignJobSchema = z.object({
  id: jobIdSchema,
  input: z.unknown(),
  policy: policySchema,
  attempt: z.int(),
  webhook: z.string().optional(),
  s3Config: s3ConfigSchema.optional(),
})

/** What it posts of one: an output, an error, a progress, a chunk. Read leniently, since it will not repeat it. */
export const foreignReportSchema = z.looseObject({
  output: z.unknown().optional(),
  error: z.unknown().optional(),
  metrics: z.unknown().optional(),
  status: z.string().optional(),
  stopPod: z.boolean().optional(),
})

export const batchQuerySchema = z.object({
  batch_size: queryInt({ min: 1, max: 1000 }).default(1),
})

/** `job_id`: the comma-joined ids that the worker holds, left out when it holds none. */
export const pingQuerySchema = z.object({
  job_id: z.string().max(70_000).optional(),
  /** `unhealthy` when it found itself unfit; anything else means nothing. */
  status: z.unknown().optional(),
})
