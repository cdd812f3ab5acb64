// What status and stream do in every dialect, before the answer is put into words.

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { z } from 'zod'
import type { jobParamsSchema, statusQuerySchema, streamQuerySchema } from '../protocol/endpoint-api.ts'
import type { Queue, StreamAnswer } from '../queue/queue.ts'
import type { JobRecord } from '../store/job-store.ts'
import { requirePermission } from './auth.ts'
import { delivery } from './replies.ts'

type Params = z.output<typeof jobParamsSchema>

/** The job, its ttl moved before that when the query says so. */
export async function lookUp(
  queue: Queue,
  request: FastifyRequest<{ Params: Params; Querystring: z.output<typeof statusQuerySchema> }>,
): Promise<JobRecord> {
  const { endpointId, id } = request.params
  const { ttl } = request.query
  if (ttl !== undefined) {
    requirePermission(request.key, 'write')
    await queue.setTtl(endpointId, id, ttl)
  }
  return queue.find(endpointId, id)
}

/** The next chunks; the read position moves when the reply is written. */
export async function readStream(
  queue: Queue,
  request: FastifyRequest<{ Params: Params; Querystring: z.output<typeof streamQuerySchema> }>,
  reply: FastifyReply,
): Promise<StreamAnswer> {
  const { endpointId, id } = request.params
  const { after, wait } = request.query
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
  return answer
}
