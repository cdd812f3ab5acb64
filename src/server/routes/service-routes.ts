// What is asked of the service itself rather than of an endpoint.

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { healthzSchema } from '../../protocol/endpoint-api.ts'
import { Refusal } from '../../protocol/errors.ts'
import type { Auth } from '../auth.ts'
import type { Metrics } from '../metrics.ts'

export interface ServiceRoutesOptions {
  /** Resolves while the store is as it should be. */
  ping: () => Promise<void>
  metrics: Metrics
  auth: Auth
}

export const serviceRoutes: FastifyPluginAsyncZod<ServiceRoutesOptions> = async (
  app,
  { ping, metrics, auth },
) => {
  app.decorateRequest('key', undefined)

  app.get('/healthz', {
    schema: {
      summary: 'Whether the service and its store answer; needs no key',
      tags: ['Service'],
      security: [],
      response: { 200: healthzSchema },
    },
    async handler() {
      await ping()
      return { status: 'ok' as const }
    },
  })

  app.get('/metrics', {
    schema: {
      summary: 'Metrics of every endpoint, as Prometheus reads them',
      tags: ['Service'],
      response: {
        200: { description: 'Metrics.', content: { 'text/plain': { schema: z.string() } } },
      },
    },
    async handler(request, reply) {
      await auth.check(request, 'read')
      // They tell of every endpoint.
      if (request.key?.endpoints)
        throw new Refusal('UNAUTHORIZED', { problem: 'This key does not open every endpoint.' })
      const { type, text } = await metrics.text()
      return reply.header('content-type', type).send(text)
    },
  })
}
