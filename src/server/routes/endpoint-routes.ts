// Endpoints as resources under /v1: made, listed, read, updated, deleted, and what was released to them.

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { Fleet } from '../../fleet/fleet.ts'
import {
  endpointQuerySchema,
  resourceEndpointParamsSchema,
  shownEndpointSchema,
} from '../../protocol/resource-api.ts'
import {
  endpointResourceSchema,
  endpointUpdateSchema,
  newEndpointSchema,
  type EndpointResource,
} from '../../resource/endpoint.ts'
import { releaseSchema } from '../../resource/release.ts'

const tags = ['Fleet']
const config = { permission: 'fleet' } as const
const withBody = { ...config, body: 'json' } as const
type Shown = z.output<typeof shownEndpointSchema>

const schemas = {
  create: {
    summary: 'Makes an endpoint with its queue',
    tags,
    body: newEndpointSchema,
    response: { 201: endpointResourceSchema },
  },
  list: {
    summary: 'Lists the endpoints',
    tags,
    querystring: endpointQuerySchema,
    response: { 200: z.array(shownEndpointSchema) },
  },
  read: {
    summary: 'Reads an endpoint',
    tags,
    params: resourceEndpointParamsSchema,
    querystring: endpointQuerySchema,
    response: { 200: shownEndpointSchema },
  },
  releases: {
    summary: 'Lists what was released to an endpoint, newest first',
    tags,
    params: resourceEndpointParamsSchema,
    response: { 200: z.array(releaseSchema) },
  },
  remove: {
    summary: 'Deletes an endpoint with its workers, its queue and its jobs',
    tags,
    params: resourceEndpointParamsSchema,
    response: { 204: z.undefined() },
  },
  update: {
    summary: 'Updates an endpoint',
    tags,
    params: resourceEndpointParamsSchema,
    body: endpointUpdateSchema,
    response: { 200: endpointResourceSchema },
  },
}

export const endpointRoutes: FastifyPluginAsyncZod<Fleet> = async (app, fleet) => {
  const { endpoints, releases } = fleet

  app.post('/endpoints', {
    config: withBody,
    schema: schemas.create,
    async handler(request, reply) {
      return reply.code(201).send(await endpoints.create(request.body))
    },
  })

  app.get('/endpoints', {
    config,
    schema: schemas.list,
    async handler(request) {
      return Promise.all((await endpoints.list()).map((endpoint) => shown(fleet, endpoint, request.query)))
    },
  })

  app.get('/endpoints/:endpointId', {
    config,
    schema: schemas.read,
    async handler(request) {
      return shown(fleet, await endpoints.get(request.params.endpointId), request.query)
    },
  })

  app.get('/endpoints/:endpointId/releases', {
    config,
    schema: schemas.releases,
    async handler(request) {
      const { id } = await endpoints.get(request.params.endpointId)
      return releases.list(id)
    },
  })

  app.delete('/endpoints/:endpointId', {
    config,
    schema: schemas.remove,
    async handler(request, reply) {
      await endpoints.remove(request.params.endpointId)
      return reply.code(204).send()
    },
  })

  app.post('/endpoints/:endpointId/update', {
    config: withBody,
    schema: schemas.update,
    handler: (request) => endpoints.update(request.params.endpointId, request.body),
  })

  app.patch('/endpoints/:endpointId', {
    config: withBody,
    schema: schemas.update,
    handler: (request) => endpoints.update(request.params.endpointId, request.body),
  })
}

async function shown(
  { endpoints, templates, pods }: Fleet,
  endpoint: EndpointResource,
  { includeTemplate, includeWorkers }: z.output<typeof endpointQuerySchema>,
): Promise<Shown> {
  const scaling = await endpoints.scaling(endpoint.id)
  return {
    ...endpoint,
    ...(scaling && { scaling }),
    ...(includeTemplate && { template: await templates.get(endpoint.templateId) }),
    ...(includeWorkers && { workers: await pods.list({ endpointId: endpoint.id }) }),
  }
}
