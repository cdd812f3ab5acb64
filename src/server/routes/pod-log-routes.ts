// What a pod printed, under /v1: read at its reader's pace, and followed until one of the two is gone.

import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { Fleet } from '../../fleet/fleet.ts'
import { podLogsQuerySchema, podParamsSchema } from '../../protocol/resource-api.ts'
import { delivery } from '../replies.ts'

export const podLogRoutes: FastifyPluginAsyncZod<Pick<Fleet, 'pods'>> = async (app, { pods }) => {
  app.get('/pods/:podId/logs', {
    config: { permission: 'fleet' },
    schema: {
      summary: 'What a pod printed, line by line',
      tags: ['Fleet'],
      params: podParamsSchema,
      querystring: podLogsQuerySchema,
      response: { 200: { description: 'Lines.', content: { 'text/plain': { schema: z.string() } } } },
    },
    async handler(request, reply) {
      const { tail, follow = false } = request.query
      const { gone: signal } = delivery(reply)
      const options = { signal, follow, ...(tail !== undefined && { tail }) }
      return sendLines(reply, await pods.logs(request.params.podId, options), { isFollowed: follow })
    },
  })
}

/** Sends line by line, and asks for the next one only once the reader has taken those before. */
function sendLines(
  reply: FastifyReply,
  lines: AsyncIterable<string>,
  { isFollowed }: { isFollowed: boolean },
): FastifyReply {
  const pieces = async function* (): AsyncGenerator<string> {
    // Who follows a pod is to know at once that it is connected, however long the next line takes.
    if (isFollowed) reply.raw.flushHeaders()
    for await (const line of lines) yield `${line}\n`
  }
  return reply
    .header('content-type', 'text/plain; charset=utf-8')
    .header('cache-control', 'no-cache')
    .header('x-accel-buffering', 'no')
    .send(Readable.from(pieces(), { objectMode: false }))
}
