// Pods under /v1: made, listed, read, named, started, stopped, restarted and ended.

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { Fleet } from '../../fleet/fleet.ts'
import { Refusal } from '../../protocol/errors.ts'
import { podParamsSchema, podQuerySchema, podsQuerySchema } from '../../protocol/resource-api.ts'
import { newPodSchema, podSchema, podUpdateSchema } from '../../resource/pod.ts'

const tags = ['Fleet']
const config = { permission: 'fleet' } as const
const withBody = { ...config, body: 'json' } as const
const params = podParamsSchema

const schemas = {
  create: {
    summary: 'Makes a pod of its own and starts it',
    tags,
    body: newPodSchema,
    response: { 201: podSchema },
  },
  list: {
    summary: 'Lists the pods',
    tags,
    querystring: podsQuerySchema,
    response: { 200: z.array(podSchema) },
  },
  read: { summary: 'Reads a pod', tags, params, querystring: podQuerySchema, response: { 200: podSchema } },
  update: {
    summary: 'Names a pod, locks or unlocks it',
    tags,
    params,
    body: podUpdateSchema,
    response: { 200: podSchema },
  },
  remove: { summary: 'Ends a pod for good', tags, params, response: { 204: z.undefined() } },
}

export const podRoutes: FastifyPluginAsyncZod<Pick<Fleet, 'pods'>> = async (app, { pods }) => {
  app.post('/pods', {
    config: withBody,
    schema: schemas.create,
    async handler(request, reply) {
      return reply.code(201).send(await pods.create(request.body))
    },
  })

  app.get('/pods', {
    config,
    schema: schemas.list,
    handler: (request) => pods.list(request.query, request.query),
  })

  app.get('/pods/:podId', {
    config,
    schema: schemas.read,
    handler: (request) => pods.get(request.params.podId, request.query),
  })

  const update = {
    config: withBody,
    schema: schemas.update,
    preValidation: async ({ body }: { body: unknown }) => refuseFixed(body),
  }
  app.patch('/pods/:podId', {
    ...update,
    handler: (request) => pods.update(request.params.podId, request.body),
  })
  app.post('/pods/:podId/update', {
    ...update,
    handler: (request) => pods.update(request.params.podId, request.body),
  })

  for (const [verb, summary] of [
    ['start', 'Starts a pod that was stopped'],
    ['stop', 'Stops a pod, which keeps its volume'],
    ['restart', 'Stops a pod and starts it again'],
    ['reset', 'The same: at each start the disk of a container is empty'],
  ] as const) {
    app.post(`/pods/:podId/${verb}`, {
      config,
      schema: { summary, tags, params, response: { 200: podSchema } },
      handler: ({ params: { podId } }) => pods[verb === 'reset' ? 'restart' : verb](podId),
    })
  }

  app.delete('/pods/:podId', {
    config,
    schema: schemas.remove,
    async handler(request, reply) {
      await pods.remove(request.params.podId)
      return reply.code(204).send()
    },
  })
}

/** What a pod was started with stays; which field it is, says more than that there is no such one. */
function refuseFixed(body: unknown): void {
  if (typeof body !== 'object' || body === null) return
  const field = Object.keys(body).find(
    (key) => Object.hasOwn(newPodSchema.shape, key) && !Object.hasOwn(podUpdateSchema.shape, key),
  )
  if (field === undefined) return
  const problem = 'cannot be changed of a pod that is there, only its name and locked can: make another pod'
  throw new Refusal('FIELD_INVALID', { field, problem })
}
