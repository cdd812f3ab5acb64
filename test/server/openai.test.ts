import { once } from 'node:events'
import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { LightMyRequestResponse } from 'fastify'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { LeasedJob } from '../../src/store/job-store.ts'
import { ScriptedJobs } from '../support/scripted-jobs.ts'
import { KEY, startTestService, type TestService } from '../support/service.ts'

let service: TestService
let jobs: ScriptedJobs
beforeEach(async () => {
  service = await startTestService()
  jobs = new ScriptedJobs(service.store)
})
afterEach(() => service.close())

const CHAT = '/openai/v1/chat/completions'
const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('utf8')

/** Asks, and has the job that comes of it ended as the script says. */
async function ask(
  body: unknown,
  script: (job: LeasedJob) => Promise<unknown>,
  path = CHAT,
): Promise<LightMyRequestResponse> {
  const reply = service.ask('POST', path, body)
  await script(await jobs.lease())
  return reply
}

describe('POST /openai/*', () => {
  it('gives the handler the route and the body as it came', async () => {
    const body = '{"model":"m","seed":12345678901234567890,"__proto__":{"a":1} }'
    let input = ''
    const reply = await ask(body, async (job) => {
      input = text(job.input)
      await jobs.complete(job, '{"id":1}')
    })
    expect(input).toBe(`{"openai_route":"/v1/chat/completions","openai_input":${body}}`)
    expect([reply.statusCode, reply.body]).toEqual([200, '{"id":1}'])
  })

  const wholes: [what: string, script: (job: LeasedJob) => Promise<unknown>][] = [
    ['returned', (job) => jobs.complete(job, '{"n":1.0}')],
    ['the one element of a list', (job) => jobs.complete(job, '[{"n":1.0}]')],
    [
      'yielded alone, with no output',
      async (job) => {
        await jobs.append(job, '{"n":1.0}')
        await jobs.complete(job, 'null')
      },
    ],
    [
      'yielded alone, with an empty list',
      async (job) => {
        await jobs.append(job, '{"n":1.0}')
        await jobs.complete(job, '[]')
      },
    ],
  ]
  for (const [what, script] of wholes) {
    it(`answers the object that was ${what}, digit by digit`, async () => {
      const reply = await ask({}, script)
      expect([reply.statusCode, reply.body]).toEqual([200, '{"n":1.0}'])
      expect(reply.headers['content-type']).toContain('application/json')
    })
  }

  const failures: [
    what: string,
    script: (job: LeasedJob) => Promise<unknown>,
    status: number,
    error: object,
  ][] = [
    [
      'the handler threw',
      (job) => jobs.fail(job),
      500,
      { type: 'server_error', code: 'HANDLER_ERROR', message: 'no' },
    ],
    [
      'the input does not fit',
      (job) => jobs.fail(job, 'INVALID_INPUT', 'input.n must be a number'),
      400,
      { type: 'invalid_request_error', code: 'INVALID_INPUT' },
    ],
    [
      'it timed out',
      (job) =>
        jobs.settle(job, { event: 'timeOut', error: { type: 'T', message: 'late', code: 'TIMED_OUT' } }),
      504,
      { type: 'timeout_error' },
    ],
    [
      'it was cancelled',
      (job) => service.store.jobs.cancel('default', job.id, Date.now()),
      503,
      { code: 'CANCELLED' },
    ],
    [
      'its ttl passed',
      (job) => service.store.jobs.setTtl('default', job.id, 0, Date.now()),
      404,
      { type: 'not_found_error' },
    ],
    ['there are two values', (job) => jobs.complete(job, '[{},{}]'), 500, { code: 'NOT_ONE_OBJECT' }],
    ['there is no value', (job) => jobs.complete(job), 500, { code: 'NOT_ONE_OBJECT' }],
    [
      'the answer is an error with a status',
      (job) => jobs.complete(job, '{"error":{"message":"no such model","type":"NotFoundError","code":404}}'),
      404,
      { message: 'no such model', type: 'NotFoundError', code: 404 },
    ],
    [
      'the answer is an error object of the older form',
      (job) => jobs.complete(job, '{"object":"error","message":"too long","code":400}'),
      400,
      { message: 'too long' },
    ],
    ['the answer is an error text', (job) => jobs.complete(job, '{"error":"odd"}'), 500, { message: 'odd' }],
  ]
  for (const stream of [false, true]) {
    for (const [what, script, status, error] of failures) {
      if (stream && what === 'its ttl passed') continue
      it(`answers OpenAI's error${stream ? ' before a stream' : ''} when ${what}`, async () => {
        const reply = await ask({ stream }, script)
        expect(reply.statusCode).toBe(status)
        expect(reply.json()).toEqual({ error: expect.objectContaining(error) })
      })
    }
  }

  it('passes strings through as they are made, and other values as events', async () => {
    const reply = await ask({ stream: true }, async (job) => {
      await jobs.append(job, '"data: {\\"a\\":1}\\n\\n"', '{"b":2}')
      await jobs.append(job, {
        output: Buffer.from('"data: lo"'),
        part: { as: 'text', back: 0, last: false },
      })
      await jobs.append(job, { output: Buffer.from('"ng\\n\\n"'), part: { as: 'text', back: 1, last: true } })
      await jobs.append(job, { output: Buffer.from('"aGk="'), part: { as: 'bytes', back: 0, last: true } })
      await jobs.complete(job)
    })
    expect(reply.headers['content-type']).toContain('text/event-stream')
    expect(reply.body).toBe('data: {"a":1}\n\ndata: {"b":2}\n\ndata: long\n\nhi')
  })

  it('ends a stream that fails half-way with the error, once', async () => {
    const reply = await ask({ stream: true }, async (job) => {
      await jobs.append(
        job,
        '"data: 1\\n\\n"',
        '{"error":{"type":"Error","message":"no","code":"HANDLER_ERROR"}}',
      )
      await jobs.fail(job)
    })
    expect(reply.statusCode).toBe(200)
    expect(reply.body).toBe(
      'data: 1\n\ndata: {"error":{"type":"Error","message":"no","code":"HANDLER_ERROR"}}\n\n',
    )
  })

  it('makes one event of a handler that does not stream', async () => {
    const reply = await ask({ stream: true }, (job) => jobs.complete(job, '{"whole":true}'))
    expect(reply.body).toBe('data: {"whole":true}\n\ndata: [DONE]\n\n')
  })

  it('refuses what is no JSON object, and what has no key, in the same form', async () => {
    for (const body of ['', 'x', '[1]', 'null', '"text"']) {
      const reply = await service.ask('POST', CHAT, body)
      expect(reply.statusCode).toBe(400)
      expect(reply.json()).toMatchObject({ error: { type: 'invalid_request_error', param: null } })
    }
    const stranger = await service.ask('POST', CHAT, {}, { authorization: 'wrong' })
    expect(stranger.statusCode).toBe(401)
    expect(stranger.json()).toMatchObject({
      error: { type: 'authentication_error', code: 'UNAUTHORIZED', message: expect.any(String) },
    })
  })

  for (const stream of [false, true]) {
    it(`cancels the job when its client hangs up${stream ? ' in a stream' : ''}`, async () => {
      await service.http.listen({ host: '127.0.0.1', port: 0 })
      const { port } = service.http.server.address() as AddressInfo
      const asked = request({
        port,
        method: 'POST',
        path: `/v2/default${CHAT}`,
        headers: { authorization: KEY },
      })
      asked.on('error', () => undefined)
      asked.end(JSON.stringify({ stream }))
      const job = await jobs.lease()
      if (stream) {
        await jobs.append(job, '"data: 1\\n\\n"')
        await once(asked, 'response')
      }
      const cancelled = new Promise<void>((resolve) => {
        const unwatch = service.store.watch((event) => {
          if (event.kind !== 'changed' || event.status !== 'CANCELLED') return
          unwatch()
          resolve()
        })
      })
      asked.destroy()
      await cancelled
      expect((await service.ask('GET', `/status/${job.id}`)).json()).toMatchObject({ status: 'CANCELLED' })
    })
  }
})

describe('GET /openai/*', () => {
  it('is a job with the route and its query, and no body', async () => {
    const reply = service.ask('GET', '/openai/v1/models?limit=2')
    const job = await jobs.lease()
    expect(text(job.input)).toBe('{"openai_route":"/v1/models?limit=2"}')
    await jobs.complete(job, '{"object":"list","data":[]}')
    expect((await reply).json()).toEqual({ object: 'list', data: [] })
  })
})

describe('GET /requests', () => {
  it('lists the jobs, newest first, in pages', async () => {
    const submit = async (): Promise<string> =>
      (await service.ask('POST', '/run', { input: {} })).json<{ id: string }>().id
    const ids = [await submit(), await submit(), await submit()]
    await jobs.complete(await jobs.lease(), '"large"')
    const first = (await service.ask('GET', '/requests?limit=2')).json<{ requests: object[]; next: string }>()
    expect(first.requests).toMatchObject([{ id: ids[2] }, { id: ids[1], status: 'IN_QUEUE' }])
    const { requests, ...rest } = (await service.ask('GET', `/requests?limit=2&before=${first.next}`)).json<{
      requests: object[]
    }>()
    expect(rest).toEqual({})
    expect(requests).toEqual([
      {
        id: ids[0],
        status: 'COMPLETED',
        attempt: 1,
        workerId: 'w1',
        delayTime: expect.any(Number),
        executionTime: 5,
        submittedAt: expect.any(Number),
        endedAt: expect.any(Number),
      },
    ])
  })

  it('refuses pages that cannot be', async () => {
    for (const query of ['limit=0', 'limit=1001', 'limit=x', 'before=', 'before=-1', 'before=abc']) {
      const reply = await service.ask('GET', `/requests?${query}`)
      expect([query, reply.statusCode, reply.json().code]).toEqual([query, 400, 'FIELD_INVALID'])
    }
  })
})
