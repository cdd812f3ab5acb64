import { Readable } from 'node:stream'
import { describe, expect, it, vi } from 'vitest'
import {
  decodeExchange,
  encodeExchange,
  exchangeAnswerSchema,
  type ExchangeRequest,
} from '../../src/protocol/exchange.ts'
import { StoreError } from '../../src/store/store-error.ts'
import { HostedWorker, startRig, turns, type Rig } from '../support/interface-rig.ts'

const FORM = { error: expect.stringMatching(/^\S.*\.$/s), code: expect.stringMatching(/^[A-Z_]+$/) }

describe('an error', () => {
  it.each([
    ['POST', '/run', '{"input":', 'BODY_NOT_JSON'],
    ['POST', '/run', '{"input":{"a":NaN}}', 'BODY_NOT_JSON'],
    ['POST', '/run', '{}', 'FIELD_INVALID'],
    ['POST', '/runsync?wait=soon', '{"input":{}}', 'FIELD_INVALID'],
    ['GET', '/status/x?ttl=1', undefined, 'FIELD_INVALID'],
    ['GET', '/stream/x?after=-1', undefined, 'FIELD_INVALID'],
    ['GET', '/requests?limit=0', undefined, 'FIELD_INVALID'],
    ['GET', '/status/%zz', undefined, 'REQUEST_INVALID'],
  ] as const)('[ERR-1] is 400 when a request is malformed: %s %s %s', async (method, path, body, code) => {
    const rig = await startRig()
    const reply = await rig.service.ask(method, path, body)
    expect([reply.statusCode, reply.json().code]).toEqual([400, code])
  })

  it('[ERR-3] is 404 for an endpoint that there is not', async () => {
    const rig = await startRig()
    for (const endpoint of ['nowhere', 'a%20b', 'x'.repeat(65), '-']) {
      const reply = await rig.service.http.inject({
        url: `/v2/${endpoint}/health`,
        headers: { authorization: 'test-key' },
      })
      expect([reply.statusCode, reply.json().code]).toEqual([404, 'ENDPOINT_NOT_FOUND'])
    }
  })

  it('[ERR-5] is 429 when there were too many requests', async () => {
    const rig = await startRig({ hasRateLimits: true })
    for (let n = 0; n < 2; n += 1) await rig.post('/purge-queue')
    const reply = await rig.post('/purge-queue')
    expect([reply.statusCode, reply.json().code]).toEqual([429, 'TOO_MANY_REQUESTS'])
  })

  it('[ERR-7, ERR-11] is 500 where a worker crashed and the job is the answer, and FAILED in a record of 200', async () => {
    const rig = await startRig()
    const asked = rig.post('/openai/v1/chat/completions', {})
    await turns()
    let id = ''
    for (const name of ['w1', 'w2']) {
      const worker = new HostedWorker(rig.service, name)
      id = (await worker.take()).id
      await worker.ping(id)
      await rig.pass(31_000)
    }
    const reply = await asked
    expect([reply.statusCode, reply.json().error]).toEqual([
      500,
      expect.objectContaining({ type: 'server_error', code: 'WORKER_LOST' }),
    ])
    const record = await rig.get(`/status/${id}`)
    expect([record.statusCode, record.json().status]).toEqual([200, 'FAILED'])
  })

  it('[ERR-9] is 413 for a body that is too large, with its bytes and those that are taken', async () => {
    const rig = await startRig()
    for (const [path, bytes, limit] of [
      ['/run', 10_485_761, 10_485_760],
      ['/runsync', 20_971_521, 20_971_520],
      ['/openai/v1/completions', 20_971_521, 20_971_520],
    ] as const) {
      const reply = await rig.post(path, 'x'.repeat(bytes))
      expect([path, reply.statusCode]).toEqual([path, 413])
      expect(reply.body).toContain(`The body is ${bytes} bytes, more than the ${limit} bytes that`)
      expect(reply.body).toContain('BODY_TOO_LARGE')
    }
  })

  it('[ERR-9] is 413 for a body whose length is not said beforehand', async () => {
    const rig = await startRig()
    const reply = await rig.service.http.inject({
      method: 'POST',
      url: '/v2/default/run',
      headers: { authorization: 'test-key', 'transfer-encoding': 'chunked' },
      payload: Readable.from([Buffer.alloc(6_000_000, 'x'), Buffer.alloc(6_000_000, 'x')]),
    })
    expect([reply.statusCode, reply.json().code]).toEqual([413, 'BODY_TOO_LARGE'])
    expect(reply.json().error).toContain('The body is larger than the 10485760 bytes that')
  })

  it('[ERR-10] is 503 with Retry-After when the store is full or cannot be reached, and nothing is lost', async () => {
    const rig = await startRig({ maxPages: 60 })
    const id = await rig.submit()
    const full = await rig.post('/run', { input: { x: 'x'.repeat(500_000) } })
    expect([full.statusCode, full.json().code, full.headers['retry-after']]).toEqual([503, 'STORE_FULL', '1'])
    const away = vi
      .spyOn(rig.service.store.jobs, 'find')
      .mockRejectedValueOnce(new StoreError('STORE_UNAVAILABLE', 'The store is closed.'))
    const reply = await rig.get(`/status/${id}`)
    expect([reply.statusCode, reply.json().code, reply.headers['retry-after']]).toEqual([
      503,
      'STORE_UNAVAILABLE',
      '1',
    ])
    away.mockRestore()
    expect(await rig.statusOf(id)).toBe('IN_QUEUE')
  })

  it("[ERR-12] is a sentence and a code, at /openai OpenAI's error object", async () => {
    const rig = await startRig()
    for (const [path, status] of [
      ['/status/nope', 404],
      ['/nothing', 404],
      ['/requests?limit=x', 400],
    ] as const) {
      const reply = await rig.get(path)
      expect([reply.statusCode, reply.json()]).toEqual([status, FORM])
    }
    const stranger = await rig.get('/health', { authorization: 'wrong' })
    expect([stranger.statusCode, stranger.json()]).toEqual([401, FORM])
    for (const [body, headers, status, type] of [
      ['x', {}, 400, 'invalid_request_error'],
      ['{}', { authorization: 'wrong' }, 401, 'authentication_error'],
    ] as const) {
      const reply = await rig.post('/openai/v1/completions', body, headers)
      expect([reply.statusCode, reply.json()]).toEqual([
        status,
        { error: { message: FORM.error, type, param: null, code: FORM.code } },
      ])
    }
  })
})

describe('what can become of a job', () => {
  it('[ERR-17] is FAILED when its input is not what the handler takes', async () => {
    const rig = await startRig()
    const id = await rig.submit({ input: { n: 'not a number' } })
    const lease = await exchange(rig, 1)
    const error = { type: 'InputError', message: 'input.n must be a number', code: 'INVALID_INPUT' }
    await exchange(rig, 2, [{ id, lease, executionMs: 1, outcome: 'failed', error }])
    expect(await rig.record(id)).toMatchObject({ status: 'FAILED', error })
  })
})

/** One exchange of a worker of Longshore's own, whose handlers have schemas: takes a job, or reports an end. */
async function exchange(rig: Rig, seq: number, ended: ExchangeRequest['ended'] = []): Promise<string> {
  const want = ended.length > 0 ? 0 : 1
  const head = { session: 's1', seq, want, held: [], started: [], chunks: [], progress: [], ended }
  const reply = await rig.post('/exchange/own-1', encodeExchange(head, []))
  return decodeExchange(reply.rawPayload, exchangeAnswerSchema).head.leases[0]?.lease ?? ''
}
