// What does not fit, generated: every field in every wrong way, and bytes at random wherever bytes may come.

import { connect, type AddressInfo } from 'node:net'
import * as fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { policySchema, s3ConfigSchema, submissionSchema } from '../../src/job/job.ts'
import { limits } from '../../src/job/limits.ts'
import {
  requestsQuerySchema,
  runsyncQuerySchema,
  statusQuerySchema,
  streamQuerySchema,
} from '../../src/protocol/endpoint-api.ts'
import { batchQuerySchema, pingQuerySchema } from '../../src/protocol/worker-api.ts'
import { HostedWorker, openRig, type Json, type Reply, type Rig } from '../support/interface-rig.ts'
import { KEY } from '../support/service.ts'

let rig: Rig
beforeAll(async () => {
  rig = await openRig()
})
afterAll(() => rig.service.close())

/** Something of each for a title, and it. */
const titled = (values: string[]): [string, string][] => values.map((value) => [value.slice(0, 30), value])

/** Whatever was sent before, the service takes a job, has it run, and answers its result. */
async function expectService(): Promise<void> {
  await rig.post('/purge-queue')
  const id = await rig.submit({ input: { still: 'here' } })
  const worker = new HostedWorker(rig.service, 'after')
  expect(await worker.take()).toMatchObject({ id, input: { still: 'here' } })
  await worker.done(id, { output: 'served' })
  expect(await rig.record(id)).toMatchObject({ status: 'COMPLETED', output: 'served' })
}
afterEach(expectService)

/** The answer to a request that may be held: time passes until it is not. */
async function answered(asked: Promise<Reply>): Promise<Reply> {
  const { reply, isAnswered } = await rig.held(asked)
  while (!(await isAnswered())) await rig.jump(limits.openaiWaitMs)
  return reply
}

interface Bounds {
  min: number
  max: number
}

/** Values that a field must refuse, and some that it must take. */
interface Kind<T = unknown> {
  bad: T[]
  good: T[]
}

const wholeNumber = ({ min, max }: Bounds): Kind => ({
  bad: [null, true, '', String(min), [], {}, [min], min - 1, max + 1, -min, min + 0.5, 1e300, -1e300],
  good: [min, max],
})
const boolean: Kind = { bad: [null, 0, 1, '', 'true', [], {}], good: [true, false] }
const object: Kind = { bad: [null, 0, true, '', '{}', [], [{}]], good: [{}] }
const notText = [null, 0, true, [], {}, ['x']]
const text = (max: number, min: 0 | 1 = 1): Kind => ({
  bad: [...notText, ...(min > 0 ? [''] : []), 'x'.repeat(max + 1)],
  good: ['x'.repeat(min), 'x'.repeat(max)],
})
const webUrl = (max: number): Kind => {
  const long = (chars: number): string => 'https://example.org/'.padEnd(chars, 'x')
  const noUrls = ['', 'nowhere', '//example.org', 'ftp://example.org', 'file:///etc/passwd', 'data:,x']
  return { bad: [...notText, ...noUrls, long(max + 1)], good: ['http://example.org', long(max)] }
}

const s3Config = { accessId: 'a', accessSecret: 'b', bucketName: 'c', endpointUrl: 'https://s3.example.org' }

/** Every field of a submission; those of `s3Config` beside the others that are required. */
const fields: Record<string, Kind & { isRequired?: true }> = {
  input: { ...object, isRequired: true },
  webhook: webUrl(limits.webhookUrlChars),
  policy: object,
  'policy.executionTimeout': wholeNumber(limits.executionTimeoutMs),
  'policy.lowPriority': boolean,
  'policy.ttl': wholeNumber(limits.ttlMs),
  s3Config: { ...object, good: [s3Config] },
  's3Config.accessId': { ...text(limits.s3FieldChars), isRequired: true },
  's3Config.accessSecret': { ...text(limits.s3FieldChars), isRequired: true },
  's3Config.bucketName': { ...text(limits.s3FieldChars), isRequired: true },
  's3Config.endpointUrl': { ...webUrl(limits.s3FieldChars), isRequired: true },
  's3Config.objectPath': text(limits.s3FieldChars, 0),
  's3Config.region': text(limits.s3FieldChars),
}

/** A submission with this in one of its fields; `undefined` leaves the field out. */
function submissionWith(field: string, value: unknown): Json {
  const [outer = '', inner] = field.split('.')
  if (inner === undefined) return { input: {}, [outer]: value }
  return { input: {}, [outer]: { ...(outer === 's3Config' && s3Config), [inner]: value } }
}

function expectRefusal(reply: Reply, field: string): void {
  expect([reply.statusCode, reply.json()]).toEqual([
    400,
    { error: expect.stringMatching(/\.$/s), code: 'FIELD_INVALID' },
  ])
  expect(reply.json().error.split(' ', 1)[0]).toBe(field)
}

const short = (value: unknown): string => JSON.stringify(value)?.slice(0, 40) ?? 'nothing'

describe('a field of a submission', () => {
  it('[ERR-1] is in the table of this test when it is in a schema', () => {
    const inSchemas = [
      ...Object.keys(submissionSchema.shape),
      ...Object.keys(policySchema.shape).map((name) => `policy.${name}`),
      ...Object.keys(s3ConfigSchema.shape).map((name) => `s3Config.${name}`),
    ]
    expect(Object.keys(fields).toSorted()).toEqual(inSchemas.toSorted())
  })

  for (const path of ['/run', '/runsync', '/compat']) {
    it(`[ERR-1, ERR-12] is named in a 400 when it is missing, of another type, out of range or too long: ${path}`, async () => {
      const before = (await rig.health()).jobs
      for (const [field, { bad, isRequired }] of Object.entries(fields)) {
        for (const value of [...bad, ...(isRequired ? [undefined] : [])]) {
          const reply = await submit(path, submissionWith(field, value))
          expect(reply.statusCode, `${field}: ${short(value)}`).toBe(400)
          expectRefusal(reply, field)
        }
      }
      expect((await rig.health()).jobs).toEqual(before)
    })
  }

  it('[ERR-1] is taken at both ends of its range, and left out where it may be', async () => {
    for (const [field, { good, isRequired }] of Object.entries(fields)) {
      for (const value of [...good, ...(isRequired ? [] : [undefined])]) {
        const reply = await rig.post('/run', submissionWith(field, value))
        expect(reply.statusCode, `${field}: ${short(value)}`).toBe(200)
      }
    }
  })

  it.each(['NaN', 'Infinity', '-Infinity', 'undefined', '01', '+1', '.5', "'x'", '0x10'])(
    '[ERR-1] is not JSON as %s, and nothing is guessed',
    async (token) => {
      for (const field of Object.keys(fields)) {
        const body = JSON.stringify(submissionWith(field, '@')).replace('"@"', token)
        const reply = await rig.post('/run', body)
        expect([reply.statusCode, reply.json().code]).toEqual([400, 'BODY_NOT_JSON'])
      }
    },
  )

  it('[ERR-1, POL-11] is named when a policy has one that there is not, however it is called', async () => {
    for (const name of ['tll', 'TTL', 'constructor', 'toString', '', 'x'.repeat(10_000)]) {
      const reply = await rig.post('/run', { input: {}, policy: { [name]: 1 } })
      expectRefusal(reply, 'policy')
      expect(reply.json().error).toContain(name.slice(0, 60))
      expect(reply.body.length).toBeLessThan(300)
    }
  })
})

function submit(path: string, submission: Json): Promise<Reply> {
  if (path !== '/compat') return rig.post(path, submission)
  const headers = { authorization: KEY }
  const payload = JSON.stringify(submission)
  return rig.service.http.inject({ method: 'POST', url: '/compat/v2/default/run', headers, payload })
}

describe('a body that is no submission', () => {
  it.each([
    ['nothing', '', 'BODY_NOT_JSON'],
    ['half a document', '{"input":{}', 'BODY_NOT_JSON'],
    ['two documents', '{"input":{}}{}', 'BODY_NOT_JSON'],
    ['bytes that are not UTF-8', Buffer.from([0x7b, 0xff, 0xfe, 0x7d]), 'BODY_NOT_JSON'],
    ['UTF-16', Buffer.from('{"input":{}}', 'utf16le'), 'BODY_NOT_JSON'],
    ['a mark of byte order', '\ufeff{"input":{}}', 'BODY_NOT_JSON'],
    ['deeper than 1,000 levels', `{"input":{"a":${'['.repeat(1e5)}${']'.repeat(1e5)}}}`, 'BODY_NOT_JSON'],
    ['null', 'null', 'FIELD_INVALID'],
    ['a list', '[{"input":{}}]', 'FIELD_INVALID'],
    ['a text', '"{\\"input\\":{}}"', 'FIELD_INVALID'],
    ['a number', '1', 'FIELD_INVALID'],
  ])('[ERR-1, ERR-12] is refused with 400: %s', async (_, body, code) => {
    for (const path of ['/run', '/runsync', '/openai/v1/completions']) {
      const reply = await rig.post(path, body)
      const error = path.startsWith('/openai') ? reply.json().error : reply.json()
      expect([path, reply.statusCode, error.code]).toEqual([path, 400, code])
    }
  })
})

const noDigits = [
  '',
  ' ',
  'x',
  'null',
  'NaN',
  'Infinity',
  '1e3',
  '0x10',
  '1,000',
  '１０００',
  '9'.repeat(500),
]
const queryNumber = ({ min, max }: Bounds): Kind<string> => ({
  bad: [...noDigits, `${min}.5`, String(min - 1), String(max + 1), ` ${min}`, `+${min}`],
  good: [String(min), String(max)],
})
const index = { min: 0, max: Number.MAX_SAFE_INTEGER }
const page: Kind<string> = { bad: [...noDigits, '-1', '1.5', '9'.repeat(16)], good: ['0', '9'.repeat(15)] }

const queries: [method: 'GET' | 'POST', path: string, name: string, kind: Kind<string>][] = [
  ['POST', '/v2/default/runsync', 'wait', queryNumber(limits.waitMs)],
  ['GET', '/v2/default/status/x', 'ttl', queryNumber(limits.ttlMs)],
  ['GET', '/v2/default/stream/x', 'after', queryNumber(index)],
  ['GET', '/v2/default/stream/x', 'wait', queryNumber(limits.streamWaitMs)],
  ['GET', '/v2/default/requests', 'limit', queryNumber(limits.listJobs)],
  ['GET', '/v2/default/requests', 'before', page],
  ['GET', '/v2/default/job-take-batch/w1', 'batch_size', queryNumber({ min: 1, max: 1_000 })],
  [
    'GET',
    '/v2/default/ping/w1',
    'job_id',
    { bad: ['x'.repeat(70_001)], good: ['', ',,', 'x'.repeat(70_000)] },
  ],
  ['POST', '/compat/v2/default/runsync', 'wait', queryNumber(limits.waitMs)],
  ['GET', '/compat/v2/default/status/x', 'ttl', queryNumber(limits.ttlMs)],
  ['POST', '/compat/v2/default/status-sync/x', 'wait', queryNumber(limits.waitMs)],
  ['GET', '/compat/v2/default/stream/x', 'wait', queryNumber(limits.streamWaitMs)],
]

describe('a value in a query', () => {
  const ask = (method: 'GET' | 'POST', url: string): Promise<Reply> =>
    answered(
      rig.service.http.inject({
        method,
        url,
        headers: { authorization: KEY },
        ...(method === 'POST' && { payload: '{"input":{}}' }),
      }),
    )

  it('[ERR-1] is in the table of this test when it is in a schema', () => {
    const schemas = [
      runsyncQuerySchema,
      statusQuerySchema,
      streamQuerySchema,
      requestsQuerySchema,
      batchQuerySchema,
      pingQuerySchema,
    ]
    const inSchemas = new Set(schemas.flatMap(({ shape }) => Object.keys(shape)))
    // Whatever a ping says of itself is taken.
    inSchemas.delete('status')
    expect(new Set(queries.map(([, , name]) => name))).toEqual(inSchemas)
  })

  for (const [method, path, name, { bad, good }] of queries) {
    it(`[ERR-1, ERR-12] is named in a 400 when it does not fit, and taken at its bounds: ${path}?${name}`, async () => {
      for (const value of bad) {
        const reply = await ask(method, `${path}?${name}=${encodeURIComponent(value)}`)
        expect(reply.statusCode, short(value)).toBe(400)
        expectRefusal(reply, name)
      }
      const twice = await ask(method, `${path}?${name}=${good.at(-1)}&${name}=${good.at(-1)}`)
      expectRefusal(twice, name)
      for (const value of good) {
        const reply = await ask(method, `${path}?${name}=${encodeURIComponent(value)}`)
        expect([200, 204, 404], short(value)).toContain(reply.statusCode)
      }
    })
  }
})

const oddIds = [
  'a b',
  '%00',
  '%0d%0a',
  '%2e%2e%2f',
  '-x',
  "'; drop table jobs; --",
  '%F0%9F%98%80',
  '{id}',
  '<script>',
  'x'.repeat(2_000),
]

const oddWorkerIds = ['a b', '%00', 'é', '%F0%9F%98%80', '{id}', 'x'.repeat(129)]

describe('an id in a path', () => {
  const ask = async (method: 'GET' | 'POST', url: string): Promise<[number, string, string]> => {
    const reply = await rig.service.http.inject({ method, url, headers: { authorization: KEY } })
    const { code, error } = reply.json<{ code: string; error: string }>()
    return [reply.statusCode, code, error]
  }

  it.each(titled([...oddIds, '__proto__', 'constructor', 'null']))(
    '[ERR-3, ERR-12] of an endpoint or a job that there cannot be is 404: %s',
    async (_, id) => {
      const odd = encodeURIComponent(decodeURIComponent(id))
      for (const url of [`/v2/${odd}/health`, `/compat/v2/${odd}/health`]) {
        expect((await ask('GET', url)).slice(0, 2)).toEqual([404, 'ENDPOINT_NOT_FOUND'])
      }
      for (const [method, path] of [
        ['GET', 'status'],
        ['GET', 'stream'],
        ['POST', 'cancel'],
        ['POST', 'retry'],
      ] as const) {
        const [status, code, error] = await ask(method, `/v2/default/${path}/${odd}`)
        expect([path, status, code]).toEqual([path, 404, 'JOB_NOT_FOUND'])
        expect(error.length).toBeLessThan(250)
      }
    },
  )

  it.each(titled(oddWorkerIds))(
    '[ERR-1, ERR-12] of a worker that there cannot be is named in a 400: %s',
    async (_, id) => {
      const odd = encodeURIComponent(decodeURIComponent(id))
      for (const [method, path] of [
        ['GET', `/ping/${odd}`],
        ['GET', `/job-take/${odd}`],
        ['GET', `/job-take-batch/${odd}`],
        ['GET', `/job-stop/${odd}`],
        ['POST', `/job-done/${odd}/x`],
        ['POST', `/job-stream/${odd}/x`],
        ['POST', `/exchange/${odd}`],
      ] as const) {
        const [status, code, error] = await ask(method, `/v2/default${path}`)
        expect([path, status, code]).toEqual([path, 400, 'FIELD_INVALID'])
        expect(error).toMatch(/^workerId /)
      }
    },
  )

  it.each(['%', '%zz', '%c3%28', '%ff'])('[ERR-1] that cannot be decoded is 400: %s', async (id) => {
    for (const url of [`/v2/${id}/health`, `/v2/default/status/${id}`, `/v2/default/ping/${id}`]) {
      expect((await ask('GET', url)).slice(0, 2)).toEqual([400, 'REQUEST_INVALID'])
    }
  })
})

const noKeys = [
  '',
  ' ',
  'Bearer',
  'Bearer  ',
  'NaN',
  'null',
  '\u00ff\u00fe',
  'x'.repeat(100_000),
  `Bearer ${KEY} x`,
]

describe('a header', () => {
  it.each(titled(noKeys))(
    '[AUT-6, ERR-2] of authorization that is no key is 401: %j',
    async (_, authorization) => {
      for (const path of ['/v2/default/run', '/v2/default/exchange/w1', '/compat/v2/default/run']) {
        const reply = await rig.service.http.inject({ method: 'POST', url: path, headers: { authorization } })
        expect([path, reply.statusCode, reply.json().code]).toEqual([path, 401, 'UNAUTHORIZED'])
      }
    },
  )

  it('[SUB-10, ERR-1] of Idempotency-Key is named in a 400 when it is empty or too long', async () => {
    for (const key of ['', 'k'.repeat(limits.idempotencyKeyChars + 1)]) {
      for (const path of ['/run', '/runsync']) {
        expectRefusal(await rig.post(path, { input: {} }, { 'idempotency-key': key }), 'Idempotency-Key')
      }
    }
    for (const key of ['k', 'NaN', '\u00ff', 'k'.repeat(limits.idempotencyKeyChars)]) {
      expect((await rig.post('/run', { input: {} }, { 'idempotency-key': key })).statusCode).toBe(200)
    }
  })

  it('[STR-12, ERR-1] of Last-Event-ID is named in a 400 when it is no index', async () => {
    const id = await rig.submit()
    for (const header of ['x', '-1', '1.5', 'NaN', '1e3', ' 1 2', '9'.repeat(16), '9'.repeat(400)]) {
      for (const accept of ['text/event-stream', 'application/x-ndjson']) {
        expectRefusal(await rig.get(`/stream/${id}`, { accept, 'last-event-id': header }), 'Last-Event-ID')
      }
    }
  })

  it('[OPS-5] of a trace or a label that cannot be read is as good as none', async () => {
    for (const odd of ['', 'x', '00-0-0-0', 'NaN', '\u00ff', 'x'.repeat(20_000)]) {
      const headers = { traceparent: odd, tracestate: odd, 'content-type': odd, accept: odd }
      expect((await rig.post('/run', { input: {} }, headers)).statusCode).toBe(200)
    }
  })
})

/** Bytes of every kind: noise, JSON, JSON with a fault, what nearly is a submission, a report or an exchange. */
const noise = fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes))
const json = fc.jsonValue({ maxDepth: 4 })
const nearly = (keys: string[]): fc.Arbitrary<string> =>
  fc
    .record(Object.fromEntries(keys.map((key) => [key, fc.oneof(json, fc.constant({}))])), {
      requiredKeys: [],
    })
    .map((value) => JSON.stringify(value))
const exchangeKeys = ['session', 'seq', 'want', 'held', 'started', 'chunks', 'progress', 'ended', 'failed']
const exchanges = fc.tuple(fc.nat(500), nearly(exchangeKeys), noise).map(([off, head, rest]) => {
  const size = Buffer.alloc(4)
  size.writeUInt32BE(off % 3 === 0 ? off : Buffer.byteLength(head))
  return Buffer.concat([size, Buffer.from(head), rest])
})
const documents = fc.oneof(
  json.map((value) => JSON.stringify(value)),
  nearly(['input', 'policy', 'webhook', 's3Config']),
  nearly(['output', 'error', 'status', 'metrics']),
  nearly(['model', 'messages', 'stream']),
)
const broken = fc.tuple(documents, fc.nat(), noise).map(([document, at, some]) => {
  const bytes = Buffer.from(document)
  const place = at % (bytes.byteLength + 1)
  return Buffer.concat([bytes.subarray(0, place), some.subarray(0, 3), bytes.subarray(place + (at % 2))])
})
const bodies = fc.oneof(noise, documents, broken, exchanges)

const paths = [
  '/run',
  '/runsync?wait=1000',
  '/status/x',
  '/stream/x',
  '/cancel/x',
  '/retry/x',
  '/purge-queue',
  '/health',
  '/requests',
  '/openai/v1/chat/completions',
  '/exchange/w1',
  '/job-take/w1',
  '/job-take-batch/w1?batch_size=2',
  '/job-done/w1/x',
  '/job-stream/w1/x',
  '/job-stop/w1',
  '/ping/w1?job_id=x',
]
const urls = fc.oneof(
  fc.constantFrom(...paths.map((path) => `/v2/default${path}`)),
  fc.constantFrom(...paths.map((path) => `/compat/v2/default${path}`)),
  fc.constantFrom(
    '/v2/default/status-sync/x',
    '/compat/v2/default/status-sync/x',
    '/healthz',
    '/',
    '/v2',
    '/v2/',
  ),
)
const methods = fc.constantFrom('POST', 'POST', 'POST', 'GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD')

/** A right answer, or a 4xx that says what does not fit. */
function expectSense(reply: Reply, method: string, url: string): void {
  const { statusCode } = reply
  expect(statusCode).toBeLessThan(500)
  if (statusCode < 300 || method === 'HEAD') return
  expect(statusCode).toBeGreaterThanOrEqual(400)
  const isOpenAi = url.includes('/openai/') && (method === 'POST' || method === 'GET')
  const said = isOpenAi ? reply.json().error : { ...reply.json(), message: reply.json().error }
  expect(said.message).toMatch(/\S.*\.$/s)
  expect(said.code).toMatch(/^[A-Z_]+$/)
  if (said.code === 'FIELD_INVALID') expect(said.message).toMatch(FIELD_NAMED)
}

const FIELD_NAMED = /^(The body|The query|input|webhook|wait|policy(\.\w+)?|s3Config(\.\w+)?) (must|is|has) /

describe('bytes at random', () => {
  it('[ERR-1, ERR-12] get a right answer or a 4xx with a sentence and a code on every route by every method', async () => {
    await fc.assert(
      fc.asyncProperty(methods, urls, bodies, async (method, url, payload) => {
        const headers = { authorization: KEY }
        // A request of the OpenAI kind waits for its job: nobody runs it, and it is given up as 504.
        const asked = rig.service.http.inject({ method, url, headers, payload })
        const reply = await answered(asked)
        if (reply.statusCode === 504 && url.includes('/openai/')) return
        expectSense(reply, method, url)
      }),
      { numRuns: 1_500 },
    )
  })

  it('[ERR-2] get 401 without a key on every route by every method', async () => {
    await fc.assert(
      fc.asyncProperty(methods, urls, bodies, async (method, url, payload) => {
        const reply = await rig.service.http.inject({ method, url, payload })
        if (url === '/healthz' && method === 'GET') return
        expect([401, 404]).toContain(reply.statusCode)
        if (/^\/(compat\/)?v2\/default\//.test(url)) expect(reply.statusCode).toBe(401)
      }),
      { numRuns: 200 },
    )
  })

  it('[ERR-16, STA-15] as the report of a job end it or leave it running, and its record can be read', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const id = await rig.running()
        const reply = await rig.worker.done(id, body)
        expect([200, 413]).toContain(reply.statusCode)
        const { status } = await rig.record(id)
        expect(['COMPLETED', 'FAILED', 'IN_PROGRESS']).toContain(status)
        if (status === 'IN_PROGRESS') await rig.post(`/cancel/${id}`)
      }),
      { numRuns: 250 },
    )
  })

  it('[CHK-17, STA-10] as a chunk of a job are streamed or fail it, and its stream can be read', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, async (body) => {
        const id = await rig.running()
        const reply = await rig.post(`/job-stream/w1/${id}`, body)
        expect(reply.statusCode).toBe(200)
        const chunks = await rig.chunks(id, 'after=0&wait=0')
        expect([await rig.statusOf(id), chunks.length]).toEqual(
          chunks.length > 0 ? ['IN_PROGRESS', 1] : ['FAILED', 0],
        )
        await rig.post(`/cancel/${id}`)
      }),
      { numRuns: 250 },
    )
  })

  it('[ERR-1, ERR-12] that are no HTTP are answered 400 or nothing at all', async () => {
    await rig.service.http.listen({ host: '127.0.0.1', port: 0 })
    const { port } = rig.service.http.server.address() as AddressInfo
    const head = 'POST /v2/default/run HTTP/1.1\r\nhost: x\r\nauthorization: test-key\r\n'
    const odd = [
      'nothing\r\n\r\n',
      `${head}content-length: -1\r\n\r\n`,
      `${head}content-length: 1\r\ncontent-length: 2\r\n\r\n`,
      `${head}transfer-encoding: chunked\r\n\r\nxyz\r\n`,
      `${head}transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n`,
      `${head}x: ${'x'.repeat(20_000)}\r\n\r\n`,
      `${head}x\u0000y: 1\r\n\r\n`,
      'POST /v2/default/run HTTP/9.9\r\n\r\n',
    ]
    for (const sent of odd) expect(await sentRaw(port, Buffer.from(sent))).toMatch(/^HTTP\/1.1 4\d\d /)
    await fc.assert(
      fc.asyncProperty(noise, async (bytes) => {
        expect(await sentRaw(port, bytes)).toMatch(/^$|^HTTP\/1.1 4\d\d /)
      }),
      { numRuns: 100 },
    )
  })

  it('[ERR-1] as an exchange change nothing when they are none', async () => {
    const id = await rig.running()
    for (const body of ['', 'x', Buffer.from([0, 0, 0, 200, 1]), Buffer.from('\0\0\0\x02{}')]) {
      const reply = await rig.post('/exchange/w1', body)
      expect([reply.statusCode, reply.json().code]).toEqual([400, 'EXCHANGE_INVALID'])
    }
    expect(await rig.statusOf(id)).toBe('IN_PROGRESS')
    await rig.post(`/cancel/${id}`)
  })
})

/** What comes back for bytes on a connection of their own, which is then over. */
function sentRaw(port: number, bytes: Buffer): Promise<string> {
  return new Promise((resolve) => {
    let said = ''
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.end(bytes))
    socket.setEncoding('latin1').on('data', (part: string) => (said += part))
    // A connection that was reset says nothing more.
    socket.on('error', () => resolve(said)).on('close', () => resolve(said))
  })
}
