// The interface as an OpenAPI document, made from the schemas that check it, and a page to read it on.

import swagger from '@fastify/swagger'
import swaggerUi from '@fastify/swagger-ui'
import { createJsonSchemaTransform } from 'fastify-type-provider-zod'
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { errorBodySchema, openaiErrorSchema } from '../protocol/endpoint-api.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What a route that reads its body by itself takes. */
    documentedBody?: { type: string; schema: z.ZodType }
    /** Refusals are answered in the form of the OpenAI interface. */
    hasOpenAiErrors?: boolean
  }
}

/** `/openapi.json` and `/docs`, for everything that is registered after this. */
export function describeInterface(http: FastifyInstance, version: string): void {
  http.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Longshore',
        version,
        description: 'Submit jobs to serverless handlers, follow them, and take them as a worker.',
      },
      tags: [
        { name: 'Jobs', description: 'What clients ask of an endpoint.' },
        { name: 'OpenAI', description: 'Handlers as servers of the OpenAI interface.' },
        { name: 'Compatible', description: 'The same for clients of the hosted platform, in their words.' },
        { name: 'Workers', description: 'How workers take jobs and report them.' },
        { name: 'Fleet', description: 'Templates, endpoints, what is released to them, and pods.' },
        { name: 'Service', description: 'The service itself.' },
      ],
      components: { securitySchemes: { key: { type: 'http', scheme: 'bearer' } } },
      security: [{ key: [] }],
    },
    transform,
  })
  http.register(swaggerUi, {
    routePrefix: '/docs',
    // All that the page needs comes from here; also over plain http, as on a private network.
    staticCSP:
      "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'self'; frame-ancestors 'self'",
    // Nothing of a private service is sent to a validator of others.
    uiConfig: { validatorUrl: null, docExpansion: 'list' },
  })
  http.register(async (scope) => {
    scope.get('/openapi.json', { schema: { hide: true } }, () => http.swagger())
  })
}

type Override = NonNullable<NonNullable<Parameters<typeof z.toJSONSchema>[1]>['override']>

/** A schema that checks one thing and means another says in its meta what it means. */
const override: Override = ({ zodSchema, jsonSchema }) => {
  const meant = z.globalRegistry.get(zodSchema)?.['override']
  if (meant === undefined) return
  for (const name of Object.keys(jsonSchema)) Reflect.deleteProperty(jsonSchema, name)
  Object.assign(jsonSchema, meant)
}

const ofSchemas = createJsonSchemaTransform({ zodToJsonConfig: { override } })

type Transform = typeof ofSchemas

/** Adds what the schemas of a route do not say: refusals, bodies that it reads by itself, the name of its wildcard. */
const transform: Transform = (document) => {
  const { config } = document.route
  const { documentedBody, hasOpenAiErrors } = config ?? {}
  const { schema, url } = ofSchemas(document)
  if (schema.hide) return { schema, url }
  const refusal = {
    description: 'Refused, or failed: the code says why.',
    content: {
      'application/json': { schema: jsonOf(hasOpenAiErrors ? openaiErrorSchema : errorBodySchema) },
    },
  }
  const described = {
    ...schema,
    // The same routes stand under both prefixes.
    ...(url.startsWith('/compat/') && { tags: ['Compatible'] }),
    response: { ...(schema.response as object | undefined), '4xx': refusal, '5xx': refusal },
    ...(documentedBody && {
      body: { content: { [documentedBody.type]: { schema: jsonOf(documentedBody.schema) } } },
    }),
  }
  if (!url.endsWith('/*')) return { schema: described, url }
  const { properties = {}, ...params } = described.params as { properties?: Record<string, unknown> }
  const { '*': path, ...others } = properties
  const named = { ...params, properties: { ...others, path }, required: [...Object.keys(others), 'path'] }
  return { schema: { ...described, params: named }, url: url.replace('*', ':path') }
}

function jsonOf(schema: z.ZodType): object {
  const json = z.toJSONSchema(schema, { unrepresentable: 'any', override })
  Reflect.deleteProperty(json, '$schema')
  return json
}
