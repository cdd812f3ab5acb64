// What a submission says in its headers: whose trace it belongs to, and the key that makes it safe to repeat.

import type { FastifyRequest } from 'fastify'
import { traceContextSchema } from '../job/job.ts'
import { limits } from '../job/limits.ts'
import { Refusal } from '../protocol/errors.ts'
import type { SubmitOptions } from '../queue/queue.ts'

type FromHeaders = Pick<SubmitOptions, 'trace' | 'idempotency'>

export function submitHeaders(request: FastifyRequest, body: Uint8Array | undefined): FromHeaders {
  return { ...traceOf(request), ...idempotencyOf(request, body) }
}

/** As the W3C has it: a header that cannot be read is as good as none. */
export function traceOf({ headers }: FastifyRequest): Pick<SubmitOptions, 'trace'> {
  const { traceparent, tracestate } = headers
  const whole = traceContextSchema.safeParse({ traceparent, tracestate }).data
  const trace = whole ?? traceContextSchema.safeParse({ traceparent }).data
  return trace ? { trace } : {}
}

/** The same key must come with the same body; a query does not change what is submitted. */
function idempotencyOf(
  request: FastifyRequest,
  body: Uint8Array | undefined,
): Pick<SubmitOptions, 'idempotency'> {
  const key = request.headers['idempotency-key']
  if (key === undefined || !body) return {}
  if (typeof key !== 'string' || key.length === 0 || key.length > limits.idempotencyKeyChars) {
    const problem = `must be from 1 to ${limits.idempotencyKeyChars} characters long`
    throw new Refusal('FIELD_INVALID', { field: 'Idempotency-Key', problem })
  }
  return { idempotency: { key, body } }
}
