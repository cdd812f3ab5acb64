// An endpoint as a resource: a queue, the template that its workers are made from, and how many of them there are to be.

import { z } from 'zod'
import { endpointIdSchema } from '../job/job.ts'
import { limits } from '../job/limits.ts'
import { envSchema, keptEnvSchema, resourceIdSchema, resourceNameSchema } from './container.ts'
import { withDefaults } from './documented.ts'
import { fleetLimits } from './fleet-limits.ts'

const { workers, workersMax, idleTimeoutSeconds, scalerValue } = fleetLimits

function wholeNumber({ min, max }: { min: number; max: number }, unit: string): z.ZodInt {
  const error = `must be a whole number from ${min} to ${max}${unit}`
  return z.int({ error }).min(min, { error }).max(max, { error })
}

/**
 * QUEUE_DELAY: enough workers that no job should wait longer than `scalerValue` seconds; REQUEST_COUNT: one worker
 * for every `scalerValue` jobs that wait or run.
 */
export const scalerTypes = ['QUEUE_DELAY', 'REQUEST_COUNT'] as const
export type ScalerType = (typeof scalerTypes)[number]

const endpointShape = {
  name: resourceNameSchema,
  templateId: resourceIdSchema,
  workersMin: wholeNumber(workers, ' workers'),
  workersMax: wholeNumber(workers, ' workers'),
  idleTimeout: wholeNumber(idleTimeoutSeconds, ' s'),
  scalerType: z.enum(scalerTypes),
  scalerValue: wholeNumber(scalerValue, ''),
  executionTimeoutMs: wholeNumber(limits.executionTimeoutMs, ' ms'),
  /** Over the template's, name by name. */
  env: envSchema,
}

/** What an update may change; a field that is left out stays as it is. */
export const endpointUpdateSchema = z.strictObject(endpointShape).partial()
export type EndpointUpdate = z.output<typeof endpointUpdateSchema>

const endpointDefaults = {
  workersMin: 0,
  workersMax: workersMax.default,
  idleTimeout: idleTimeoutSeconds.default,
  scalerType: 'QUEUE_DELAY',
  scalerValue: scalerValue.default,
  executionTimeoutMs: limits.executionTimeoutMs.default,
  env: {},
} as const

export const newEndpointSchema = withDefaults(
  endpointUpdateSchema.required({ templateId: true }).extend({
    name: resourceNameSchema.optional().meta({ description: 'Its id where it is left out.' }),
    workersMax: endpointShape.workersMax
      .optional()
      .meta({ description: 'Where it is left out, workersMin if that is more than the default.' }),
  }),
  endpointDefaults,
)
export type NewEndpoint = z.output<typeof newEndpointSchema>

export const endpointResourceSchema = z.object({
  id: endpointIdSchema,
  // Without the bounds of what is given, as those of a container.
  name: z.string(),
  templateId: resourceIdSchema,
  workersMin: z.int(),
  workersMax: z.int(),
  idleTimeout: z.int(),
  scalerType: z.enum(scalerTypes),
  scalerValue: z.int(),
  executionTimeoutMs: z.int(),
  env: keptEnvSchema,
  /** Rises with every release. */
  version: z.int(),
  /** ISO 8601, UTC. */
  createdAt: z.string(),
})
export type EndpointResource = z.output<typeof endpointResourceSchema>

/** The record of a new endpoint, its defaults filled in. */
export function endpointFrom(made: NewEndpoint, own: { id: string; createdAt: string }): EndpointResource {
  const workersMin = made.workersMin ?? endpointDefaults.workersMin
  return {
    name: made.name ?? own.id,
    templateId: made.templateId,
    workersMin,
    workersMax: made.workersMax ?? Math.max(workersMin, endpointDefaults.workersMax),
    idleTimeout: made.idleTimeout ?? endpointDefaults.idleTimeout,
    scalerType: made.scalerType ?? endpointDefaults.scalerType,
    scalerValue: made.scalerValue ?? endpointDefaults.scalerValue,
    executionTimeoutMs: made.executionTimeoutMs ?? endpointDefaults.executionTimeoutMs,
    env: made.env ?? endpointDefaults.env,
    version: 1,
    ...own,
  }
}
