// The OpenAI interface: POST and GET below /openai become jobs, and what their handler makes is the answer.

import { Readable } from 'node:stream'
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { limits } from '../../job/limits.ts'
import { JsonTextError, parseKeepingRaw } from '../../lib/raw-json.ts'
import { openaiParamsSchema, openaiRequestSchema } from '../../protocol/endpoint-api.ts'
import { Refusal } from '../../protocol/errors.ts'
import { askOpenAi, openaiInput, streamOpenAi, type OpenAiRequest } from '../../queue/openai.ts'
import { OpenAiError, type OpenAiErrorType } from '../../queue/openai-error.ts'
import type { Queue } from '../../queue/queue.ts'
import { bytesOf } from '../body.ts'
import { asRefusal, errorHandler } from '../error-handler.ts'
import { delivery, sendJson } from '../replies.ts'
import { traceOf } from '../submit-headers.ts'

const openaiContent = {
  description: "The handler's one object, or its events as they are made.",
  content: { 'application/json': { schema: z.unknown() }, 'text/event-stream': { schema: z.string() } },
}

export const openaiRoutes: FastifyPluginAsyncZod<{ queue: Queue }> = async (app, { queue }) => {
  app.setErrorHandler(openaiErrorHandler)

  app.post('/openai/*', {
    bodyLimit: limits.runsyncBodyBytes,
    config: {
      body: 'bytes',
      permission: 'write',
      operation: 'openai',
      hasOpenAiErrors: true,
      documentedBody: { type: 'application/json', schema: openaiRequestSchema },
    },
    schema: {
      summary: "A request of the OpenAI interface; the handler's object or its events are the answer",
      tags: ['OpenAI'],
      params: openaiParamsSchema,
      response: { 200: openaiContent },
    },
    async handler(request, reply) {
      const body = bytesOf(request.body)
      const wantsStream = readStreamWish(body)
      const asked = askedBy(request, reply, body)
      const { endpointId } = request.params
      if (!wantsStream) return sendJson(reply, Buffer.from(await askOpenAi(queue, endpointId, asked)))
      const pieces = await streamOpenAi(queue, endpointId, asked)
      return reply
        .header('content-type', 'text/event-stream; charset=utf-8')
        .header('cache-control', 'no-cache')
        .header('x-accel-buffering', 'no')
        .send(Readable.from(pieces, { objectMode: false }))
    },
  })

  app.get('/openai/*', {
    config: { permission: 'write', hasOpenAiErrors: true },
    schema: {
      summary: 'A question of the OpenAI interface without a body, for instance for its models',
      tags: ['OpenAI'],
      params: openaiParamsSchema,
      response: { 200: z.unknown() },
    },
    async handler(request, reply) {
      const answer = await askOpenAi(queue, request.params.endpointId, askedBy(request, reply))
      return sendJson(reply, Buffer.from(answer))
    },
  })
}

function askedBy(request: FastifyRequest, reply: FastifyReply, body?: Uint8Array): OpenAiRequest {
  const { '*': path } = request.params as { '*': string }
  const query = request.url.indexOf('?')
  const route = `/${path}${query < 0 ? '' : request.url.slice(query)}`
  const input = openaiInput(route, body)
  return {
    input,
    options: traceOf(request),
    gone: delivery(reply).gone,
    onError: (err) => request.log.error({ err }, 'a job that nobody waits for was not cancelled'),
  }
}

/** Reads the body only as far as the answer's form depends on it; the handler gets it as it came. */
function readStreamWish(body: Uint8Array): boolean {
  let document: unknown
  try {
    document = parseKeepingRaw(body, [], limits.nestingLevels)
  } catch (cause) {
    if (cause instanceof JsonTextError) throw new Refusal('BODY_NOT_JSON', { problem: cause.message })
    throw cause
  }
  if (typeof document !== 'object' || document === null || Array.isArray(document))
    throw new Refusal('FIELD_INVALID', { field: 'The body', problem: 'must be an object' })
  return 'stream' in document && document.stream === true
}

const types: Partial<Record<number, OpenAiErrorType>> = {
  401: 'authentication_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
}

/** Refusals in the form that these clients read. */
function openaiErrorHandler(error: FastifyError | Error, request: FastifyRequest, reply: FastifyReply): void {
  if (error instanceof OpenAiError) {
    if (error.status === 503) reply.header('retry-after', '1')
    return void reply.code(error.status).send(error.body)
  }
  const { status, code, message } = asRefusal(error, request)
  const type = types[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error')
  errorHandler(error, request, reply, { error: { message, type, param: null, code } })
}
