import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { hashKey } from '../../src/resource/key-text.ts'
import { startTestService, type TestService } from '../support/service.ts'

let service: TestService
beforeEach(async () => {
  service = await startTestService({ hasRateLimits: true })
})
afterEach(() => service.close())

const statusesOf = async (times: number, ask: () => Promise<{ statusCode: number }>): Promise<number[]> => {
  const statuses: number[] = []
  for (let n = 0; n < times; n += 1) statuses.push((await ask()).statusCode)
  return statuses
}

describe('a rate', () => {
  it('is answered 429 when it is over, with what was allowed and when to come again', async () => {
    const from = performance.now()
    const first = await service.ask('POST', '/purge-queue')
    expect(first.headers).toMatchObject({
      'ratelimit-policy': '"purge-queue";q=2;w=10',
      ratelimit: expect.stringMatching(/^"purge-queue";r=1;t=(10|11)$/),
    })
    await service.ask('POST', '/purge-queue')
    const refused = await service.ask('POST', '/purge-queue')
    expect(refused.statusCode).toBe(429)
    const passedS = Math.ceil((performance.now() - from) / 1000)
    expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(10 - passedS)
    expect(Number(refused.headers['retry-after'])).toBeLessThanOrEqual(11)
    expect(refused.headers['ratelimit']).toMatch(/^"purge-queue";r=0;t=\d+$/)
    expect(refused.json()).toEqual({
      code: 'TOO_MANY_REQUESTS',
      error: expect.stringMatching(
        /^\/purge-queue takes 2 requests in 10 s from one key and endpoint, and this is one more\. Try again in \d+ s/,
      ),
    })
  })

  it('counts what is under way until it is answered or its client has gone', async () => {
    // More one after the other than there may be at a time.
    const one = (): Promise<{ statusCode: number }> => service.ask('POST', '/cancel/nope')
    expect(await statusesOf(25, one)).toEqual(Array(25).fill(404))
  })

  it('is each key and endpoint for itself', async () => {
    await service.store.endpoints.ensureEndpoint('other')
    await service.store.keys.addKey({
      hash: hashKey('second'),
      id: 'key_2',
      name: 'second',
      permissions: ['write'],
      createdAt: 1,
    })
    const purge = (endpoint: string, authorization: string): Promise<{ statusCode: number }> =>
      service.http.inject({ method: 'POST', url: `/v2/${endpoint}/purge-queue`, headers: { authorization } })
    expect(await statusesOf(3, () => purge('default', 'second'))).toEqual([200, 200, 429])
    expect(await statusesOf(3, () => purge('other', 'second'))).toEqual([200, 200, 429])
    expect((await service.ask('POST', '/purge-queue')).statusCode).toBe(200)
  })

  it('is nothing to workers, nor to what has none', async () => {
    const statuses = await statusesOf(2_100, () => service.ask('GET', '/ping/w1'))
    expect(new Set(statuses)).toEqual(new Set([200]))
    expect((await service.ask('GET', '/health')).headers).not.toHaveProperty('ratelimit')
  })

  it('is the higher of its own and what the running workers allow', async () => {
    await service.ask('POST', '/run', { input: {} })
    await service.ask('GET', '/job-take/w1?x=1')
    expect((await service.ask('GET', '/health')).json().workers).toMatchObject({ running: 1 })
    expect((await service.ask('POST', '/purge-queue')).headers['ratelimit-policy']).toBe(
      '"purge-queue";q=50;w=10',
    )
  })

  it('lets nobody count for an endpoint that there is not', async () => {
    const reply = await service.http.inject({
      method: 'POST',
      url: '/v2/nowhere/purge-queue',
      headers: { authorization: 'test-key' },
    })
    expect(reply.statusCode).toBe(404)
  })
})

describe('a service without rate limits', () => {
  it('lets every key ask as often as it likes', async () => {
    const free = await startTestService()
    const statuses = await statusesOf(30, () => free.ask('POST', '/purge-queue'))
    expect(new Set(statuses)).toEqual(new Set([200]))
    await free.close()
  })
})
