import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { policySchema } from '../../src/job/job.ts'
import {
  decodeExchange,
  encodeExchange,
  exchangeAnswerSchema,
  ExchangeFormatError,
  exchangeRequestSchema,
  workerIdSchema,
  type ExchangeAnswer,
  type ExchangeRequest,
} from '../../src/protocol/exchange.ts'

const ref = { id: 'job-1', lease: 'token-1' }

const request: ExchangeRequest = {
  session: 'session-1',
  seq: 7,
  failed: [5, 6],
  want: 3,
  held: [ref, { id: 'job-2', lease: 'token-2' }],
  started: [{ ...ref, agoMs: 12, graceMs: 5000 }],
  chunks: [
    { ...ref, ordinal: 1, bytes: 3, metrics: '{"tokens":1}' },
    { ...ref, ordinal: 2, bytes: 4, part: { as: 'text', back: 0, last: false } },
  ],
  progress: [{ ...ref, bytes: 2 }],
  ended: [
    { ...ref, outcome: 'completed', executionMs: 5, bytes: 5 },
    { ...ref, outcome: 'completed', executionMs: 5 },
    {
      ...ref,
      outcome: 'failed',
      executionMs: 5,
      error: { type: 'Error', message: 'ö', code: 'HANDLER_ERROR' },
    },
    { ...ref, outcome: 'timedOut', executionMs: 5, error: { type: 'E', message: 'm', code: 'TIMED_OUT' } },
    { ...ref, outcome: 'released', executionMs: 0 },
  ],
}

const answer: ExchangeAnswer = {
  leaseMs: 10_000,
  acks: [
    { ...ref, state: 'accepted', ended: true, chunks: 2 },
    { ...ref, state: 'stale' },
  ],
  stops: [{ ...ref, reason: 'cancelled' }],
  leases: [
    {
      ...ref,
      attempt: 2,
      executionTimeoutMs: 600_000,
      policy: policySchema.parse({}),
      s3Config: { accessId: 'a', accessSecret: 'b', bucketName: 'c', endpointUrl: 'https://s3.example.com' },
      bytes: 3,
    },
    { ...ref, attempt: 1, executionTimeoutMs: 600_000, policy: policySchema.parse({}), bytes: 0 },
  ],
  drain: false,
}

function bodyOf(head: unknown, ...payloads: Uint8Array[]): Buffer {
  const text = Buffer.from(typeof head === 'string' ? head : JSON.stringify(head))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(text.byteLength)
  return Buffer.concat([length, text, ...payloads])
}

function decodeRequest(body: Buffer): ExchangeRequest {
  return decodeExchange(body, exchangeRequestSchema).head
}

describe('decodeExchange', () => {
  it('gives a request back with its payloads in the order in which its head counts them', () => {
    const payloads = ['abc', 'defg', '{}', '"xyz"'].map((text) => Buffer.from(text))
    const { head, payloads: reader } = decodeExchange(
      encodeExchange(request, payloads),
      exchangeRequestSchema,
    )
    expect(head).toEqual(request)
    const sizes = [...head.chunks, ...head.progress].map(({ bytes }) => bytes)
    expect([...sizes, 5].map((bytes) => Buffer.from(reader.take(bytes)).toString())).toEqual([
      'abc',
      'defg',
      '{}',
      '"xyz"',
    ])
  })

  it('gives an answer back with the inputs of its leases', () => {
    const body = encodeExchange(answer, [Buffer.from('{ }'), Buffer.alloc(0)])
    const { head, payloads } = decodeExchange(body, exchangeAnswerSchema)
    expect(head).toEqual(answer)
    expect(head.leases.map(({ bytes }) => Buffer.from(payloads.take(bytes)).toString())).toEqual(['{ }', ''])
  })

  it('takes a head alone', () => {
    const empty = { ...request, held: [], started: [], chunks: [], progress: [], ended: [] }
    expect(decodeRequest(encodeExchange(empty, []))).toEqual(empty)
  })

  it('gives payloads of any bytes back as they were', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 100 }), { maxLength: 8 }), (payloads) => {
        const { payloads: reader } = decodeExchange(encodeExchange(answer, payloads), exchangeAnswerSchema)
        expect(payloads.map(({ length }) => Buffer.from(reader.take(length)).toString('hex'))).toEqual(
          payloads.map((payload) => Buffer.from(payload).toString('hex')),
        )
      }),
    )
  })

  it('reads a body that lies inside a larger buffer', () => {
    const body = encodeExchange(answer, [Buffer.from('abc')])
    const around = Buffer.concat([Buffer.from('before'), body, Buffer.from('after')])
    const { payloads } = decodeExchange(around.subarray(6, 6 + body.byteLength), exchangeAnswerSchema)
    expect(Buffer.from(payloads.take(3)).toString()).toBe('abc')
    expect(() => payloads.take(1)).toThrow(ExchangeFormatError)
  })

  it('refuses a body that is cut off anywhere in its head', () => {
    const body = encodeExchange(request, [])
    for (let length = 0; length < body.byteLength; length += 1) {
      expect(() => decodeRequest(body.subarray(0, length))).toThrow(ExchangeFormatError)
    }
  })

  it('refuses to read more payload than there is', () => {
    const { payloads } = decodeExchange(encodeExchange(answer, [Buffer.from('abc')]), exchangeAnswerSchema)
    expect(() => payloads.take(4)).toThrow(ExchangeFormatError)
    expect(Buffer.from(payloads.take(3)).toString()).toBe('abc')
  })

  it.each([
    ['longer than the body', 0x7fffffff],
    ['as long as can be written', 0xffffffff],
    ['shorter than it is', 10],
    ['nothing', 0],
  ])('refuses a head whose length is given as %s', (_, length) => {
    const body = encodeExchange(request, [])
    body.writeUInt32BE(length)
    expect(() => decodeRequest(body)).toThrow(ExchangeFormatError)
  })

  it('refuses a head over 8 MiB before it parses it', () => {
    const body = bodyOf(JSON.stringify({ ...request, padding: 'x'.repeat(8_388_608) }))
    expect(() => decodeRequest(body)).toThrow('its head is longer than the body')
  })

  it.each(['', '{', 'hello', '\u0000'])('refuses a head that is not JSON: %j', (text) => {
    expect(() => decodeRequest(bodyOf(text))).toThrow('its head is not JSON')
  })

  it.each([
    ['null', null],
    ['an array', []],
    ['nothing', {}],
    ['a want that is no number', { ...request, want: '3' }],
    ['a want below zero', { ...request, want: -1 }],
    ['a seq that is no whole number', { ...request, seq: 1.5 }],
    ['no session', { ...request, session: '' }],
    ['a lease without a token', { ...request, held: [{ id: 'a' }] }],
    ['an id with a slash', { ...request, held: [{ id: 'a/b', lease: 'c' }] }],
    ['a chunk of no ordinal', { ...request, chunks: [{ ...ref, ordinal: 0, bytes: 1 }] }],
    ['a chunk of negative length', { ...request, chunks: [{ ...ref, ordinal: 1, bytes: -1 }] }],
    ['progress over 64 kB', { ...request, progress: [{ ...ref, bytes: 64_001 }] }],
    ['an unknown outcome', { ...request, ended: [{ ...ref, outcome: 'exploded', executionMs: 1 }] }],
    ['a failure without an error', { ...request, ended: [{ ...ref, outcome: 'failed', executionMs: 1 }] }],
    ['an output over 20 MB', { ...request, ended: [{ ...request.ended[0], bytes: 20_000_001 }] }],
  ])('refuses a request with %s', (_, head) => {
    expect(() => decodeRequest(bodyOf(head))).toThrow(ExchangeFormatError)
  })

  it('refuses an answer where a request belongs', () => {
    expect(() => decodeRequest(encodeExchange(answer, []))).toThrow(ExchangeFormatError)
  })

  it('says in one line which field does not fit', () => {
    expect(() => decodeRequest(bodyOf({ ...request, want: -1 }))).toThrow(/^[^\n]*want[^\n]*$/)
  })

  it('drops keys that a newer half may add', () => {
    expect(decodeRequest(bodyOf({ ...request, later: true }))).toEqual(request)
  })
})

describe('workerIdSchema', () => {
  it.each(['w', 'pod-1.zone:2_b', 'x'.repeat(128)])('takes %s', (id) => {
    expect(workerIdSchema.safeParse(id).success).toBe(true)
  })

  it.each(['', 'x'.repeat(129), 'a/b', 'a b', 'a?b', 'a\n'])('refuses %j', (id) => {
    expect(workerIdSchema.safeParse(id).success).toBe(false)
  })
})
