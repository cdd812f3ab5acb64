// How bodies are read: as bytes, whatever their label says, with a job's input left as it came.

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { limits } from '../job/limits.ts'
import { JsonTextError, parseKeepingRaw } from '../lib/raw-json.ts'
import { Refusal } from '../protocol/errors.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** `submission`: a JSON object whose input stays bytes; `json`: a JSON document; `bytes`: a Buffer; without it a body is read and dropped. */
    body?: 'submission' | 'json' | 'bytes'
  }
  interface FastifyRequest {
    /** The body of a submission as it came. */
    bodyBytes: Buffer | undefined
  }
}

/** Clients label JSON as they like, foreign workers as a form: the route decides how a body is read, not its label. */
export function readBodiesByRoute(app: FastifyInstance): void {
  app.decorateRequest('bodyBytes', undefined)
  app.removeAllContentTypeParsers()
  // Clients label bodies as they please, or wrongly: the route says how its body is read.
  app.addHook('onRequest', async ({ headers }) => {
    if (headers['content-type'] !== undefined) headers['content-type'] = 'application/octet-stream'
  })
  app.addContentTypeParser('*', { parseAs: 'buffer' }, async (request: FastifyRequest, body: Buffer) => {
    switch (request.routeOptions.config.body) {
      case 'submission':
        request.bodyBytes = body
        return readJson(body, ['input'])
      case 'json':
        return body.byteLength === 0 ? undefined : readJson(body, [])
      case 'bytes':
        return body
      default:
        return undefined
    }
  })
}

function readJson(body: Buffer, raw: readonly string[]): unknown {
  try {
    return parseKeepingRaw(body, raw, limits.nestingLevels + 1)
  } catch (cause) {
    if (cause instanceof JsonTextError) throw new Refusal('BODY_NOT_JSON', { problem: cause.message })
    throw cause
  }
}

/** The body of a route that takes bytes; empty when there was none. */
export function bytesOf(body: unknown): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0)
}
