// The exchange of Longshore's own workers.

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import {
  decodeExchange,
  encodeExchange,
  EXCHANGE_TYPE,
  exchangeRequestSchema,
  MAX_EXCHANGE_BYTES,
} from '../../protocol/exchange.ts'
import { exchangeParamsSchema } from '../../protocol/worker-api.ts'
import type { Dispatch } from '../../queue/dispatch.ts'
import type { Queue } from '../../queue/queue.ts'
import { bytesOf } from '../body.ts'
import { delivery } from '../replies.ts'

export interface ExchangeRoutesOptions {
  queue: Queue
  dispatch: Dispatch
}

const binary = z.unknown().meta({ override: { type: 'string', format: 'binary' } })

export const exchangeRoutes: FastifyPluginAsyncZod<ExchangeRoutesOptions> = async (
  app,
  { queue, dispatch },
) => {
  app.post('/exchange/:workerId', {
    bodyLimit: MAX_EXCHANGE_BYTES,
    config: {
      body: 'bytes',
      permission: 'worker',
      documentedBody: { type: EXCHANGE_TYPE, schema: binary },
    },
    schema: {
      summary: 'All that one of our workers and the service have to say to each other',
      tags: ['Workers'],
      params: exchangeParamsSchema,
      response: {
        200: {
          description: 'Leases, stops and acknowledgements.',
          content: { [EXCHANGE_TYPE]: { schema: binary } },
        },
      },
    },
    async handler(request, reply) {
      const { endpointId, workerId } = request.params
      await queue.requireEndpoint(endpointId)
      const { head, payloads } = decodeExchange(bytesOf(request.body), exchangeRequestSchema)
      const delivered = delivery(reply)
      const answer = await dispatch.exchange(endpointId, workerId, head, payloads, delivered.gone)
      delivered.onEnd(
        () => undefined,
        () =>
          answer
            .undelivered()
            .catch(
              (err: unknown) =>
                request.server.noteStoreTrouble?.(err) || request.log.error({ err }, 'leases not given back'),
            ),
      )
      return reply.header('content-type', EXCHANGE_TYPE).send(encodeExchange(answer.head, answer.payloads))
    },
  })
}
