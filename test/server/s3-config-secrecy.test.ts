// The secrets of an s3Config against everything that the service says or keeps, whatever becomes of the job.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createHash } from 'node:crypto'
import type { LightMyRequestResponse } from 'fastify'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  decodeExchange,
  encodeExchange,
  exchangeAnswerSchema,
  type ExchangeRequest,
} from '../../src/protocol/exchange.ts'
import { happens, startRig, turns, type Json, type Rig } from '../support/interface-rig.ts'
import { startReceiver, type Receiver } from '../support/receiver.ts'
import { KEY } from '../support/service.ts'

const s3Config = {
  accessId: 'HUSH-access-id',
  accessSecret: 'HUSH-access-secret',
  bucketName: 'HUSH-bucket',
  endpointUrl: 'https://HUSH-user:HUSH-password@hush-host.example/path',
  objectPath: 'HUSH-path',
  region: 'HUSH-region',
  sessionToken: 'HUSH-dropped',
}

/** The secrets as they are, and in the forms in which they might get about. */
const forms: string[] = []
for (const bytes of [Buffer.from('HUSH'), Buffer.from(JSON.stringify(s3Config))]) {
  forms.push(bytes.toString('latin1'), bytes.toString('hex'))
}
for (const value of Object.values(s3Config)) {
  const bytes = Buffer.from(value)
  forms.push(
    value,
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    encodeURIComponent(value),
  )
}

function secretsIn(text: string): string[] {
  const lower = text.toLowerCase()
  return forms.filter((form) => lower.includes(form.toLowerCase()))
}

/** A service of which everything is kept that it says, but the leases. */
interface Overheard {
  rig: Rig
  receiver: Receiver
  said: string[]
  dir: string
  leases: { count: number }
}

const LEASES = /\/(job-take|job-take-batch|exchange)\//

async function overhear(): Promise<Overheard> {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-test-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  const receiver = await startReceiver()
  const rig = await startRig({
    file: join(dir, 'queue.db'),
    secret: 'a secret of the service',
    allowPrivateWebhooks: true,
    logLevel: 'trace',
  })
  const said: string[] = []
  const leases = { count: 0 }
  const { http } = rig.service
  const inject = http.inject.bind(http) as (request: { url: string }) => Promise<LightMyRequestResponse>
  Object.assign(http, {
    async inject(request: { url: string }) {
      const reply = await inject(request)
      const head = `${request.url} ${reply.statusCode} ${JSON.stringify(reply.headers)}`
      if (LEASES.test(request.url) && reply.statusCode === 200)
        leases.count += secretsIn(reply.body).length > 0 ? 1 : 0
      said.push(LEASES.test(request.url) ? head : `${head} ${reply.body}`)
      return reply
    },
  })
  return { rig, receiver, said, dir, leases }
}

/** Whatever a client can ask of a job and of its queue, in both dialects. */
async function askEverything({ rig, said }: Overheard, id: string): Promise<void> {
  const { http } = rig.service
  const jobRoutes = ['status', 'stream'].flatMap((route) => [
    `/v2/default/${route}/${id}?wait=0`,
    `/compat/v2/default/${route}/${id}?wait=0`,
  ])
  const urls = [
    `/v2/default/status/${id}`,
    `/v2/default/stream/${id}?after=0&wait=0`,
    `/compat/v2/default/status/${id}`,
    ...jobRoutes.filter((url) => url.includes('stream')),
    '/v2/default/requests',
    '/compat/v2/default/requests',
    '/v2/default/health',
    '/metrics',
    '/healthz',
    '/openapi.json',
    '/docs',
  ]
  const before = said.length
  for (const url of urls)
    await http.inject({ method: 'GET', url, headers: { authorization: `Bearer ${KEY}` } })
  expect(said.slice(before)).toHaveLength(urls.length)
}

function expectSilence({ rig, receiver, said, dir }: Overheard): void {
  const files = readdirSync(dir).map((name) => readFileSync(join(dir, name), 'latin1'))
  const told = receiver.calls.all.map(
    ({ path, headers, body }) => `${path} ${JSON.stringify(headers)} ${body}`,
  )
  for (const text of [...said, ...told, ...rig.service.logged, ...files]) {
    expect(secretsIn(text), text.slice(0, 300)).toEqual([])
  }
}

/** Every way for a job to come in: answers its id. */
const routes: Record<string, (overheard: Overheard, more?: Json) => Promise<string>> = {}
for (const prefix of ['/v2', '/compat/v2']) {
  for (const route of ['run', 'runsync']) {
    routes[`${prefix}/…/${route}`] = async ({ rig, receiver }, more = {}) => {
      const reply = rig.service.http.inject({
        method: 'POST',
        url: `${prefix}/default/${route}${route === 'runsync' ? '?wait=1000' : ''}`,
        headers: { authorization: `Bearer ${KEY}`, 'idempotency-key': 'once' },
        payload: { input: { seen: true }, s3Config, webhook: `${receiver.url}/told`, ...more },
      })
      if (route === 'runsync') {
        await turns()
        await rig.jump(1_000)
      }
      return (await reply).json<{ id: string }>().id
    }
  }
}

const TTL_MS = 30_000

/** Every way for it to go. `keeps`: whether the queue file has it sealed after that. */
const ends: Record<string, { keeps: boolean; more?: Json; end: (rig: Rig, id: string) => Promise<unknown> }> =
  {
    'still waits': { keeps: true, end: async () => undefined },
    runs: {
      keeps: true,
      async end(rig, id) {
        await rig.worker.take()
        await rig.worker.stream(id, 'a chunk')
        await rig.worker.progress(id, 'half')
      },
    },
    'is completed': {
      keeps: false,
      async end(rig, id) {
        await rig.worker.take()
        await rig.worker.stream(id, 'a chunk')
        await rig.worker.done(id, { output: 'made' })
      },
    },
    'is completed by the exchange': { keeps: false, end: (rig) => overExchange(rig) },
    fails: {
      keeps: true,
      async end(rig, id) {
        await rig.worker.take()
        await rig.worker.done(id, { error: 'it broke' })
      },
    },
    'is retried and completed': {
      keeps: false,
      async end(rig, id) {
        await rig.worker.take()
        await rig.worker.done(id, { error: 'it broke' })
        await rig.post(`/retry/${id}`)
        await rig.worker.take()
        await rig.worker.done(id, { output: 'made' })
      },
    },
    'is cancelled while it waits': { keeps: false, end: (rig, id) => rig.post(`/cancel/${id}`) },
    'is cancelled while it runs': {
      keeps: false,
      async end(rig, id) {
        await rig.worker.take()
        await rig.post(`/cancel/${id}`)
        await rig.worker.stops()
      },
    },
    'is purged': { keeps: false, end: (rig) => rig.post('/purge-queue') },
    'times out': {
      keeps: true,
      more: { policy: { executionTimeout: 5_000 } },
      async end(rig) {
        await rig.worker.take()
        await rig.pass(11_000)
      },
    },
    'lapses until no attempt is left': {
      keeps: true,
      async end(rig, id) {
        for (const worker of [rig.worker, rig.other]) {
          await worker.take()
          await worker.ping(id)
          await rig.pass(35_000)
        }
        expect(await rig.record(id)).toMatchObject({ status: 'FAILED', error: { code: 'WORKER_LOST' } })
      },
    },
    'outlives its ttl as a failure': {
      keeps: false,
      more: { policy: { ttl: TTL_MS } },
      async end(rig, id) {
        await rig.worker.take()
        await rig.worker.done(id, { error: 'it broke' })
        await rig.pass(TTL_MS)
        expect((await rig.post(`/retry/${id}`)).json()).toMatchObject({ code: 'TTL_PASSED' })
      },
    },
    'is deleted by its ttl': {
      keeps: false,
      more: { policy: { ttl: TTL_MS } },
      end: (rig) => rig.pass(TTL_MS),
    },
    'is forgotten': {
      keeps: false,
      async end(rig, id) {
        await rig.worker.take()
        await rig.worker.done(id, { error: 'it broke' })
        await rig.jump(1_800_000)
        await rig.pass(1_000)
      },
    },
  }

async function overExchange(rig: Rig): Promise<void> {
  const idle: ExchangeRequest = {
    session: 's1',
    seq: 1,
    want: 1,
    held: [],
    started: [],
    chunks: [],
    progress: [],
    ended: [],
  }
  const reply = await rig.post('/exchange/w9', encodeExchange(idle, []))
  const [leased] = decodeExchange(reply.rawPayload, exchangeAnswerSchema).head.leases
  if (!leased) throw new Error('Nothing was leased.')
  expect(leased.s3Config?.accessSecret).toBe(s3Config.accessSecret)
  const { id, lease } = leased
  const ended = [{ id, lease, outcome: 'completed' as const, executionMs: 1, bytes: 1 }]
  await rig.post('/exchange/w9', encodeExchange({ ...idle, seq: 2, want: 0, ended }, [Buffer.from('1')]))
}

async function sealedBytes(rig: Rig, dir: string): Promise<boolean> {
  const { DatabaseSync } = await import('node:sqlite')
  using db = new DatabaseSync(join(dir, 'queue.db'), { readOnly: true })
  expect(rig.service.logged.join()).not.toContain('"level":50')
  return db.prepare('select 1 from jobs where s3_config is not null').get() !== undefined
}

describe('the secrets of an s3Config are in a lease and nowhere else', () => {
  for (const [route, submit] of Object.entries(routes)) {
    for (const [what, { keeps, more, end }] of Object.entries(ends)) {
      it(`when a job of ${route} ${what}`, async () => {
        const overheard = await overhear()
        const { rig, dir, receiver, leases } = overheard
        const id = await submit(overheard, more)
        expect(id).toMatch(/^[0-9a-f-]{36}$/)
        await end(rig, id)
        await askEverything(overheard, id)
        const { status } = await rig.record(id)
        const hasEnded = ['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'].includes(String(status))
        if (hasEnded) await happens(() => receiver.calls.all.length > 0)
        expect(await sealedBytes(rig, dir)).toBe(keeps)
        if (status === 'COMPLETED') expect(leases.count).toBeGreaterThan(0)
        expectSilence(overheard)
        await rig.service.close()
        expectSilence(overheard)
      })
    }
  }
})

describe('the secrets of an s3Config that is refused', () => {
  const cut = `{"input":{},"s3Config":${JSON.stringify(s3Config).slice(0, -2)}`
  const long = 'HUSH'.repeat(600)
  const broken: [what: string, field: string, body: unknown][] = [
    ...Object.keys(s3Config)
      .filter((name) => name !== 'sessionToken')
      .flatMap((name) =>
        [
          null,
          5,
          ['HUSH'],
          { HUSH: 'HUSH' },
          long,
          ...(name === 'endpointUrl' ? ['HUSH', 'ftp://HUSH:HUSH@x/', 'javascript:HUSH'] : []),
        ].map((value): [string, string, unknown] => [
          `${name} ${JSON.stringify(value).slice(0, 24)}`,
          `s3Config.${name}`,
          { input: {}, s3Config: { ...s3Config, [name]: value } },
        ]),
      ),
    ['nothing but a secret', 's3Config.accessId', { input: {}, s3Config: { accessSecret: 'HUSH' } }],
    ['a text', 's3Config', { input: {}, s3Config: 'HUSH' }],
    ['an array', 's3Config', { input: {}, s3Config: ['HUSH'] }],
    ['in a policy', 'policy', { input: {}, policy: { s3Config } }],
    ['beside another fault', 'input', { s3Config }],
    ['beside a webhook that may not be called', 'webhook', { input: {}, s3Config, webhook: 'http://[::1' }],
    ['in a body that breaks off', 'The', cut],
    ['in a body that is an array', 'The', [{ input: {}, s3Config }]],
  ]

  it.each(broken)('are not in the answer, which names the field: %s', async (_, field, body) => {
    const overheard = await overhear()
    const payload = typeof body === 'string' ? body : JSON.stringify(body)
    for (const url of [
      '/v2/default/run',
      '/v2/default/runsync',
      '/compat/v2/default/run',
      '/compat/v2/default/runsync',
    ]) {
      const headers = { authorization: `Bearer ${KEY}` }
      const reply = await overheard.rig.service.http.inject({ method: 'POST', url, headers, payload })
      expect([reply.statusCode, reply.json<{ error: string }>().error.split(' ', 1)[0]]).toEqual([400, field])
    }
    expectSilence(overheard)
  })

  it('are not in the answer for an endpoint that is not there, a key that opens nothing, or a body that is too large', async () => {
    const overheard = await overhear()
    const { http } = overheard.rig.service
    const payload = { input: {}, s3Config }
    const authorization = `Bearer ${KEY}`
    const large = { ...payload, more: 'x'.repeat(10_500_000) }
    const codes = [
      await http.inject({ method: 'POST', url: '/v2/nowhere/run', headers: { authorization }, payload }),
      await http.inject({
        method: 'POST',
        url: '/v2/default/run',
        headers: { authorization: 'no' },
        payload,
      }),
      await http.inject({
        method: 'POST',
        url: '/v2/default/run',
        headers: { authorization },
        payload: large,
      }),
      await http.inject({ method: 'POST', url: '/v2/default/nothing', headers: { authorization }, payload }),
    ].map(({ statusCode }) => statusCode)
    expect(codes).toEqual([404, 401, 413, 404])
    expectSilence(overheard)
  })
})

it('the file has no hash of a body with secrets that a guess could be held against', async () => {
  const overheard = await overhear()
  const body = JSON.stringify({ input: {}, s3Config })
  const submitted = await overheard.rig.post('/run', body, { 'idempotency-key': 'once' })
  const again = await overheard.rig.post('/run', body, { 'idempotency-key': 'once' })
  expect(again.json()).toEqual(submitted.json())
  const other = await overheard.rig.post('/run', body.replace('secret', 'other'), {
    'idempotency-key': 'once',
  })
  expect(other.statusCode).toBe(409)
  await overheard.rig.service.close()
  const file = readFileSync(join(overheard.dir, 'queue.db'), 'latin1')
  for (const encoding of ['hex', 'base64', 'base64url'] as const)
    expect(file).not.toContain(createHash('sha256').update(body).digest(encoding))
})
