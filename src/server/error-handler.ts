// From whatever was thrown to an answer: a code of the catalogue, a sentence, a status.

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type {
  ConnectionError,
  FastifyError,
  FastifyReply,
  FastifyRequest,
  FastifySchemaValidationError,
} from 'fastify'
import { hasZodFastifySchemaValidationErrors } from 'fastify-type-provider-zod'
import type { z } from 'zod'
import { fieldProblem } from '../protocol/field-problem.ts'
import { Refusal } from '../protocol/errors.ts'
import { ExchangeFormatError } from '../protocol/exchange.ts'

/** Answers whatever was thrown; with `body` in other words than ours. */
export function errorHandler(
  error: FastifyError | Error,
  request: FastifyRequest,
  reply: FastifyReply,
  body?: unknown,
): void {
  const refusal = asRefusal(error, request)
  if (refusal.status >= 500 && !request.server.noteStoreTrouble?.(error))
    request.log.error({ err: error, code: refusal.code }, 'request failed')
  if (refusal.status === 503) reply.header('retry-after', '1')
  if (refusal.status === 401) reply.header('www-authenticate', 'Bearer')
  // A stream that failed before its first byte was to be of another type.
  reply.removeHeader('content-type')
  reply.code(refusal.status).send(body ?? { error: refusal.message, code: refusal.code })
}

/** What cannot be read as HTTP never becomes a request; it is answered in the same form all the same. */
export function clientErrorHandler(error: ConnectionError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const body = requestInvalid(withoutStop(error.message))
  const head = `HTTP/1.1 400 Bad Request\r\ncontent-type: ${JSON_TYPE}\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n`
  socket.end(head + body)
}

/** For a request that expects anything but to be continued. */
export function refuseExpectation({ headers }: IncomingMessage, response: ServerResponse): void {
  const body = requestInvalid(`nothing is known here of what it expects ('${shortened(headers.expect)}')`)
  response.writeHead(417, { 'content-type': JSON_TYPE }).end(body)
}

const JSON_TYPE = 'application/json; charset=utf-8'

function requestInvalid(problem: string): string {
  const { message, code } = new Refusal('REQUEST_INVALID', { problem })
  return JSON.stringify({ error: message, code })
}

export function notFoundHandler(request: FastifyRequest): never {
  throw new Refusal('ROUTE_NOT_FOUND', { method: request.method, path: pathOf(request.url) })
}

export function asRefusal(error: FastifyError | Error, request: FastifyRequest): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof ExchangeFormatError) return new Refusal('EXCHANGE_INVALID', { problem: error.message })
  if (hasZodFastifySchemaValidationErrors(error)) return validationRefusal(error, request)
  const code = 'code' in error ? error.code : undefined
  if (code === 'STORE_FULL') return new Refusal('STORE_FULL')
  if (code === 'STORE_UNAVAILABLE') return new Refusal('STORE_UNAVAILABLE')
  // Of whatever runs the pods, in its own words: they say what to start or to set.
  if (code === 'ENGINE_FAILED' || code === 'FOLDER_IN_USE')
    return new Refusal('PODS_UNREACHABLE', { problem: error.message })
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    const { bodyLimit } = request.routeOptions
    // Nobody knows how long a chunked body would have become.
    const bytes = request.headers['content-length']
    return new Refusal('BODY_TOO_LARGE', { bytes, limit: bodyLimit, operation: pathOf(request.url) })
  }
  const status = 'statusCode' in error ? (error.statusCode ?? 500) : 500
  if (status >= 400 && status < 500)
    return new Refusal('REQUEST_INVALID', { problem: withoutStop(error.message) })
  return new Refusal('INTERNAL', { requestId: request.id })
}

function validationRefusal(
  error: Pick<FastifyError, 'validationContext'> & { validation: FastifySchemaValidationError[] },
  request: FastifyRequest,
): Refusal {
  const place = error.validationContext ?? 'body'
  const documents: Record<string, unknown> = {
    body: request.body,
    querystring: request.query,
    params: request.params,
  }
  const issues = error.validation.map(
    ({ keyword, instancePath, message, params }) =>
      ({
        ...params,
        code: keyword,
        message,
        path: instancePath.split('/').filter(Boolean),
      }) as unknown as z.core.$ZodIssue,
  )
  const params = documents['params'] as { endpointId?: string; id?: string } | undefined
  // An id that no endpoint or job can have is one that none has.
  const named = place === 'params' ? String(issues[0]?.path[0]) : ''
  if (request.url.startsWith('/v1/') && isResourceParam(named))
    return new Refusal('RESOURCE_NOT_FOUND', {
      ...resourceParams[named],
      id: shortened((documents['params'] as Record<string, string>)[named]),
    })
  if (place === 'params' && issues[0]?.path[0] === 'endpointId') {
    return new Refusal('ENDPOINT_NOT_FOUND', { endpoint: shortened(params?.endpointId) })
  }
  if (place === 'params' && issues[0]?.path[0] === 'id') {
    return new Refusal('JOB_NOT_FOUND', { endpoint: params?.endpointId, id: shortened(params?.id) })
  }
  const names: Record<string, string> = { body: 'The body', querystring: 'The query', params: 'The path' }
  return new Refusal('FIELD_INVALID', { ...fieldProblem(issues, documents[place], names[place] ?? place) })
}

/** What a parameter of a path under /v1 is the id of, and where such are listed. */
const resourceParams = {
  templateId: { kind: 'template', path: 'templates' },
  endpointId: { kind: 'endpoint', path: 'endpoints' },
  podId: { kind: 'pod', path: 'pods' },
  containerRegistryAuthId: { kind: 'registry auth', path: 'containerregistryauth' },
} as const

function isResourceParam(name: string): name is keyof typeof resourceParams {
  return Object.hasOwn(resourceParams, name)
}

/** The path without its query, which may carry what does not belong in an answer. */
function pathOf(url: string): string {
  return url.split('?', 1)[0] ?? url
}

function withoutStop(sentence: string): string {
  return sentence.replace(/\.$/, '')
}

function shortened(id: string | undefined): string {
  return id === undefined || id.length <= 64 ? (id ?? '') : `${id.slice(0, 64)}…`
}
