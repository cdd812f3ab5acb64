// What stands in Redis and cannot be read is stepped over and cleared away, and keeps nobody from the rest.

import { expect, it, onTestFinished } from 'vitest'
import { policySchema } from '../../src/job/job.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { LeasedJob } from '../../src/store/job-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { StoreEvent } from '../../src/store/store-event.ts'
import { Facts } from '../support/facts.ts'
import { startRedis, type RedisServer } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'

const SERVED = { leaseMs: 10_000, servedMs: 1e9 }
const P = 'longshore:{ep}'

async function open(): Promise<{ server: RedisServer; store: Store }> {
  const server = await startRedis()
  onTestFinished(() => server.stop())
  const store = await openStore(server.url)
  onTestFinished(() => store.close())
  await store.endpoints.ensureEndpoint('ep')
  return { server, store }
}

const submit = (store: Store, id: string, webhook?: string): Promise<unknown> =>
  store.jobs.enqueue({
    endpoint: 'ep',
    id,
    input: Buffer.from('1'),
    policy: policySchema.parse({}),
    ...(webhook !== undefined && { webhook }),
    retentionMs: 600_000,
    now: store.clock.now(),
  })

const lease = (store: Store): Promise<LeasedJob[]> =>
  store.jobs.lease({ endpoint: 'ep', worker: 'w', count: 5, leaseMs: 10_000, now: store.clock.now() })

describeWithRedis('What cannot be read', () => {
  it.each([
    ['a worker that is no JSON', ['hset', `${P}:workers`, 'x', 'notjson'], ['hlen', `${P}:workers`]],
    ['a worker that is no worker', ['hset', `${P}:workers`, 'x', '[1]'], ['hlen', `${P}:workers`]],
    ['an id without a job whose time is over', ['zadd', `${P}:gone`, '1', 'x'], ['zcard', `${P}:gone`]],
    ['an id without a job that is leased', ['zadd', `${P}:leased`, '1', 'x'], ['zcard', `${P}:leased`]],
    ['an id without a job that runs', ['zadd', `${P}:deadlines`, '1', 'x'], ['zcard', `${P}:deadlines`]],
  ])('is swept: %s', async (_what, words, left) => {
    const { server, store } = await open()
    await submit(store, 'job')
    await lease(store)
    // A server that has just come gives every lease a whole one.
    await store.jobs.sweep(store.clock.now(), SERVED)
    const before = await server.cli(...left)
    await server.cli(...words)
    const events = new Facts<StoreEvent>()
    onTestFinished(store.watch((event) => events.add(event)))
    const later = store.clock.now() + 60_000
    expect(await store.presence.list('ep', later)).toEqual([])
    await server.cli(...words)
    await store.jobs.sweep(later, SERVED)
    // What the same sweep has done beside is told.
    await events.first((event) => event.kind === 'changed' && event.id === 'job')
    expect(await store.jobs.find('ep', 'job', later)).toMatchObject({ status: 'IN_QUEUE' })
    const isGone = left[1]!.endsWith(':leased') || left[1]!.endsWith(':deadlines')
    expect(await server.cli(...left)).toBe(isGone ? '0' : before)
  })

  it.each([
    ['there is none', []],
    ['it is no hash', ['set', `${P}:job:x`, 'text']],
    ['it has too little', ['hset', `${P}:job:x`, 'status', 'IN_QUEUE']],
    ['a number is none', ['hset', `${P}:job:x`, 'attempt', 'x']],
  ])('is not leased, and those behind it are: a job of which %s', async (_what, words) => {
    const { server, store } = await open()
    await submit(store, 'x')
    if (!words.includes('attempt')) await server.cli('del', `${P}:job:x`)
    if (words.length > 0) await server.cli(...words)
    await submit(store, 'job')
    expect((await lease(store)).map(({ id }) => id)).toEqual(['job'])
    expect(await server.cli('zcard', `${P}:all`)).toBe('1')
    expect(await store.jobs.count('ep')).toMatchObject({ inQueue: 0, inProgress: 1 })
    expect((await store.jobs.list('ep', { count: 9, now: store.clock.now() })).jobs).toHaveLength(1)
  })

  it('is no webhook, and those behind it are', async () => {
    const { server, store } = await open()
    for (const id of ['one', 'two']) {
      await submit(store, id, 'https://receiver.example/')
      await store.jobs.cancel('ep', id, store.clock.now())
    }
    await server.cli('del', `${P}:delivery:1`)
    const claim = { count: 9, holdMs: 1_000, without: [], now: store.clock.now() }
    expect((await store.webhooks.claimDeliveries(claim)).map(({ record }) => record.id)).toEqual(['two'])
    expect(await server.cli('zcard', `${P}:owed:https://receiver.example`)).toBe('1')
  })

  it.each([
    ['an id without a job', ['zadd', `${P}:all`, '1', 'x']],
    ['an id without a job that waits', ['zadd', `${P}:waiting`, '1', 'x']],
    ['a delivery that is not there', ['del', `${P}:delivery:1`]],
    ['a delivery that is no hash', ['set', `${P}:delivery:1`, 'text']],
    ['a delivery of no job', ['hdel', `${P}:delivery:1`, 'id']],
    ['an origin that is owed nothing', ['zadd', `${P}:origins`, '1', 'https://other.example']],
  ])('goes with its endpoint: %s', { timeout: 10_000 }, async (_what, words) => {
    const { server, store } = await open()
    for (const id of ['one', 'two']) {
      await submit(store, id, 'https://receiver.example/')
      await store.jobs.cancel('ep', id, store.clock.now())
    }
    await server.cli(...words)
    await store.endpoints.removeEndpoint('ep')
    expect(await store.endpoints.findEndpoint('ep')).toBeUndefined()
    const left = (await server.cli('keys', `${P}*`))
      .split('\n')
      .filter((key) => !key.includes(':deliveries:'))
    expect(left).toEqual([P])
  })

  it('is no key, and the others are listed, found and revoked', async () => {
    const { server, store } = await open()
    await server.cli('hset', 'longshore:keys', 'bad', 'notjson')
    await store.keys.addKey({ id: 'key_1', name: 'one', permissions: ['read'], createdAt: 0, hash: 'hash' })
    expect(await store.keys.findKey('bad')).toBeUndefined()
    expect((await store.keys.listKeys()).map(({ id }) => id)).toEqual(['key_1'])
    expect(await store.keys.revokeKey('key_1')).toBe(true)
    expect(await store.keys.findKey('hash')).toBeUndefined()
  })
})

describeWithRedis('An endpoint that is half made', () => {
  it('has nothing to lease until it is whole', async () => {
    const { server, store } = await open()
    await submit(store, 'job')
    await server.cli('hdel', P, 'timeout')
    expect(await lease(store)).toEqual([])
    await store.endpoints.ensureEndpoint('ep')
    expect(await lease(store)).toMatchObject([{ id: 'job' }])
  })
})
