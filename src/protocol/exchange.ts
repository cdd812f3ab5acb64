// The exchange: the one message between a Longshore worker and a Longshore server, and its bytes on the wire.

import { z } from 'zod'
import { jobErrorSchema, jobIdSchema, policySchema, s3ConfigSchema, traceContextSchema } from '../job/job.ts'
import { limits } from '../job/limits.ts'

/** `[head length u32][head JSON][payloads, in the order in which the head counts them]`. */
export const EXCHANGE_TYPE = 'application/vnd.longshore.exchange'

/** The largest head: 65,536 held leases of about 100 bytes each fit. */
const MAX_HEAD_BYTES = 8_388_608
/** One job's last words are at most an output and its unsent chunks; many jobs may speak at once. */
export const MAX_EXCHANGE_BYTES = 134_217_728
/** A worker sends no more than this in one request unless a single payload is larger. */
export const EXCHANGE_TARGET_BYTES = 16_777_216
/** And no more than this of reports about it, which both sides have to read; a single report always goes. */
export const EXCHANGE_TARGET_HEAD_BYTES = 1_048_576

const leaseTokenSchema = z.string().min(1).max(80)
const bytesSchema = z.int().min(0).max(limits.outputBytes)
const durationSchema = z.int().min(0)
export const workerIdSchema = z.string().regex(/^[A-Za-z0-9._:-]{1,128}$/)

const leaseRefSchema = z.object({ id: jobIdSchema, lease: leaseTokenSchema })
export type LeaseRef = z.output<typeof leaseRefSchema>

const endedBase = leaseRefSchema.extend({
  executionMs: durationSchema,
  /** How many chunks the lease made: its end is not taken before they are stored. */
  chunks: z.int().min(0).optional(),
  /** The handler asked for a fresh process: a hosted platform recycles the worker then. */
  refresh: z.literal(true).optional(),
})
export const endedSchema = z.discriminatedUnion('outcome', [
  /** `bytes`: the output's length among the payloads; left out when the handler gave none. */
  endedBase.extend({ outcome: z.literal('completed'), bytes: bytesSchema.optional() }),
  endedBase.extend({ outcome: z.literal('failed'), error: jobErrorSchema }),
  endedBase.extend({ outcome: z.literal('timedOut'), error: jobErrorSchema }),
  /** Handed back, the attempt not counted. */
  endedBase.extend({ outcome: z.literal('released') }),
  /** Its process died for a reason that may be another job's: the attempt counts, and it runs alone next time. */
  endedBase.extend({ outcome: z.literal('lost'), error: jobErrorSchema }),
])
export type Ended = z.output<typeof endedSchema>

export const chunkReportSchema = leaseRefSchema.extend({
  /** The chunk's place among this lease's chunks, from 1. */
  ordinal: z.int().min(1),
  bytes: bytesSchema,
  /** JSON text of an object. */
  metrics: z.string().optional(),
  /** One piece of a larger value; `back` counts the pieces of it before this one. */
  part: z
    .object({ as: z.enum(['text', 'array', 'bytes', 'json']), back: z.int().min(0), last: z.boolean() })
    .optional(),
})
export type ChunkReport = z.output<typeof chunkReportSchema>

export const exchangeRequestSchema = z.object({
  /** New at each start of a supervisor. */
  session: z.string().min(1).max(64),
  seq: z.int().min(0),
  /** Requests of this session whose answer never came. */
  failed: z.array(z.int().min(0)).max(1024).optional(),
  /** How many more jobs the worker can take. */
  want: z.int().min(0).max(100_000),
  /** Every lease the worker has: the heartbeat. */
  held: z.array(leaseRefSchema),
  started: z.array(leaseRefSchema.extend({ agoMs: durationSchema, graceMs: durationSchema })),
  chunks: z.array(chunkReportSchema),
  progress: z.array(leaseRefSchema.extend({ bytes: z.int().min(1).max(limits.progressBytes) })),
  ended: z.array(endedSchema),
})
export type ExchangeRequest = z.output<typeof exchangeRequestSchema>

export const ackSchema = z.object({
  id: jobIdSchema,
  lease: leaseTokenSchema,
  /** `stale`: the lease is over, drop whatever belongs to it. */
  state: z.enum(['accepted', 'stale']),
  /** The job's end was taken (or is moot). */
  ended: z.boolean().optional(),
  /** Chunks up to this ordinal are stored. */
  chunks: z.int().min(0).optional(),
})
export type Ack = z.output<typeof ackSchema>

export const stopReasonSchema = z.enum(['cancelled', 'expired', 'timeout', 'lease-lost'])
export type StopReason = z.output<typeof stopReasonSchema>

const stopSchema = leaseRefSchema.extend({ reason: stopReasonSchema })
export type Stop = z.output<typeof stopSchema>

const leaseSchema = leaseRefSchema.extend({
  attempt: z.int().min(1),
  /** The limit in force: the job's own, else the endpoint's; left out where it is not known. */
  executionTimeoutMs: z.int().optional(),
  policy: policySchema,
  s3Config: s3ConfigSchema.optional(),
  trace: traceContextSchema.optional(),
  /** No other job may share its process. */
  alone: z.literal(true).optional(),
  /** The input's length among the payloads. */
  bytes: z.int().min(0),
})
export type LeaseHead = z.output<typeof leaseSchema>

export const exchangeAnswerSchema = z.object({
  /** How long a lease lives without being listed. */
  leaseMs: z.int().min(1),
  acks: z.array(ackSchema),
  stops: z.array(stopSchema),
  leases: z.array(leaseSchema),
  /** Take no more work and exit after the last job. */
  drain: z.boolean(),
})
export type ExchangeAnswer = z.output<typeof exchangeAnswerSchema>

/** A head with its payloads as one body. */
export function encodeExchange(
  head: ExchangeRequest | ExchangeAnswer,
  payloads: readonly Uint8Array[],
): Buffer {
  const text = JSON.stringify(head)
  const headBytes = Buffer.byteLength(text)
  const start = Buffer.allocUnsafe(4 + headBytes)
  start.writeUInt32BE(headBytes, 0)
  start.write(text, 4, 'utf8')
  return payloads.length === 0 ? start : Buffer.concat([start, ...payloads])
}

/** Reads payloads one after the other, in the order in which the head counts them. */
export interface PayloadReader {
  take(bytes: number): Uint8Array
}

/** A body that is not an exchange, or not of this version; the message says what does not fit. */
export class ExchangeFormatError extends Error {}

/** Parses a body against the schema of its head. Throws ExchangeFormatError, as its payload reader does. */
export function decodeExchange<T>(body: Buffer, schema: z.ZodType<T>): { head: T; payloads: PayloadReader } {
  const headBytes = body.byteLength >= 4 ? body.readUInt32BE(0) : Number.POSITIVE_INFINITY
  if (headBytes > MAX_HEAD_BYTES || 4 + headBytes > body.byteLength)
    throw new ExchangeFormatError('its head is longer than the body')
  let document: unknown
  try {
    document = JSON.parse(body.toString('utf8', 4, 4 + headBytes))
  } catch {
    throw new ExchangeFormatError('its head is not JSON')
  }
  const parsed = schema.safeParse(document)
  if (!parsed.success) throw new ExchangeFormatError(z.prettifyError(parsed.error).replaceAll('\n', ' '))
  let at = 4 + headBytes
  return {
    head: parsed.data,
    payloads: {
      take(bytes) {
        if (at + bytes > body.byteLength)
          throw new ExchangeFormatError('it announces more payload than it carries')
        at += bytes
        return body.subarray(at - bytes, at)
      },
    },
  }
}
