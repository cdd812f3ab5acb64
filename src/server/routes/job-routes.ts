// Looking at and changing one job or the whole queue: status, stream, cancel, retry, purge-queue, health.

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import {
  endpointParamsSchema,
  healthSchema,
  jobParamsSchema,
  purgedSchema,
  statusQuerySchema,
  streamQuerySchema,
  submittedSchema,
} from '../../protocol/endpoint-api.ts'
import type { Queue } from '../../queue/queue.ts'
import type { Workers } from '../../queue/workers.ts'
import { requirePermission } from '../auth.ts'
import { recordBody } from '../../queue/record-body.ts'
import { lastEventId, pushFormOf, pushNews } from '../job-push.ts'
import { chunksBody, delivery, sendJson } from '../replies.ts'

/** One job, read. */
export const jobRoutes: FastifyPluginAsyncZod<{ queue: Queue }> = async (app, { queue }) => {
  app.get('/status/:id', {
    config: { permission: 'read', operation: 'status' },
    schema: { params: jobParamsSchema, querystring: statusQuerySchema },
    async handler(request, reply) {
      const { endpointId, id } = request.params
      const { ttl } = request.query
      if (ttl !== undefined) {
        requirePermission(request.key, 'write')
        await queue.setTtl(endpointId, id, ttl)
      }
      return sendJson(reply, recordBody(await queue.find(endpointId, id)))
    },
  })

  app.get('/stream/:id', {
    config: { permission: 'read', operation: 'stream' },
    schema: { params: jobParamsSchema, querystring: streamQuerySchema },
    async handler(request, reply) {
      const { endpointId, id } = request.params
      const { after, wait } = request.query
      const form = pushFormOf(request.headers.accept)
      if (form) {
        const from = lastEventId(request.headers['last-event-id']) ?? after ?? 0
        return pushNews(
          reply,
          form,
          await queue.follow(endpointId, id, { after: from, gone: delivery(reply).gone }),
        )
      }
      const delivered = delivery(reply)
      const answer = await queue.stream(endpointId, id, {
        gone: delivered.gone,
        ...(after !== undefined && { after }),
        ...(wait !== undefined && { waitMs: wait }),
      })
      delivered.onEnd(
        () => answer.written().catch((err: unknown) => request.log.error({ err }, 'read position not moved')),
        () => answer.lost(),
      )
      reply.header('x-job-status', answer.status)
      return sendJson(reply, chunksBody(answer.chunks))
    },
  })
}

/** Jobs changed, the queue as a whole. */
export const queueRoutes: FastifyPluginAsyncZod<{ queue: Queue; workers: Workers }> = async (
  app,
  { queue, workers },
) => {
  app.post('/cancel/:id', {
    config: { permission: 'write', operation: 'cancel' },
    schema: { params: jobParamsSchema, response: { 200: submittedSchema } },
    handler: (request) => queue.cancel(request.params.endpointId, request.params.id),
  })

  app.post('/retry/:id', {
    config: { permission: 'write' },
    schema: { params: jobParamsSchema, response: { 200: submittedSchema } },
    handler: (request) => queue.retry(request.params.endpointId, request.params.id),
  })

  app.post('/purge-queue', {
    config: { permission: 'write', operation: 'purge-queue' },
    schema: { params: endpointParamsSchema, response: { 200: purgedSchema } },
    handler: async (request) => ({
      removed: await queue.purge(request.params.endpointId),
      status: 'completed' as const,
    }),
  })

  app.get('/health', {
    config: { permission: 'read' },
    schema: { params: endpointParamsSchema, response: { 200: healthSchema } },
    async handler(request) {
      const { endpointId } = request.params
      return { jobs: await queue.count(endpointId), workers: workers.count(endpointId) }
    },
  })
}
