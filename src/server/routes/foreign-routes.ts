// The wire of the hosted platform's workers: take, stop, done, stream and ping.

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { limits } from '../../job/limits.ts'
import { jsonArrayOfRaw, jsonWithRaw } from '../../lib/raw-json.ts'
import {
  batchQuerySchema,
  foreignJobSchema,
  foreignReportSchema,
  pingQuerySchema,
  workerJobParamsSchema,
  workerParamsSchema,
} from '../../protocol/worker-api.ts'
import type { ForeignWorkers } from '../../queue/foreign-workers.ts'
import type { Queue } from '../../queue/queue.ts'
import type { OpenedJob } from '../../queue/lease-line.ts'
import { bytesOf } from '../body.ts'
import { delivery, sendJson } from '../replies.ts'

const tags = ['Workers']
const nothing = z.void().meta({ description: 'There is none.' })
const jobOrNothing = { 200: foreignJobSchema, 204: nothing }
const jobsOrNothing = { 200: z.array(foreignJobSchema), 204: nothing }
const stopsOrNothing = { 200: z.object({ jobsToStop: z.array(z.string()) }), 204: nothing }
const nothingMore = { 200: z.object({}) }
const documentedBody = { type: 'application/json', schema: foreignReportSchema }

const schemas = {
  take: {
    summary: 'A job for a worker of the hosted kind',
    tags,
    response: jobOrNothing,
    params: workerParamsSchema,
  },
  takeBatch: {
    summary: 'Some jobs for a worker of the hosted kind',
    tags,
    response: jobsOrNothing,
    params: workerParamsSchema,
    querystring: batchQuerySchema,
  },
  stop: {
    summary: 'Jobs that such a worker should stop',
    tags,
    response: stopsOrNothing,
    params: workerParamsSchema,
  },
  done: {
    summary: 'A result or a progress of such a worker',
    tags,
    response: nothingMore,
    params: workerJobParamsSchema,
  },
  stream: {
    summary: 'A chunk of such a worker',
    tags,
    response: nothingMore,
    params: workerJobParamsSchema,
  },
  ping: {
    summary: 'The heartbeat of such a worker',
    tags,
    response: nothingMore,
    params: workerParamsSchema,
    querystring: pingQuerySchema,
  },
}

export interface ForeignRoutesOptions {
  queue: Queue
  foreign: ForeignWorkers
}

/** Where such a worker gets its jobs and its orders. */
export const foreignTakeRoutes: FastifyPluginAsyncZod<ForeignRoutesOptions> = async (app, options) => {
  const { queue, foreign } = options

  const take = async (
    reply: FastifyReply,
    ask: { endpointId: string; workerId: string; count: number },
  ): Promise<OpenedJob[] | undefined> => {
    const { endpointId, workerId, count } = ask
    await queue.requireEndpoint(endpointId)
    const delivered = delivery(reply)
    const leases = await foreign.take(endpointId, workerId, count, delivered.gone)
    if (leases.length === 0) return undefined
    delivered.onEnd(
      () => undefined,
      () => foreign.giveBack(endpointId, workerId, leases),
    )
    return leases
  }

  app.get('/job-take/:workerId', {
    config: { permission: 'worker' },
    schema: schemas.take,
    async handler(request, reply) {
      const [lease] = (await take(reply, { ...request.params, count: 1 })) ?? []
      return lease ? sendJson(reply, leaseBody(lease)) : reply.code(204).send()
    },
  })

  app.get('/job-take-batch/:workerId', {
    config: { permission: 'worker' },
    schema: schemas.takeBatch,
    async handler(request, reply) {
      const leases = await take(reply, { ...request.params, count: request.query.batch_size })
      if (!leases) return reply.code(204).send()
      return sendJson(reply, jsonArrayOfRaw(leases.map(leaseBody)))
    },
  })

  app.get('/job-stop/:workerId', {
    config: { permission: 'worker' },
    schema: schemas.stop,
    async handler(request, reply) {
      const { endpointId, workerId } = request.params
      await queue.requireEndpoint(endpointId)
      const jobsToStop = await foreign.stops(endpointId, workerId, delivery(reply).gone)
      return jobsToStop.length > 0 ? reply.send({ jobsToStop }) : reply.code(204).send()
    },
  })
}

/** Where it says how its jobs go. */
export const foreignReportRoutes: FastifyPluginAsyncZod<ForeignRoutesOptions> = async (
  app,
  { queue, foreign },
) => {
  // Such a worker drops a result that is refused: without this the job would run until its lease lapses, and again.
  const failWhenTooLarge = async (error: FastifyError, request: FastifyRequest): Promise<never> => {
    const params = workerJobParamsSchema.safeParse(request.params)
    if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE' && params.success) {
      const { endpointId, workerId, id } = params.data
      await foreign.tooLarge(endpointId, workerId, id)
    }
    throw error
  }

  app.post('/job-done/:workerId/:id', {
    bodyLimit: limits.reportBodyBytes,
    errorHandler: failWhenTooLarge,
    config: { body: 'bytes', permission: 'worker', documentedBody },
    schema: schemas.done,
    async handler(request) {
      const { endpointId, workerId, id } = request.params
      await queue.requireEndpoint(endpointId)
      await foreign.done(endpointId, workerId, id, bytesOf(request.body))
      return {}
    },
  })

  app.post('/job-stream/:workerId/:id', {
    bodyLimit: limits.reportBodyBytes,
    errorHandler: failWhenTooLarge,
    config: { body: 'bytes', permission: 'worker', documentedBody },
    schema: schemas.stream,
    async handler(request) {
      const { endpointId, workerId, id } = request.params
      await queue.requireEndpoint(endpointId)
      await foreign.stream(endpointId, workerId, id, bytesOf(request.body))
      return {}
    },
  })

  app.get('/ping/:workerId', {
    config: { permission: 'worker' },
    schema: schemas.ping,
    async handler(request) {
      const { endpointId, workerId } = request.params
      await queue.requireEndpoint(endpointId)
      const { job_id: listed, status } = request.query
      const ids = listed?.split(',').filter(Boolean) ?? []
      await foreign.ping(endpointId, workerId, { ids, isUnhealthy: status === 'unhealthy' })
      return {}
    },
  })
}

/** The job as a foreign worker expects it: always with an input, and with the keys its handlers may know. */
function leaseBody({ id, webhook, s3Config, policy, attempt, input }: OpenedJob): Buffer {
  return jsonWithRaw({ id, webhook, s3Config, policy, attempt }, { input })
}
