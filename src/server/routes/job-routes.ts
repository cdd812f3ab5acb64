// Looking at and changing one job or the whole queue: status, stream, cancel, retry, purge-queue, health.

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import {
  endpointParamsSchema,
  healthSchema,
  jobParamsSchema,
  jobRecordSchema,
  purgedSchema,
  requestsQuerySchema,
  requestsSchema,
  statusQuerySchema,
  streamAnswerSchema,
  streamHeadersSchema,
  streamQuerySchema,
  submittedSchema,
} from '../../protocol/endpoint-api.ts'
import type { Queue } from '../../queue/queue.ts'
import type { Workers } from '../../queue/workers.ts'
import { lookUp, readStream } from '../job-reads.ts'
import { recordBody } from '../../queue/record-body.ts'
import { lastEventId, pushFormOf, pushNews } from '../job-push.ts'
import { chunksBody, delivery, sendJson } from '../replies.ts'

const tags = ['Jobs']

/** An array, or with another Accept what is pushed. */
const streamContent = {
  description: "The job's status is in x-job-status.",
  content: {
    'application/json': { schema: streamAnswerSchema },
    'text/event-stream': { schema: z.string() },
    'application/x-ndjson': { schema: z.string() },
  },
}

const schemas = {
  cancel: {
    summary: 'Ends a job that waits or runs',
    tags,
    params: jobParamsSchema,
    response: { 200: submittedSchema },
  },
  retry: {
    summary: 'Queues a failed or timed-out job again',
    tags,
    params: jobParamsSchema,
    response: { 200: submittedSchema },
  },
  purge: {
    summary: 'Cancels every job that waits',
    tags,
    params: endpointParamsSchema,
    response: { 200: purgedSchema },
  },
  requests: {
    summary: 'Lists jobs, newest first',
    tags,
    params: endpointParamsSchema,
    querystring: requestsQuerySchema,
    response: { 200: requestsSchema },
  },
  health: {
    summary: 'Counts of jobs and workers',
    tags,
    params: endpointParamsSchema,
    response: { 200: healthSchema },
  },
}

/** One job, read. */
export const jobRoutes: FastifyPluginAsyncZod<{ queue: Queue }> = async (app, { queue }) => {
  app.get('/status/:id', {
    config: { permission: 'read', operation: 'status' },
    schema: {
      summary: 'The record of a job; ttl moves its ttl',
      tags,
      params: jobParamsSchema,
      querystring: statusQuerySchema,
      response: { 200: jobRecordSchema },
    },
    handler: async (request, reply) => sendJson(reply, recordBody(await lookUp(queue, request))),
  })

  app.get('/stream/:id', {
    config: { permission: 'read', operation: 'stream' },
    schema: {
      summary: 'New chunks of a job; pushed as they come with another Accept',
      tags,
      params: jobParamsSchema,
      headers: streamHeadersSchema,
      querystring: streamQuerySchema,
      response: { 200: streamContent },
    },
    async handler(request, reply) {
      const { endpointId, id } = request.params
      const form = pushFormOf(request.headers.accept)
      if (form) {
        const after = lastEventId(request.headers['last-event-id']) ?? request.query.after ?? 0
        const news = await queue.follow(endpointId, id, { after, gone: delivery(reply).gone })
        return pushNews(reply, form, news)
      }
      const answer = await readStream(queue, request, reply)
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
    schema: schemas.cancel,
    handler: (request) => queue.cancel(request.params.endpointId, request.params.id),
  })

  app.post('/retry/:id', {
    config: { permission: 'write' },
    schema: schemas.retry,
    handler: (request) => queue.retry(request.params.endpointId, request.params.id),
  })

  app.post('/purge-queue', {
    config: { permission: 'write', operation: 'purge-queue' },
    schema: schemas.purge,
    handler: async (request) => ({
      removed: await queue.purge(request.params.endpointId),
      status: 'completed' as const,
    }),
  })

  app.get('/requests', {
    config: { permission: 'read', operation: 'requests' },
    schema: schemas.requests,
    handler: (request) => {
      const { limit, before } = request.query
      const page = { ...(limit !== undefined && { limit }), ...(before !== undefined && { before }) }
      return queue.list(request.params.endpointId, page)
    },
  })

  app.get('/health', {
    config: { permission: 'read' },
    schema: schemas.health,
    async handler(request) {
      const { endpointId } = request.params
      return { jobs: await queue.count(endpointId), workers: await workers.count(endpointId) }
    },
  })
}
