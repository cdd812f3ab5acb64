// What the hosted platform's clients ask in words of their own: status, status-sync and stream, by GET and by POST.

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { limits } from '../../job/limits.ts'
import {
  hostedRecordSchema,
  hostedStreamSchema,
  jobParamsSchema,
  runsyncQuerySchema,
  statusQuerySchema,
  streamQuerySchema,
} from '../../protocol/endpoint-api.ts'
import { isEnded } from '../../job/lifecycle.ts'
import type { Queue } from '../../queue/queue.ts'
import { recordBody } from '../../queue/record-body.ts'
import { lookUp, readStream } from '../job-reads.ts'
import { delivery, hostedStreamBody, sendJson } from '../replies.ts'

/** Their clients ask by either. */
const EITHER = ['GET', 'POST'] as const

export const hostedRoutes: FastifyPluginAsyncZod<{ queue: Queue }> = async (app, { queue }) => {
  app.route({
    method: [...EITHER],
    url: '/status/:id',
    config: { permission: 'read', operation: 'status' },
    schema: {
      summary: 'The record of a job, in the words of the hosted platform',
      params: jobParamsSchema,
      querystring: statusQuerySchema,
      response: { 200: hostedRecordSchema },
    },
    handler: async (request, reply) => sendJson(reply, recordBody(await lookUp(queue, request), 'hosted')),
  })

  app.route({
    method: [...EITHER],
    url: '/status-sync/:id',
    config: { permission: 'read', operation: 'status' },
    schema: {
      summary: 'The record of a job once it has ended, or as it is when the wait is over',
      params: jobParamsSchema,
      querystring: runsyncQuerySchema,
      response: { 200: hostedRecordSchema },
    },
    async handler(request, reply) {
      const { endpointId, id } = request.params
      const { wait = limits.waitMs.default } = request.query
      const record = await queue.waitForEnd(endpointId, id, wait, delivery(reply).gone)
      return sendJson(reply, recordBody(record, 'hosted'))
    },
  })

  app.route({
    method: [...EITHER],
    url: '/stream/:id',
    config: { permission: 'read', operation: 'stream' },
    schema: {
      summary: 'New chunks of a job beside its status',
      params: jobParamsSchema,
      querystring: streamQuerySchema,
      response: { 200: hostedStreamSchema },
    },
    async handler(request, reply) {
      const answer = await readStream(queue, request, reply)
      // Their clients stop at an ended status: it is told with the last of the chunks.
      const status = answer.hasMore && isEnded(answer.status) ? 'IN_PROGRESS' : answer.status
      // Whoever names a place to go on from has to be told the places.
      const isPlaced = request.query.after !== undefined
      reply.header('x-job-status', status)
      return sendJson(reply, hostedStreamBody(status, answer.chunks, isPlaced))
    },
  })
}
