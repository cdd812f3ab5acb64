// A release: one version of an endpoint on its way to being what all its workers run.

import { z } from 'zod'
import { endpointIdSchema } from '../job/job.ts'
import { templateSchema } from './template.ts'
import { keptEnvSchema } from './container.ts'

export const releaseStates = ['ROLLING', 'COMPLETED', 'STOPPED', 'SUPERSEDED'] as const
export type ReleaseState = (typeof releaseStates)[number]

export const releaseSchema = z.object({
  /** `<endpointId>.<version>`, the version in six digits. */
  id: z.string(),
  endpointId: endpointIdSchema,
  version: z.int(),
  state: z.enum(releaseStates),
  /** What has happened so far, for whoever reads it. */
  reason: z.string(),
  /** What its workers run with, and how often the template had been updated. */
  template: templateSchema,
  templateRevision: z.int(),
  /** The endpoint's own variables. */
  env: keptEnvSchema,
  /** Workers of this version that have proved ready, and those of older ones that are left. */
  ready: z.int(),
  older: z.int(),
  /** ISO 8601, UTC. */
  createdAt: z.string(),
  endedAt: z.string().optional(),
})
export type Release = z.output<typeof releaseSchema>
