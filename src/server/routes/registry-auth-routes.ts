// Credentials for registries under /v1: made, listed, read, deleted. No answer has the name or the password of one.

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { Fleet } from '../../fleet/fleet.ts'
import { registryAuthParamsSchema } from '../../protocol/resource-api.ts'
import { newRegistryAuthSchema, registryAuthSchema } from '../../resource/registry-auth.ts'

const tags = ['Fleet']
const config = { permission: 'fleet' } as const

export const registryAuthRoutes: FastifyPluginAsyncZod<Pick<Fleet, 'registryAuths'>> = async (
  app,
  { registryAuths },
) => {
  app.post('/containerregistryauth', {
    config: { ...config, body: 'json' },
    schema: {
      summary: 'Keeps credentials for a registry of private images',
      tags,
      body: newRegistryAuthSchema,
      response: { 201: registryAuthSchema },
    },
    async handler(request, reply) {
      return reply.code(201).send(await registryAuths.create(request.body))
    },
  })

  app.get('/containerregistryauth', {
    config,
    schema: {
      summary: 'Lists the credentials for registries, by name',
      tags,
      response: { 200: z.array(registryAuthSchema) },
    },
    handler: () => registryAuths.list(),
  })

  app.get('/containerregistryauth/:containerRegistryAuthId', {
    config,
    schema: {
      summary: 'Reads the name of credentials for a registry',
      tags,
      params: registryAuthParamsSchema,
      response: { 200: registryAuthSchema },
    },
    handler: (request) => registryAuths.get(request.params.containerRegistryAuthId),
  })

  app.delete('/containerregistryauth/:containerRegistryAuthId', {
    config,
    schema: {
      summary: 'Deletes credentials for a registry that nothing uses',
      tags,
      params: registryAuthParamsSchema,
      response: { 204: z.undefined() },
    },
    async handler(request, reply) {
      await registryAuths.remove(request.params.containerRegistryAuthId)
      return reply.code(204).send()
    },
  })
}
