// The rate of each operation, asked for before a body is read, and told in every answer.

import type { FastifyInstance } from 'fastify'
import type { RatedOperation } from '../job/limits.ts'
import { limits } from '../job/limits.ts'
import { Refusal } from '../protocol/errors.ts'
import type { Queue } from '../queue/queue.ts'
import type { RateLimit } from '../queue/rate-limit.ts'
import type { Workers } from '../queue/workers.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The operation whose rate a request counts for; without one it is not limited. */
    operation?: RatedOperation
  }
}

/** Limits every route of the scope that names an operation. Comes after the key is known. */
export function limitRates(
  scope: FastifyInstance,
  rateLimit: RateLimit,
  { queue, workers }: { queue: Queue; workers: Workers },
): void {
  const windowSeconds = limits.rateWindowMs / 1000
  scope.addHook('onRequest', async (request, reply) => {
    const { operation } = request.routeOptions.config
    const { endpointId } = request.params as { endpointId?: string }
    if (operation === undefined || endpointId === undefined || !request.key) return
    // Nothing is counted for endpoints that there are not: anybody can think up any number of them.
    await queue.requireEndpoint(endpointId)
    const answer = await rateLimit.enter({
      operation,
      key: request.key.id,
      endpoint: endpointId,
      runningWorkers: (await workers.count(endpointId)).running,
    })
    const { limit, remaining, resetSeconds } = answer
    reply.header('ratelimit-policy', `"${operation}";q=${limit};w=${windowSeconds}`)
    reply.header('ratelimit', `"${operation}";r=${remaining};t=${resetSeconds}`)
    if (answer.kind === 'refused') {
      const { per, most, retrySeconds } = answer
      reply.header('retry-after', String(retrySeconds))
      const params = { operation: `/${operation}`, limit: most, per, retryAfter: retrySeconds }
      throw new Refusal('TOO_MANY_REQUESTS', params)
    }
    // Also when the client goes before it is answered.
    if (reply.raw.closed) answer.leave()
    else reply.raw.once('close', answer.leave)
  })
}
