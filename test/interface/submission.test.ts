import { describe, expect, it } from 'vitest'
import { limits } from '../../src/job/limits.ts'
import { startRig } from '../support/interface-rig.ts'
import { startReceiver } from '../support/receiver.ts'

describe('a submission', () => {
  it('[SUB-1, ERR-1] needs an input, which is an object', async () => {
    const rig = await startRig()
    for (const path of ['/run', '/runsync']) {
      for (const body of [{}, { input: null }, { input: [] }, { input: 'x' }, { input: 1 }]) {
        const reply = await rig.post(path, body)
        expect([reply.statusCode, reply.json().error]).toEqual([400, expect.stringMatching(/^input /)])
      }
    }
    expect((await rig.post('/run', { input: {} })).statusCode).toBe(200)
  })

  it('[SUB-2] is free in the names and types within its input', async () => {
    const rig = await startRig()
    const input = {
      '': 0,
      'a b': [],
      policy: { ttl: 'soon' },
      webhook: 5,
      id: null,
      deep: { é: [true, 1e-7] },
    }
    await rig.submit({ input })
    expect((await rig.worker.take()).input).toEqual(input)
  })

  it('[SUB-3] notifies its webhook when the job completes', async () => {
    const rig = await startRig({ allowPrivateWebhooks: true })
    const receiver = await startReceiver()
    const id = await rig.completed(1, { webhook: `${receiver.url}/done` })
    expect(await receiver.calls.first(() => true)).toMatchObject({ path: '/done' })
    expect(id).toBeDefined()
  })

  it('[SUB-4, SUB-5, POL-1] may leave out webhook, policy and s3Config, and every field of the policy', async () => {
    const rig = await startRig()
    for (const more of [{}, { policy: {} }, { policy: { ttl: 60_000 } }, { policy: { lowPriority: true } }]) {
      await rig.submit(more)
      const job = await rig.worker.take()
      expect(job).not.toHaveProperty('webhook')
      expect(job).not.toHaveProperty('s3Config')
      expect(job.policy).toMatchObject({ ...more.policy })
    }
  })

  it('[SUB-6] drops other keys', async () => {
    const rig = await startRig()
    await rig.submit({ input: { a: 1 }, id: 'mine', priority: 9, refWorker: 'x' })
    const job = await rig.worker.take()
    expect(job.id).not.toBe('mine')
    expect(Object.keys(job).toSorted()).toEqual(['attempt', 'id', 'input', 'policy'])
  })

  it('[SUB-7] takes an http or https URL of 2,048 characters as webhook, and nothing else', async () => {
    const rig = await startRig()
    const urlOf = (length: number): string => 'https://receiver.example/'.padEnd(length, 'x')
    for (const webhook of ['http://receiver.example', urlOf(limits.webhookUrlChars)])
      await rig.submit({ webhook })
    for (const webhook of ['nowhere', 'ftp://receiver.example', '', urlOf(limits.webhookUrlChars + 1)]) {
      const reply = await rig.post('/run', { input: {}, webhook })
      expect([reply.statusCode, reply.json().error]).toEqual([400, expect.stringMatching(/^webhook must be/)])
    }
  })

  it.each([
    '{"n":1.00000000000000000001,"big":12345678901234567890}',
    '{"__proto__":{"x":1},"constructor":9}',
    '{ "spaced" :\t[ 1 , 2 ] }',
    '{"lone":"\\ud800","wide":"\u{1f600}é"}',
  ])('[SUB-8] hands the worker the very bytes of its input: %s', async (input) => {
    const rig = await startRig()
    await rig.post('/run', `{"input":${input}}`)
    expect((await rig.get('/job-take/w1?x=1')).body).toContain(`"input":${input}`)
  })

  it('[SUB-9] nests its input to 1,000 levels and no deeper', async () => {
    const rig = await startRig()
    const inputOf = (levels: number): string => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
    expect((await rig.post('/run', `{"input":${inputOf(limits.nestingLevels)}}`)).statusCode).toBe(200)
    const refused = await rig.post('/run', `{"input":${inputOf(limits.nestingLevels + 1)}}`)
    expect([refused.statusCode, refused.json().code]).toEqual([400, 'BODY_NOT_JSON'])
  })

  it('[SUB-10] is made once by an Idempotency-Key, on either route and while its job exists', async () => {
    const rig = await startRig()
    const key = { 'idempotency-key': 'k'.repeat(limits.idempotencyKeyChars) }
    const id = await rig.submit({}, key)
    expect(await rig.submit({}, key)).toBe(id)
    const { reply } = await rig.held(rig.post('/runsync?wait=1000', { input: {} }, key))
    await rig.jump(1_000)
    expect((await reply).json().id).toBe(id)
    expect((await rig.health()).jobs['inQueue']).toBe(1)
    await rig.service.store.endpoints.ensureEndpoint('other')
    const elsewhere = await rig.service.http.inject({
      method: 'POST',
      url: '/v2/other/run',
      headers: { authorization: 'test-key', ...key },
      payload: '{"input":{}}',
    })
    expect(elsewhere.json().id).not.toBe(id)
    await rig.jump(limits.ttlMs.default)
    expect(await rig.submit({}, key)).not.toBe(id)
  })

  it('[SUB-11, ERR-8] is refused with 409 when its Idempotency-Key stands for another body', async () => {
    const rig = await startRig()
    const key = { 'idempotency-key': 'once' }
    const id = await rig.submit({ input: { n: 1 } }, key)
    const reply = await rig.post('/run', { input: { n: 2 } }, key)
    expect([reply.statusCode, reply.json().code]).toEqual([409, 'IDEMPOTENCY_CONFLICT'])
    expect(reply.json().error).toContain(id)
  })
})

describe('an s3Config', () => {
  const whole = {
    accessId: 'ACCESS-ID',
    accessSecret: 'ACCESS-SECRET',
    bucketName: 'bucket',
    endpointUrl: 'https://s3.example.org',
  }

  it('[S3C-1, S3C-2, S3C-3, S3C-4, S3C-5] reaches the worker as it was sent', async () => {
    const rig = await startRig()
    await rig.submit({ s3Config: whole })
    expect((await rig.worker.take()).s3Config).toEqual(whole)
  })

  it.each([
    'https://s3.eu-west-1.amazonaws.com',
    'http://minio.internal:9000',
    'https://x.r2.cloudflarestorage.com/p',
  ])('[S3C-6] may name any provider: %s', async (endpointUrl) => {
    const rig = await startRig()
    await rig.submit({ s3Config: { ...whole, endpointUrl } })
    expect((await rig.worker.take()).s3Config).toMatchObject({ endpointUrl })
  })

  it.each(['accessId', 'accessSecret', 'bucketName', 'endpointUrl'] as const)(
    '[S3C-7, S3C-8] needs %s, not empty and within 2,048 characters',
    async (field) => {
      const rig = await startRig()
      const { [field]: _, ...rest } = whole
      const long = 'https://s3.example.org/'.padEnd(limits.s3FieldChars + 1, 'x')
      for (const s3Config of [
        rest,
        { ...rest, [field]: 5 },
        { ...rest, [field]: '' },
        { ...rest, [field]: long },
      ]) {
        const reply = await rig.post('/run', { input: {}, s3Config })
        expect([reply.statusCode, reply.json().error]).toEqual([
          400,
          expect.stringMatching(new RegExp(`^s3Config\\.${field} `)),
        ])
      }
      const begin = field === 'endpointUrl' ? 'https://s3.example.org/' : ''
      const longest = begin.padEnd(limits.s3FieldChars, 'x')
      await rig.submit({ s3Config: { ...rest, [field]: longest } })
    },
  )

  it('[S3C-7, S3C-8] may have objectPath and region, and drops what it does not know', async () => {
    const rig = await startRig()
    await rig.submit({ s3Config: { ...whole, objectPath: '', region: 'eu', other: 1 } })
    expect((await rig.worker.take()).s3Config).toEqual({ ...whole, objectPath: '', region: 'eu' })
    for (const more of [{ region: '' }, { objectPath: 'x'.repeat(limits.s3FieldChars + 1) }]) {
      expect((await rig.post('/run', { input: {}, s3Config: { ...whole, ...more } })).statusCode).toBe(400)
    }
  })

  it.each([
    { accessId: 'a\nb' },
    { accessId: 'ключ' },
    { bucketName: 'a/b' },
    { region: '@elsewhere.example/' },
    { objectPath: 'out/../..' },
  ])('[S3C-12] refuses what no store could take: %j', async (more) => {
    const rig = await startRig()
    const reply = await rig.post('/run', { input: {}, s3Config: { ...whole, ...more } })
    const [field] = Object.keys(more)
    expect([reply.statusCode, reply.json().error]).toEqual([
      400,
      expect.stringMatching(new RegExp(`^s3Config\\.${field} `)),
    ])
    expect(reply.body).not.toContain(Object.values(more)[0])
  })

  it('[S3C-9] appears in no record, list, stream, reply, webhook or log', async () => {
    const rig = await startRig({ allowPrivateWebhooks: true })
    const receiver = await startReceiver()
    const id = await rig.submit({ s3Config: whole, webhook: receiver.url })
    await rig.worker.take()
    await rig.worker.stream(id, 'a chunk')
    await rig.worker.done(id, { output: 1 })
    const { body: told } = await receiver.calls.first(() => true)
    const replies = [
      await rig.get(`/status/${id}`),
      await rig.get(`/stream/${id}?after=0`),
      await rig.get('/requests'),
      await rig.post(`/retry/${id}`),
    ]
    expect(replies.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 409])
    const seen = [told, ...replies.map(({ body }) => body), ...rig.service.logged].join('\n')
    expect(seen).toContain('a chunk')
    expect(seen).not.toMatch(/ACCESS-(ID|SECRET)/)
  })

  it.each([
    ['accessId', { accessId: ['ACCESS-ID'] }],
    ['accessSecret', { accessSecret: 'ACCESS-SECRET'.repeat(200) }],
    ['bucketName', { bucketName: { 'ACCESS-ID': 'ACCESS-SECRET' } }],
    ['endpointUrl', { endpointUrl: 'ftp://ACCESS-ID:ACCESS-SECRET@s3.example.org' }],
  ])('[S3C-10] is refused by the name of %s, which is not quoted', async (field, wrong) => {
    const rig = await startRig()
    const reply = await rig.post('/run', { input: {}, s3Config: { ...whole, ...wrong } })
    expect([reply.statusCode, reply.json().code]).toEqual([400, 'FIELD_INVALID'])
    expect(reply.json().error).toMatch(new RegExp(`^s3Config\\.${field} must be `))
    expect(reply.body).not.toContain('ACCESS')
  })

  it('[S3C-11] reaches the worker again after a retry', async () => {
    const rig = await startRig()
    for (const end of ['failed', 'timedOut'] as const) {
      const id = await rig[end]({ s3Config: whole })
      await rig.post(`/retry/${id}`)
      expect(await rig.other.take()).toMatchObject({ id, s3Config: whole })
      await rig.other.done(id, { output: 1 })
    }
  })
})
