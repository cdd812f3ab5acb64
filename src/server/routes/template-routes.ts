// Templates under /v1: made, listed, read, updated, deleted.

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { Fleet } from '../../fleet/fleet.ts'
import { templateParamsSchema, templatesQuerySchema } from '../../protocol/resource-api.ts'
import { newTemplateSchema, templateSchema, templateUpdateSchema } from '../../resource/template.ts'

const tags = ['Fleet']
const config = { permission: 'fleet' } as const
const withBody = { ...config, body: 'json' } as const

const schemas = {
  create: {
    summary: 'Makes a template',
    tags,
    body: newTemplateSchema,
    response: { 201: templateSchema },
  },
  list: {
    summary: 'Lists the templates',
    tags,
    querystring: templatesQuerySchema,
    response: { 200: z.array(templateSchema) },
  },
  read: {
    summary: 'Reads a template',
    tags,
    params: templateParamsSchema,
    response: { 200: templateSchema },
  },
  update: {
    summary: 'Updates a template, and releases it to the endpoints that use it',
    tags,
    params: templateParamsSchema,
    body: templateUpdateSchema,
    response: { 200: templateSchema },
  },
  remove: {
    summary: 'Deletes a template that no endpoint uses',
    tags,
    params: templateParamsSchema,
    response: { 204: z.undefined() },
  },
}

export const templateRoutes: FastifyPluginAsyncZod<Pick<Fleet, 'templates'>> = async (app, { templates }) => {
  app.post('/templates', {
    config: withBody,
    schema: schemas.create,
    async handler(request, reply) {
      return reply.code(201).send(await templates.create(request.body))
    },
  })

  app.get('/templates', {
    config,
    schema: schemas.list,
    handler: (request) => templates.list(request.query),
  })

  app.get('/templates/:templateId', {
    config,
    schema: schemas.read,
    handler: (request) => templates.get(request.params.templateId),
  })

  app.post('/templates/:templateId/update', {
    config: withBody,
    schema: schemas.update,
    handler: (request) => templates.update(request.params.templateId, request.body),
  })
  app.patch('/templates/:templateId', {
    config: withBody,
    schema: schemas.update,
    handler: (request) => templates.update(request.params.templateId, request.body),
  })

  app.delete('/templates/:templateId', {
    config,
    schema: schemas.remove,
    async handler(request, reply) {
      await templates.remove(request.params.templateId)
      return reply.code(204).send()
    },
  })
}
