import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { KEY, startTestService, type TestService } from '../support/service.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.close())

const deep = (levels: number): string => `{"input":{"a":${'['.repeat(levels)}${']'.repeat(levels)}}}`

describe('a submission that does not fit', () => {
  const cases: [what: string, body: unknown, code: string, says: string][] = [
    ['no body', '', 'BODY_NOT_JSON', 'it is empty'],
    ['half a document', '{"input":{}', 'BODY_NOT_JSON', 'cannot be read as JSON'],
    ['two documents', '{"input":{}}{}', 'BODY_NOT_JSON', 'cannot be read as JSON'],
    ['NaN', '{"input":{"a":NaN}}', 'BODY_NOT_JSON', 'cannot be read as JSON'],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), 'BODY_NOT_JSON', 'not UTF-8'],
    ['too many levels', deep(1000), 'BODY_NOT_JSON', '1002 levels'],
    ['an array', '[]', 'FIELD_INVALID', 'The body must be an object'],
    ['null', 'null', 'FIELD_INVALID', 'The body must be an object'],
    ['no input', {}, 'FIELD_INVALID', 'input is required'],
    ['a text as input', { input: 'x' }, 'FIELD_INVALID', 'input must be an object'],
    ['null as input', { input: null }, 'FIELD_INVALID', 'input must be an object'],
    ['an array as input', { input: [] }, 'FIELD_INVALID', 'input must be an object'],
    [
      'a ttl too short',
      { input: {}, policy: { ttl: 500 } },
      'FIELD_INVALID',
      'policy.ttl must be a whole number from 10000 to 604800000 ms, got 500.',
    ],
    ['a ttl too long', { input: {}, policy: { ttl: 604_800_001 } }, 'FIELD_INVALID', 'policy.ttl must be'],
    ['a ttl with a fraction', { input: {}, policy: { ttl: 10_000.5 } }, 'FIELD_INVALID', 'got 10000.5'],
    ['a ttl as text', { input: {}, policy: { ttl: '60000' } }, 'FIELD_INVALID', "got '60000'"],
    [
      'an executionTimeout too short',
      { input: {}, policy: { executionTimeout: 4_999 } },
      'FIELD_INVALID',
      'policy.executionTimeout must be a whole number from 5000',
    ],
    [
      'an executionTimeout too long',
      { input: {}, policy: { executionTimeout: 1e12 } },
      'FIELD_INVALID',
      'policy.executionTimeout',
    ],
    [
      'a lowPriority that is no boolean',
      { input: {}, policy: { lowPriority: 1 } },
      'FIELD_INVALID',
      'policy.lowPriority must be a boolean, got 1',
    ],
    ['a misspelt policy', { input: {}, policy: { tll: 60_000 } }, 'FIELD_INVALID', "unknown key 'tll'"],
    ['a policy that is no object', { input: {}, policy: [] }, 'FIELD_INVALID', 'policy must be an object'],
    [
      'a webhook that is no URL',
      { input: {}, webhook: 'nowhere' },
      'FIELD_INVALID',
      'webhook must be an http or https URL',
    ],
    [
      'a webhook of another scheme',
      { input: {}, webhook: 'file:///etc/passwd' },
      'FIELD_INVALID',
      'webhook must be an http or https URL',
    ],
    [
      'half an s3Config',
      { input: {}, s3Config: { accessId: 'x' } },
      'FIELD_INVALID',
      's3Config.accessSecret must be a string',
    ],
  ]
  for (const path of ['/run', '/runsync']) {
    for (const [what, body, code, says] of cases) {
      it(`gets 400 at ${path} for ${what}, and nothing is stored`, async () => {
        const before = (await service.ask('GET', '/health')).json().jobs
        const answer = await service.ask('POST', path, body)
        expect([answer.statusCode, answer.json().code]).toEqual([400, code])
        expect(answer.json().error).toContain(says)
        expect(answer.json().error).toMatch(/\.$/)
        expect((await service.ask('GET', '/health')).json().jobs).toEqual(before)
      })
    }
  }

  it('is taken at 1,000 levels exactly', async () => {
    expect((await service.ask('POST', '/run', deep(999))).statusCode).toBe(200)
  })
})

describe('a request that does not fit', () => {
  const cases: [
    what: string,
    method: 'GET' | 'POST',
    url: string,
    status: number,
    code: string,
    says: string,
  ][] = [
    ['an unknown endpoint', 'POST', '/v2/nope/run', 404, 'ENDPOINT_NOT_FOUND', "no endpoint 'nope'"],
    ['an unknown endpoint', 'GET', '/v2/nope/health', 404, 'ENDPOINT_NOT_FOUND', "no endpoint 'nope'"],
    ['an endpoint id with odd characters', 'GET', '/v2/a%20b/health', 404, 'ENDPOINT_NOT_FOUND', "'a b'"],
    ['an unknown job', 'GET', '/v2/default/status/nope', 404, 'JOB_NOT_FOUND', "no job 'nope'"],
    ['an unknown job', 'GET', '/v2/default/stream/nope', 404, 'JOB_NOT_FOUND', "no job 'nope'"],
    ['an unknown job', 'POST', '/v2/default/cancel/nope', 404, 'JOB_NOT_FOUND', "no job 'nope'"],
    ['an unknown job', 'POST', '/v2/default/retry/nope', 404, 'JOB_NOT_FOUND', "no job 'nope'"],
    ['a job id with odd characters', 'GET', '/v2/default/status/..%2fx', 404, 'JOB_NOT_FOUND', "'../x'"],
    [
      'a wait too short',
      'POST',
      '/v2/default/runsync?wait=999',
      400,
      'FIELD_INVALID',
      'wait must be a whole number from 1000 to 300000',
    ],
    ['a wait too long', 'POST', '/v2/default/runsync?wait=300001', 400, 'FIELD_INVALID', "got '300001'"],
    ['a wait that is no number', 'POST', '/v2/default/runsync?wait=1e4', 400, 'FIELD_INVALID', "got '1e4'"],
    ['an empty wait', 'POST', '/v2/default/runsync?wait=', 400, 'FIELD_INVALID', 'wait must be'],
    ['two waits', 'POST', '/v2/default/runsync?wait=1000&wait=2000', 400, 'FIELD_INVALID', 'wait must be'],
    ['a negative index', 'GET', '/v2/default/stream/x?after=-1', 400, 'FIELD_INVALID', 'after must be'],
    [
      'an id that is far too long',
      'GET',
      `/v2/default/status/${'x'.repeat(2_000)}`,
      404,
      'JOB_NOT_FOUND',
      `'${'x'.repeat(64)}…'`,
    ],
    ['another method', 'GET', '/v2/default/run', 404, 'ROUTE_NOT_FOUND', 'no GET /v2/default/run'],
    ['another path', 'GET', '/v2/default/runs', 404, 'ROUTE_NOT_FOUND', 'no GET /v2/default/runs'],
  ]
  for (const [what, method, url, status, code, says] of cases) {
    it(`gets ${status} for ${what} at ${method} ${url}`, async () => {
      const answer = await service.http.inject({
        method,
        url,
        headers: { authorization: KEY },
        ...(method === 'POST' && { payload: '{"input":{}}' }),
      })
      expect([answer.statusCode, answer.json().code]).toEqual([status, code])
      expect(answer.json().error).toContain(says)
    })
  }

  it.each(['text/plain', 'foo', 'application/json; charset=utf-16', 'a/b/c;;'])(
    'is read whatever its label says: %s',
    async (label) => {
      const answer = await service.ask('POST', '/run', '{"input":{}}', { 'content-type': label })
      expect(answer.statusCode).toBe(200)
    },
  )

  it('gets 4xx in the one form for a path that cannot be decoded', async () => {
    const answer = await service.http.inject({
      url: '/v2/default/status/%zz',
      headers: { authorization: KEY },
    })
    expect([answer.statusCode, answer.json()]).toEqual([
      400,
      { error: expect.stringMatching(/\.$/), code: 'REQUEST_INVALID' },
    ])
  })

  it('gets 401 without a key also where there is nothing', async () => {
    expect((await service.http.inject({ url: '/v2/default/nope' })).statusCode).toBe(401)
    expect((await service.http.inject({ url: '/nope' })).statusCode).toBe(404)
  })

  it('gets 413 for a body over the limit of its operation, and is taken just under it', async () => {
    const body = (bytes: number): string => `{"input":{"x":"${'x'.repeat(bytes - 18)}"}}`
    const tooLarge = await service.ask('POST', '/run', body(10_485_761))
    expect([tooLarge.statusCode, tooLarge.json().code]).toEqual([413, 'BODY_TOO_LARGE'])
    expect(tooLarge.json().error).toContain('10485760')
    expect((await service.ask('POST', '/run', body(10_485_760))).statusCode).toBe(200)
    expect((await service.ask('POST', '/runsync?wait=1000', body(20_971_521))).statusCode).toBe(413)
  })

  it('gets 400 for an exchange that is none, and nothing happens', async () => {
    const bodies = [
      '',
      'x',
      Buffer.from([0, 0, 0, 200, 1]),
      Buffer.concat([Buffer.from([0, 0, 0, 2]), Buffer.from('{}')]),
    ]
    for (const body of bodies) {
      const answer = await service.ask('POST', '/exchange/w1', body)
      expect([answer.statusCode, answer.json().code]).toEqual([400, 'EXCHANGE_INVALID'])
    }
  })
})

describe('random bodies', () => {
  const path = fc.constantFrom('/run', '/runsync?wait=1000', '/exchange/w1', '/cancel/x', '/retry/x')
  const body = fc.oneof(
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
    fc.json(),
    fc
      .record(
        { input: fc.jsonValue(), policy: fc.jsonValue(), webhook: fc.jsonValue(), s3Config: fc.jsonValue() },
        { requiredKeys: [] },
      )
      .map((value) => JSON.stringify(value)),
  )

  it('get a right answer or a 4xx with a sentence and a code, never a 500', async () => {
    await fc.assert(
      fc.asyncProperty(path, body, async (to, payload) => {
        const answer = await service.ask('POST', to, payload)
        if (answer.statusCode === 200) return
        expect(answer.statusCode).toBeGreaterThanOrEqual(400)
        expect(answer.statusCode).toBeLessThan(500)
        expect(answer.json()).toEqual({
          error: expect.stringMatching(/\.$/),
          code: expect.stringMatching(/^[A-Z_]+$/),
        })
      }),
      { numRuns: 150 },
    )
  })
})

describe('a full store', () => {
  it('gets 503 STORE_FULL and loses nothing', async () => {
    const full = await startTestService({ maxPages: 60 })
    try {
      const kept = (await full.ask('POST', '/run', { input: { keep: true } })).json().id
      const refused = await full.ask('POST', '/run', { input: { x: 'x'.repeat(500_000) } })
      expect([refused.statusCode, refused.json().code, refused.headers['retry-after']]).toEqual([
        503,
        'STORE_FULL',
        '1',
      ])
      expect((await full.ask('GET', `/status/${kept}`)).json().status).toBe('IN_QUEUE')
      expect((await full.ask('GET', '/health')).json().jobs.inQueue).toBe(1)
    } finally {
      await full.close()
    }
  })
})
