// What was decided last about an endpoint's workers, for whoever reads the endpoint.

import { z } from 'zod'
import { endpointIdSchema } from '../job/job.ts'

const decisionSchema = z.object({
  /** ISO 8601, UTC. */
  at: z.string(),
  reason: z.string(),
})

export const scalingSchema = z.object({
  /** Workers that the endpoint is to have now. */
  wanted: z.int(),
  starting: z.int(),
  /** Hold no job. */
  idle: z.int(),
  /** Hold one at least. */
  running: z.int(),
  /** End after the jobs that they have. */
  draining: z.int(),
  /** What held last, and since when. */
  ...decisionSchema.shape,
  /** Decisions that started or ended workers, newest first. */
  recent: z.array(decisionSchema),
})
export type Scaling = z.output<typeof scalingSchema>

/** The id is the endpoint's. */
export const storedScalingSchema = scalingSchema.extend({ id: endpointIdSchema })
export type StoredScaling = z.output<typeof storedScalingSchema>
