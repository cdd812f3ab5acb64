// The resource interface under /v1: what is asked and what is answered. The records themselves are in src/resource.

import { z } from 'zod'
import { endpointIdSchema } from '../job/job.ts'
import { resourceIdSchema, resourceNameSchema } from '../resource/container.ts'
import { endpointResourceSchema } from '../resource/endpoint.ts'
import { fleetLimits } from '../resource/fleet-limits.ts'
import { imageNameSchema } from '../resource/image-name.ts'
import { desiredStatuses, podSchema } from '../resource/pod.ts'
import { scalingSchema } from '../resource/scaling.ts'
import { templateSchema } from '../resource/template.ts'
import { queryBoolean, queryInt } from './query.ts'

export const templateParamsSchema = z.object({ templateId: resourceIdSchema })
export const resourceEndpointParamsSchema = z.object({ endpointId: endpointIdSchema })
export const podParamsSchema = z.object({ podId: resourceIdSchema })
export const registryAuthParamsSchema = z.object({ containerRegistryAuthId: resourceIdSchema })

/** What holds where it is left out. */
function left(meant: boolean, description?: string): z.ZodOptional<typeof queryBoolean> {
  const override = { type: 'boolean', default: meant, ...(description !== undefined && { description }) }
  return queryBoolean.optional().meta({ override })
}

/** All of them are told where none is named: a service has one owner, and no templates of others or of its maker. */
export const templatesQuerySchema = z.strictObject({
  /** False leaves out those that an endpoint uses. */
  includeEndpointBoundTemplates: left(true),
  /** Include the public ones of others: there are none. */
  includePublicTemplates: left(false),
  /** Include those that come with the service: there are none. */
  includeVendorTemplates: left(false),
})

export const endpointQuerySchema = z.object({
  /** Include the template that its workers are made from. */
  includeTemplate: left(false),
  /** Include its pods. */
  includeWorkers: left(false),
})

export const shownEndpointSchema = endpointResourceSchema.extend({
  /** What was decided last about its workers; none before anything was. */
  scaling: scalingSchema.optional(),
  template: templateSchema.optional(),
  workers: z.array(podSchema).optional(),
})

const podIncludes = {
  /** Include the machine that it runs on. */
  includeMachine: left(false),
  /** Include the network volume that is attached, if any. */
  includeNetworkVolume: left(false),
  /** Include the savings plans that apply to it. */
  includeSavingsPlans: left(false),
  /** Include the template that it was made from, if any. */
  includeTemplate: left(false),
  /** Include pods that are workers of endpoints; one that is named by its id is found either way. */
  includeWorkers: left(false),
}

export const podQuerySchema = z.object(podIncludes)

/** An unknown filter is refused: without it more would be answered than was asked for. */
export const podsQuerySchema = z.strictObject({
  ...podIncludes,
  includeWorkers: left(false, 'True where an endpointId is given.'),
  /** Without it all but those that are TERMINATED. */
  desiredStatus: z.enum(desiredStatuses).optional(),
  endpointId: endpointIdSchema.optional(),
  id: resourceIdSchema.optional(),
  imageName: imageNameSchema.optional(),
  name: resourceNameSchema.optional(),
  templateId: resourceIdSchema.optional(),
})

export const podLogsQuerySchema = z.strictObject({
  /** How many of the last lines; all that are kept when left out. */
  tail: queryInt(fleetLimits.logTail).optional(),
  /** Keeps the answer open for what is printed from now on, until the pod has ended. */
  follow: left(false),
})
