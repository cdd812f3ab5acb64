import { describe, expect, it, vi } from 'vitest'
import { rateLimits, type RatedOperation } from '../../src/job/limits.ts'
import { hashKey } from '../../src/resource/key-text.ts'
import { StoreError } from '../../src/store/store-error.ts'
import type { TestServiceOptions } from '../support/service.ts'
import { HostedWorker, startRig, turns, type Reply, type Rig } from '../support/interface-rig.ts'

const start = (options: TestServiceOptions = {}): Promise<Rig> =>
  startRig({ hasRateLimits: true, ...options })

type Ask = (rig: Rig) => Promise<Reply>

/** Requests that are answered at once, by refusals mostly: what counts is that they were let in. */
const quick: Record<RatedOperation, Ask> = {
  runsync: (rig) => rig.post('/runsync', '{}'),
  run: (rig) => rig.post('/run', '{}'),
  status: (rig) => rig.get('/status/nope'),
  stream: (rig) => rig.get('/stream/nope'),
  cancel: (rig) => rig.post('/cancel/nope'),
  'purge-queue': (rig) => rig.post('/purge-queue'),
  openai: (rig) => rig.post('/openai/v1/completions', 'x'),
  requests: (rig) => rig.get('/requests'),
}

async function statuses(count: number, ask: () => Promise<Reply>): Promise<Map<number, number>> {
  const seen = new Map<number, number>()
  for (let n = 0; n < count; n += 1) {
    const { statusCode } = await ask()
    seen.set(statusCode, (seen.get(statusCode) ?? 0) + 1)
  }
  return seen
}

/** So many in 10 seconds, the next one refused, and again as many when these are over. */
async function expectRate(operation: RatedOperation, requests: number): Promise<void> {
  const rig = await start()
  const ask = (): Promise<Reply> => quick[operation](rig)
  expect((await statuses(requests, ask)).get(429)).toBeUndefined()
  const refused = await ask()
  expect([refused.statusCode, refused.headers['ratelimit-policy']]).toEqual([
    429,
    `"${operation}";q=${requests};w=10`,
  ])
  await rig.jump(9_899)
  expect((await ask()).statusCode).toBe(429)
  await rig.jump(300)
  expect((await ask()).statusCode).not.toBe(429)
}

/** Requests that a store which does not answer keeps under way. */
const slow: Record<
  Exclude<RatedOperation, 'purge-queue'>,
  [verb: 'enqueue' | 'find' | 'readChunks' | 'cancel' | 'list', ask: Ask]
> = {
  runsync: ['enqueue', (rig) => rig.post('/runsync?wait=1000', { input: {} })],
  run: ['enqueue', (rig) => rig.post('/run', { input: {} })],
  status: ['find', (rig) => rig.get('/status/nope')],
  stream: ['readChunks', (rig) => rig.get('/stream/nope')],
  cancel: ['cancel', (rig) => rig.post('/cancel/nope')],
  openai: ['enqueue', (rig) => rig.post('/openai/v1/completions', {})],
  requests: ['list', (rig) => rig.get('/requests')],
}

/** So many under way at a time, the next one refused, and room again once these were answered. */
async function expectConcurrency(operation: keyof typeof slow, concurrent: number): Promise<void> {
  const rig = await start()
  const [verb, ask] = slow[operation]
  const answer = Promise.withResolvers<never>()
  answer.promise.catch(() => undefined)
  vi.spyOn(rig.service.store.jobs, verb).mockReturnValue(answer.promise)
  const held = Array.from({ length: concurrent }, () => ask(rig))
  await turns(20)
  const refused = await ask(rig)
  expect([refused.statusCode, refused.body]).toEqual([
    429,
    expect.stringContaining(`/${operation} takes ${concurrent} requests at a time`),
  ])
  answer.reject(new StoreError('STORE_UNAVAILABLE', 'The store was away.'))
  const answered = await Promise.all(held)
  expect(new Set(answered.map(({ statusCode }) => statusCode))).toEqual(new Set([503]))
  await turns()
  expect((await ask(rig)).statusCode).toBe(503)
}

describe('a rate', () => {
  it('[RATE-1] lets in 2,000 requests of /runsync in 10 seconds', () => expectRate('runsync', 2_000))
  it('[RATE-2] lets in 1,000 requests of /run in 10 seconds', () => expectRate('run', 1_000))
  it('[RATE-3] lets in 2,000 requests of /status in 10 seconds', () => expectRate('status', 2_000))
  it('[RATE-4] lets in 2,000 requests of /stream in 10 seconds', () => expectRate('stream', 2_000))
  it('[RATE-5] lets in 100 requests of /cancel in 10 seconds', () => expectRate('cancel', 100))
  it('[RATE-6] lets in 2 requests of /purge-queue in 10 seconds', () => expectRate('purge-queue', 2))
  it('[RATE-7] lets in 2,000 requests of /openai/* in 10 seconds', () => expectRate('openai', 2_000))
  it('[RATE-8] lets in 10 requests of /requests in 10 seconds', () => expectRate('requests', 10))

  it('[RATE-1] lets in 400 of /runsync at a time', () => expectConcurrency('runsync', 400))
  it('[RATE-2] lets in 200 of /run at a time', () => expectConcurrency('run', 200))
  it('[RATE-3] lets in 400 of /status at a time', () => expectConcurrency('status', 400))
  it('[RATE-4] lets in 400 of /stream at a time', () => expectConcurrency('stream', 400))
  it('[RATE-5] lets in 20 of /cancel at a time', () => expectConcurrency('cancel', 20))
  it('[RATE-7] lets in 400 of /openai/* at a time', () => expectConcurrency('openai', 400))
  it('[RATE-8] lets in 2 of /requests at a time', () => expectConcurrency('requests', 2))

  it('[RATE-6] lets in any number of /purge-queue at a time', async () => {
    const rig = await start({ requestsPerWorker: 1_000 })
    await rig.running()
    const answer = Promise.withResolvers<number>()
    const purge = vi.spyOn(rig.service.store.jobs, 'purge').mockReturnValue(answer.promise)
    const held = Array.from({ length: 500 }, () => rig.post('/purge-queue'))
    await turns(20)
    expect(purge).toHaveBeenCalledTimes(500)
    answer.resolve(0)
    expect(new Set((await Promise.all(held)).map(({ statusCode }) => statusCode))).toEqual(new Set([200]))
  })

  it('[RATE-1, RATE-8] is what the table of the code says', () => {
    const table = Object.entries(rateLimits).map(([name, { requests, concurrent }]) => [
      name,
      requests,
      concurrent,
    ])
    expect(table).toEqual([
      ['runsync', 2_000, 400],
      ['run', 1_000, 200],
      ['status', 2_000, 400],
      ['stream', 2_000, 400],
      ['cancel', 100, 20],
      ['purge-queue', 2, undefined],
      ['openai', 2_000, 400],
      ['requests', 10, 2],
    ])
  })

  it('[RATE-9, RATE-12] holds for each key, endpoint and operation by itself', async () => {
    const rig = await start()
    await rig.service.store.endpoints.ensureEndpoint('other')
    const key = { hash: hashKey('second'), id: 'key_2', name: 'second', createdAt: 1 }
    await rig.service.store.keys.addKey({ ...key, permissions: ['read', 'write'] })
    const purge = (endpoint: string, authorization: string): Promise<Reply> =>
      rig.service.http.inject({
        method: 'POST',
        url: `/v2/${endpoint}/purge-queue`,
        headers: { authorization },
      })
    for (const [endpoint, name] of [
      ['default', 'test-key'],
      ['default', 'second'],
      ['other', 'test-key'],
      ['other', 'second'],
    ] as const) {
      const seen = await statuses(3, () => purge(endpoint, name))
      expect(Object.fromEntries(seen)).toEqual({ 200: 2, 429: 1 })
    }
    expect((await rig.get('/requests')).statusCode).toBe(200)
  })

  it('[RATE-10, RATE-11, RATE-12] is the higher of its own and 50 for each running worker', async () => {
    const rig = await start()
    const limit = async (): Promise<unknown> => (await rig.get('/requests')).headers['ratelimit-policy']
    expect(await limit()).toBe('"requests";q=10;w=10')
    await new HostedWorker(rig.service, 'idle').ping()
    expect(await limit()).toBe('"requests";q=10;w=10')
    await rig.running()
    expect(await limit()).toBe('"requests";q=50;w=10')
    await rig.submit()
    await new HostedWorker(rig.service, 'w2').take()
    expect(await limit()).toBe('"requests";q=100;w=10')
    const seen = await statuses(97, () => rig.get('/requests'))
    expect(Object.fromEntries(seen)).toEqual({ 200: 96, 429: 1 })
    // 1,000 of its own is more than two workers allow.
    expect((await rig.post('/run', '{}')).headers['ratelimit-policy']).toBe('"run";q=1000;w=10')
  })

  it('[RATE-12] raises what may be asked at a time as well, by a setting of the service', async () => {
    const rig = await start({ requestsPerWorker: 7 })
    await rig.running()
    expect((await rig.get('/requests')).headers['ratelimit-policy']).toBe('"requests";q=10;w=10')
    const answer = Promise.withResolvers<never>()
    answer.promise.catch(() => undefined)
    vi.spyOn(rig.service.store.jobs, 'list').mockReturnValue(answer.promise)
    const held = Array.from({ length: 7 }, () => rig.get('/requests'))
    await turns(20)
    expect((await rig.get('/requests')).json().error).toContain('7 requests at a time')
    answer.reject(new StoreError('STORE_UNAVAILABLE', 'The store was away.'))
    expect((await Promise.all(held)).map(({ statusCode }) => statusCode)).toEqual(Array(7).fill(503))
  })

  it('[RATE-13] is none for /retry, /health and the routes of workers', async () => {
    const rig = await start()
    for (const ask of [
      () => rig.post('/retry/nope'),
      () => rig.get('/health'),
      () => rig.worker.ping(),
      () => rig.worker.done('nope', {}),
    ]) {
      expect((await ask()).headers).not.toHaveProperty('ratelimit')
      expect((await statuses(150, ask)).get(429)).toBeUndefined()
    }
  })

  it('[RATE-14, ERR-5] is told in every answer, and when to come again in a refusal', async () => {
    const rig = await start()
    const told = async (): Promise<unknown[]> => {
      const { statusCode, headers } = await rig.post('/purge-queue')
      return [statusCode, headers['ratelimit-policy'], headers['ratelimit'], headers['retry-after']]
    }
    expect(await told()).toEqual([200, '"purge-queue";q=2;w=10', '"purge-queue";r=1;t=11', undefined])
    await rig.jump(4_000)
    expect(await told()).toEqual([200, '"purge-queue";q=2;w=10', '"purge-queue";r=0;t=7', undefined])
    expect(await told()).toEqual([429, '"purge-queue";q=2;w=10', '"purge-queue";r=0;t=7', '7'])
    await rig.jump(7_000)
    expect((await rig.post('/purge-queue')).statusCode).toBe(200)
  })

  it('[RATE-15] counts no refused request, and slides', async () => {
    const rig = await start()
    await rig.post('/purge-queue')
    await rig.jump(5_000)
    await rig.post('/purge-queue')
    expect((await statuses(20, () => rig.post('/purge-queue'))).get(429)).toBe(20)
    await rig.jump(5_200)
    expect(Object.fromEntries(await statuses(2, () => rig.post('/purge-queue')))).toEqual({ 200: 1, 429: 1 })
    await rig.jump(5_000)
    expect((await rig.post('/purge-queue')).statusCode).toBe(200)
  })

  it('[RATE-16] is none at all of a service that was started without', async () => {
    const rig = await startRig({ hasRateLimits: false })
    expect((await statuses(30, () => rig.post('/purge-queue'))).get(200)).toBe(30)
    expect((await rig.post('/purge-queue')).headers).not.toHaveProperty('ratelimit')
  })
})
