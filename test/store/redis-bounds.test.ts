// While a script runs Redis does nothing else: none does more than so much at a time, however much there is to do.

import { Redis } from 'ioredis'
import { expect, it, onTestFinished } from 'vitest'
import { policySchema } from '../../src/job/job.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { Presence } from '../../src/store/traffic.ts'
import { startRedis, type RedisServer } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'

const SHORT_MS = 10_000
const LONG_MS = 600_000
const SERVED = { leaseMs: 10_000, servedMs: 10_000 }

async function open(): Promise<{ server: RedisServer; store: Store }> {
  const server = await startRedis()
  onTestFinished(() => server.stop())
  const store = await openStore(server.url)
  onTestFinished(() => store.close())
  await store.endpoints.ensureEndpoint('ep')
  return { server, store }
}

async function fill(store: Store, count: number, ttl: number): Promise<void> {
  const submit = (_one: unknown, at: number): Promise<unknown> =>
    store.jobs.enqueue({
      endpoint: 'ep',
      id: `job-${ttl}-${at}`,
      input: Buffer.from('1'),
      policy: policySchema.parse({ ttl }),
      retentionMs: LONG_MS,
      now: store.clock.now(),
    })
  await Promise.all(Array.from({ length: count }, submit))
}

/** How many jobs each message was about, from now on: one script sends one message. */
async function messages({ url }: RedisServer): Promise<{ sizes: number[] }> {
  const listener = new Redis(url)
  onTestFinished(() => listener.disconnect())
  const heard = { sizes: [] as number[] }
  listener.on('pmessage', (_pattern: string, _channel: string, message: string) => {
    const [, , events] = JSON.parse(message) as [number, string, unknown[]]
    heard.sizes.push(events.length)
  })
  await listener.psubscribe('longshore:*')
  return heard
}

/** How often a command was carried out while this happened. */
async function calls(server: RedisServer, command: string, during: () => Promise<unknown>): Promise<number> {
  await server.cli('config', 'resetstat')
  await during()
  const stats = await server.cli('info', 'commandstats')
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
}

async function leaseAll(store: Store, now: number): Promise<void> {
  const ask = { endpoint: 'ep', worker: 'w', count: 500, leaseMs: 10_000, now }
  while ((await store.jobs.lease(ask)).length > 0);
}

const workerOf = (worker: string, aliveUntil: number): Presence => ({
  worker,
  aliveUntil,
  holds: 0,
  lowPriority: 0,
  isUnhealthy: false,
})

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0)

describeWithRedis('One script', () => {
  it('cancels a bounded number of jobs for a purge', async () => {
    const { server, store } = await open()
    await fill(store, 1_200, LONG_MS)
    const { sizes } = await messages(server)
    expect(await store.jobs.purge('ep', store.clock.now())).toBe(1_200)
    await expect.poll(() => sum(sizes)).toBe(1_200)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(500)
  })

  it('removes a bounded number of jobs that stand before the one to lease', async () => {
    const { server, store } = await open()
    await fill(store, 1_200, SHORT_MS)
    await fill(store, 1, LONG_MS)
    const { sizes } = await messages(server)
    const now = store.clock.now() + 2 * SHORT_MS
    const ask = { endpoint: 'ep', worker: 'w', count: 1, leaseMs: 10_000, now }
    expect(await store.jobs.lease(ask)).toHaveLength(1)
    await expect.poll(() => sum(sizes)).toBe(1_200)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(500)
  })

  it('looks at a bounded number of jobs for a page', async () => {
    const { server, store } = await open()
    await fill(store, 2_500, SHORT_MS)
    const now = store.clock.now() + 2 * SHORT_MS
    const scripts = await calls(server, 'evalsha', async () => {
      expect(await store.jobs.list('ep', { count: 10, now })).toEqual({ jobs: [] })
    })
    expect(scripts).toBeGreaterThanOrEqual(3)
  })

  it('looks for no chunk that was removed', async () => {
    const { server, store } = await open()
    await fill(store, 1, LONG_MS)
    const now = store.clock.now()
    const [job] = await store.jobs.lease({ endpoint: 'ep', worker: 'w', count: 1, leaseMs: 10_000, now })
    const fence = { endpoint: 'ep', id: job!.id, lease: job!.lease }
    const chunks = Array.from({ length: 2_000 }, () => ({ output: Buffer.from('1') }))
    await store.jobs.appendChunks(fence, { chunks, now })
    await store.jobs.release(fence, now)
    const read = { after: 0, maxBytes: 1e6, now }
    const looks = await calls(server, 'hget', async () => {
      expect(await store.jobs.readChunks('ep', job!.id, read)).toMatchObject({ chunks: [], lastIndex: 2_000 })
    })
    expect(looks).toBeLessThan(100)
  })

  it('makes up to no lease by itself for time in which nobody swept, and for two servers once', async () => {
    const { server, store } = await open()
    const other = await openStore(server.url)
    onTestFinished(() => other.close())
    const now = store.clock.now() - LONG_MS
    for (const one of [store, other]) await one.jobs.sweep(now, SERVED)
    await fill(store, 1_200, LONG_MS)
    await leaseAll(store, now)
    const back = now + LONG_MS / 2
    const moves = await calls(server, 'zadd', () =>
      Promise.all([store, other].map((one) => one.jobs.sweep(back, SERVED))),
    )
    // A server signs now and then that it is there; moved leases would be 1,200.
    expect(moves).toBeLessThan(10)
    // One that is taken from then on has no more than it says.
    await fill(store, 1, LONG_MS + 1)
    await leaseAll(store, back - 1)
    expect(await store.jobs.sweep(back + 9_998, SERVED)).toBe(0)
    expect(await other.jobs.sweep(back + 9_999, SERVED)).toBe(1)
    const lapsed = [1, 2, 3, 4].map(() => store.jobs.sweep(back + 10_000, SERVED))
    expect(sum(await Promise.all(lapsed))).toBe(1_200)
  })

  it('gives a bounded number of leases a whole one, when they would lapse', async () => {
    const { server, store } = await open()
    const now = store.clock.now() - LONG_MS
    await store.jobs.sweep(now, SERVED)
    await fill(store, 1_200, LONG_MS)
    await leaseAll(store, now)
    await store.jobs.sweep(now + 9_000, SERVED)
    const other = await openStore(server.url)
    onTestFinished(() => other.close())
    const back = now + LONG_MS / 2
    expect(await calls(server, 'zadd', () => other.jobs.sweep(back, SERVED))).toBeLessThan(10)
    const scripts = await calls(server, 'evalsha', async () => {
      expect(await store.jobs.sweep(back + 1_000, SERVED)).toBe(0)
    })
    expect(scripts).toBeGreaterThanOrEqual(3)
    expect(await store.jobs.sweep(back + 9_999, SERVED)).toBe(0)
    const lapsed = [1, 2, 3].map(() => other.jobs.sweep(back + 10_000, SERVED))
    expect(sum(await Promise.all(lapsed))).toBe(1_200)
  })

  it('looks at a bounded number of workers, however many are alive', async () => {
    const { server, store } = await open()
    const now = store.clock.now()
    const alive = Array.from({ length: 3_000 }, (_one, at) => workerOf(`alive-${at}`, now + LONG_MS))
    await store.presence.tell('ep', [...alive, workerOf('gone', now)])
    const scripts = await calls(server, 'evalsha', async () => {
      const listed = await store.presence.list('ep', now)
      expect(listed.map(({ worker }) => worker).toSorted()).toEqual(
        alive.map(({ worker }) => worker).toSorted(),
      )
    })
    expect(scripts).toBeGreaterThanOrEqual(5)
  })

  it('forgets a bounded number of requests whose server is gone, and counts none of them', async () => {
    const { server, store } = await open()
    const asked = { endpoint: 'ep', bucket: 'all', limit: 1e6, now: store.clock.now() }
    await Promise.all(Array.from({ length: 1_200 }, () => store.rates.enter(asked)))
    const later = { ...asked, atATime: 1, now: asked.now + 700_000 }
    expect(await store.rates.enter(later)).toMatchObject({ state: 'in' })
    expect(await server.cli('zcard', 'longshore:{ep}:inside:all')).toBe('701')
    expect(await store.rates.enter(later)).toMatchObject({ state: 'too-many-at-a-time' })
    expect(await store.rates.enter(later)).toMatchObject({ state: 'too-many-at-a-time' })
    expect(await server.cli('zcard', 'longshore:{ep}:inside:all')).toBe('1')
  })

  it('looks for a key some at a time', async () => {
    const { server, store } = await open()
    const keys = Array.from({ length: 2_000 }, (_one, at) => ({
      id: `key-${at}`,
      hash: `hash-${at}`,
      name: 'a key',
      permissions: ['read' as const],
      createdAt: at,
    }))
    await Promise.all(keys.map((key) => store.keys.addKey(key)))
    const scans = await calls(server, 'hscan', async () => {
      expect(await store.keys.listKeys()).toHaveLength(2_000)
    })
    expect(scans).toBeGreaterThanOrEqual(3)
    expect(await store.keys.revokeKey('key-1234')).toBe(true)
    expect(await store.keys.revokeKey('key-1234')).toBe(false)
    expect(await store.keys.findKey('hash-1234')).toBeUndefined()
    expect(await store.keys.findKey('hash-1235')).toMatchObject({ id: 'key-1235' })
  })

  it('forgets workers that are gone, some at a time, though nobody lists them', async () => {
    const { server, store } = await open()
    const now = store.clock.now()
    const gone = Array.from({ length: 3_000 }, (_one, at) => workerOf(`gone-${at}`, now + 1))
    await store.presence.tell('ep', [...gone, workerOf('alive', now + LONG_MS)])
    const left = async (): Promise<number> => Number(await server.cli('hlen', 'longshore:{ep}:workers'))
    await store.jobs.sweep(now + 10, SERVED)
    const after = await left()
    expect(after).toBeGreaterThan(1_000)
    expect(after).toBeLessThan(3_001)
    for (let rounds = 0; rounds < 20; rounds += 1) await store.jobs.sweep(now + 10, SERVED)
    expect(await left()).toBe(1)
  })
})
