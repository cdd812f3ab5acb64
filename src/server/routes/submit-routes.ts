// Submitting: POST /run and /runsync. Parse, call the queue, reply.

import { createHash } from 'node:crypto'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { FastifyRequest } from 'fastify'
import { submissionSchema, traceContextSchema } from '../../job/job.ts'
import { limits } from '../../job/limits.ts'
import { endpointParamsSchema, runsyncQuerySchema, submittedSchema } from '../../protocol/endpoint-api.ts'
import { Refusal } from '../../protocol/errors.ts'
import type { Queue, SubmitOptions } from '../../queue/queue.ts'
import { recordBody } from '../../queue/record-body.ts'
import { delivery, sendJson } from '../replies.ts'

export const submitRoutes: FastifyPluginAsyncZod<{ queue: Queue }> = async (app, { queue }) => {
  app.post('/run', {
    bodyLimit: limits.runBodyBytes,
    config: { body: 'submission', permission: 'write', operation: 'run' },
    schema: { params: endpointParamsSchema, body: submissionSchema, response: { 200: submittedSchema } },
    handler: (request) =>
      queue.submit(request.params.endpointId, request.body, {
        operation: 'run',
        ...traceOf(request),
        ...idempotencyOf(request),
      }),
  })

  app.post('/runsync', {
    bodyLimit: limits.runsyncBodyBytes,
    config: { body: 'submission', permission: 'write', operation: 'runsync' },
    schema: { params: endpointParamsSchema, querystring: runsyncQuerySchema, body: submissionSchema },
    async handler(request, reply) {
      const { endpointId } = request.params
      const { wait } = request.query
      const { gone } = delivery(reply)
      const { id } = await queue.submit(endpointId, request.body, {
        operation: 'runsync',
        hasWait: wait !== undefined,
        ...traceOf(request),
        ...idempotencyOf(request),
      })
      const record = await queue.waitForEnd(endpointId, id, wait ?? limits.waitMs.default, gone)
      return sendJson(reply, recordBody(record))
    },
  })
}

/** As the W3C has it: a header that cannot be read is as good as none. */
function traceOf({ headers }: FastifyRequest): Pick<SubmitOptions, 'trace'> {
  const { traceparent, tracestate } = headers
  const whole = traceContextSchema.safeParse({ traceparent, tracestate }).data
  const trace = whole ?? traceContextSchema.safeParse({ traceparent }).data
  return trace ? { trace } : {}
}

/** The same key must come with the same body; a query does not change what is submitted. */
function idempotencyOf(request: FastifyRequest): Pick<SubmitOptions, 'idempotency'> {
  const key = request.headers['idempotency-key']
  if (key === undefined || !request.bodyBytes) return {}
  if (typeof key !== 'string' || key.length === 0 || key.length > limits.idempotencyKeyChars) {
    const problem = `must be from 1 to ${limits.idempotencyKeyChars} characters long`
    throw new Refusal('FIELD_INVALID', { field: 'Idempotency-Key', problem })
  }
  return {
    idempotency: { key, bodyHash: createHash('sha256').update(request.bodyBytes).digest('base64url') },
  }
}
