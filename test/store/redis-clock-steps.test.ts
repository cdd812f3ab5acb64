// Leases, duties, rates and webhooks in Redis while clocks are set, or differ.

import { expect, it, onTestFinished } from 'vitest'
import { policySchema } from '../../src/job/job.ts'
import { systemClock, type Clock } from '../../src/lib/clock.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { Store } from '../../src/store/store.ts'
import { MovedClock } from '../support/moved-clock.ts'
import { startRedis, type RedisServer } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'

const FAR_MS = 45_000
const BACK_MS = 600_000
const LONG = { timeout: 10_000, interval: 20 }
const SERVED = { leaseMs: 10_000, servedMs: 1_500 }

/** Of one Redis: a server for each clock. */
async function open(...clocks: Clock[]): Promise<{ server: RedisServer; store: Store; other: Store }> {
  const server = await startRedis()
  onTestFinished(() => server.stop())
  const stores = await Promise.all(clocks.map((clock) => openRedisStore({ url: server.url, clock })))
  for (const store of stores) onTestFinished(() => store.close())
  const [store, other] = stores as [Store, Store]
  await store.endpoints.ensureEndpoint('ep')
  return { server, store, other }
}

/** Redis has the time of this machine. */
function offMs({ clock }: Store): number {
  return Math.abs(clock.now() - systemClock.now())
}

interface Asked {
  now?: number
  leaseMs?: number
  webhook?: string
}

/** Submits a job, and leases it. */
async function leaseOf(store: Store, id: string, asked: Asked = {}): Promise<{ id: string; lease: string }> {
  const { now = store.clock.now(), leaseMs = SERVED.leaseMs, webhook } = asked
  const job = { endpoint: 'ep', id, input: Buffer.from('1'), policy: policySchema.parse({}) }
  await store.jobs.enqueue({ ...job, retentionMs: 3_600_000, now, ...(webhook && { webhook }) })
  const [leased] = await store.jobs.lease({ endpoint: 'ep', worker: 'w1', count: 1, leaseMs, now })
  return leased!
}

async function statusOf(store: Store, id: string, now = store.clock.now()): Promise<string | undefined> {
  return (await store.jobs.find('ep', id, now))?.status
}

describeWithRedis('While clocks are set', () => {
  // Seen: each of them put the time of the last sweep where the other one found a gap, and no lease lapsed for minutes.
  it('a lease lapses though one server was ahead of another', async () => {
    const clock = new MovedClock()
    const { store: ahead, other } = await open(clock, systemClock)
    await leaseOf(other, 'job', { leaseMs: 500 })
    clock.aheadMs = 3_600_000
    const sweepBoth = async (): Promise<string | undefined> => {
      for (const store of [ahead, other])
        await store.jobs.sweep(store.clock.now(), { leaseMs: 500, servedMs: 1_500 })
      return statusOf(other, 'job')
    }
    await expect.poll(sweepBoth, LONG).toBe('IN_QUEUE')
  })

  // Seen: what a server leased that had not looked yet had lapsed for one that had, and ran twice.
  it.each([FAR_MS, -FAR_MS])(
    'no lease lapses early or late where one server is %i ms off another until it looks',
    async (stepMs) => {
      const [oneClock, otherClock] = [new MovedClock(), new MovedClock()]
      const { store: one, other } = await open(oneClock, otherClock)
      await leaseOf(one, 'earlier')
      for (const store of [one, other]) await store.jobs.sweep(store.clock.now(), SERVED)
      oneClock.aheadMs = otherClock.aheadMs = -stepMs
      oneClock.minute?.()
      await expect.poll(() => offMs(one), LONG).toBeLessThan(1_000)

      await leaseOf(other, 'leased')
      await leaseOf(one, 'by the one')
      const extended = await leaseOf(other, 'extended', { leaseMs: 1 })
      const started = await leaseOf(other, 'started', { leaseMs: 1 })
      const term = { now: other.clock.now(), leaseMs: SERVED.leaseMs }
      await other.jobs.extend('ep', [extended], term)
      await other.jobs.start({ endpoint: 'ep', ...started }, { ...term, agoMs: 0, graceMs: 0 })
      expect(offMs(other)).toBeGreaterThan(FAR_MS / 2)

      const begin = one.clock.now()
      const all = ['earlier', 'leased', 'by the one', 'extended', 'started']
      const statuses = async (passedMs: number): Promise<unknown[]> => [
        ...new Set(await Promise.all(all.map((id) => statusOf(one, id, begin + passedMs)))),
      ]
      // By the one that knows, then by the one that does not, and finds out.
      await one.jobs.sweep(begin, SERVED)
      await other.jobs.sweep(other.clock.now(), SERVED)
      expect(await statuses(0)).toEqual(['IN_PROGRESS'])
      await expect.poll(() => offMs(other), LONG).toBeLessThan(1_000)
      for (let passedMs = 0; passedMs <= 9_000; passedMs += 1_000)
        await other.jobs.sweep(begin + passedMs, SERVED)
      expect(await statuses(9_000)).toEqual(['IN_PROGRESS'])
      for (let passedMs = 10_000; passedMs <= 12_000; passedMs += 1_000)
        await other.jobs.sweep(begin + passedMs, SERVED)
      expect(await statuses(12_000)).toEqual(['IN_QUEUE'])
    },
  )

  // Seen: the job of a dead worker waited for as long as the clock was set back.
  it.each([FAR_MS, -BACK_MS])(
    'a lease and a deadline have their time where all is moved by %i ms',
    async (stepMs) => {
      const { store } = await open(systemClock)
      const begin = store.clock.now()
      await leaseOf(store, 'lapses', { now: begin })
      const { lease } = await leaseOf(store, 'ends', { now: begin, leaseMs: 3_600_000 })
      const start = { now: begin, leaseMs: 3_600_000, agoMs: 0, graceMs: 0 }
      await store.jobs.start({ endpoint: 'ep', id: 'ends', lease }, start)
      const statuses = async (now: number): Promise<unknown[]> => [
        await statusOf(store, 'lapses', now),
        await statusOf(store, 'ends', now),
      ]
      await store.jobs.sweep(begin, SERVED)
      const sweepOn = async (fromMs: number, toMs: number): Promise<unknown[]> => {
        for (let passedMs = fromMs; passedMs <= toMs; passedMs += 1_000)
          await store.jobs.sweep(begin + stepMs + passedMs, SERVED)
        return statuses(begin + stepMs + toMs)
      }
      expect(await sweepOn(0, 9_000)).toEqual(['IN_PROGRESS', 'IN_PROGRESS'])
      expect(await sweepOn(10_000, 12_000)).toEqual(['IN_QUEUE', 'IN_PROGRESS'])
      expect(await sweepOn(13_000, 598_000)).toEqual(['IN_QUEUE', 'IN_PROGRESS'])
      expect(await sweepOn(599_000, 662_000)).toEqual(['IN_QUEUE', 'TIMED_OUT'])
    },
  )

  // Seen: each verb of a server with a slow link set served time back, and the next sweep of another counted it twice.
  it.each([900, 1_200, 5_000])(
    'a lease has its time beside verbs that are %i ms on the way',
    async (lateMs) => {
      const { store } = await open(systemClock)
      const begin = store.clock.now()
      await leaseOf(store, 'job', { now: begin })
      let now = begin
      for (; (await statusOf(store, 'job', now)) === 'IN_PROGRESS' && now < begin + 60_000; now += 250) {
        await store.jobs.sweep(now, SERVED)
        const ask = { endpoint: 'ep', worker: 'w2', count: 1, leaseMs: 10_000, now: now - lateMs }
        if (now < begin + 9_000) await store.jobs.lease(ask)
        await store.jobs.sweep(now - lateMs, SERVED)
      }
      expect(now - begin).toBeGreaterThanOrEqual(10_000)
      expect(now - begin).toBeLessThanOrEqual(10_500)
    },
  )

  it('a lease lapses by the time that Redis has while servers do not agree', async () => {
    const { store } = await open(systemClock)
    // A lease that is there when a server comes first is given a whole one.
    await store.jobs.sweep(store.clock.now(), SERVED)
    const begin = performance.now()
    await leaseOf(store, 'job', { leaseMs: 1_000 })
    const sweepBoth = async (): Promise<string | undefined> => {
      await store.jobs.sweep(store.clock.now() - FAR_MS, SERVED)
      await store.jobs.sweep(store.clock.now(), SERVED)
      return statusOf(store, 'job')
    }
    await expect.poll(sweepBoth, { timeout: 10_000, interval: 100 }).toBe('IN_QUEUE')
    expect(performance.now() - begin).toBeGreaterThanOrEqual(900)
  })

  it.each([-100_000, 100_000])(
    'what Redis says has passed counts as nothing where that is %i ms, and a server that has just come gives leases their whole time',
    async (passedMs) => {
      const { server, store, other } = await open(systemClock, systemClock)
      const begin = store.clock.now()
      await leaseOf(store, 'job', { now: begin })
      for (const ms of [0, 1_000, 2_000, 3_000, 4_000]) await store.jobs.sweep(begin + ms, SERVED)
      const setBack = async (): Promise<number> => {
        await server.cli('hset', 'longshore:{ep}', 'sweptClock', String(Date.now() - passedMs))
        return begin - BACK_MS
      }
      const sweepOn = async (one: Store, fromMs: number, toMs: number): Promise<string | undefined> => {
        for (let ms = fromMs; ms <= toMs; ms += 1_000) await one.jobs.sweep(ms, SERVED)
        return statusOf(one, 'job', toMs)
      }
      const now = await setBack()
      expect(await sweepOn(store, now, now + 3_000)).toBe('IN_PROGRESS')
      await server.cli('hset', 'longshore:{ep}', 'sweptClock', String(Date.now() - passedMs))
      // A lease of which two seconds are left.
      expect(await sweepOn(other, now - BACK_MS, now - BACK_MS + 9_000)).toBe('IN_PROGRESS')
      expect(await sweepOn(other, now - BACK_MS + 10_000, now - BACK_MS + 12_000)).toBe('IN_QUEUE')
    },
  )

  it.each([-8_000, -100_000, -BACK_MS])(
    'nobody who is gone holds a duty for longer where they were set by %i ms',
    async (stepMs) => {
      const { store } = await open(systemClock)
      const hold = (holder: string, now: number): Promise<boolean> =>
        store.fleet.hold('scale', { holder, forMs: 5_000, now })
      const now = store.clock.now()
      expect(await hold('gone', now)).toBe(true)
      expect(await hold('one', now - 1_000)).toBe(false)
      expect(await hold('one', now + stepMs)).toBe(true)
      expect(await hold('gone', now + stepMs + 4_000)).toBe(false)
      await store.fleet.letGo('scale', 'one')
      expect(await hold('gone', now + stepMs + 4_000)).toBe(true)
    },
  )

  it('no worker that is gone is counted for longer where they were set back', async () => {
    const { store } = await open(systemClock)
    const now = store.clock.now()
    const worker = { worker: 'w1', holds: 0, lowPriority: 0, isUnhealthy: false }
    await store.presence.tell('ep', [{ ...worker, aliveUntil: now + 10_000, aliveMs: 10_000 }])
    expect(await store.presence.list('ep', now - 900)).toMatchObject([{ worker: 'w1' }])
    expect(await store.presence.list('ep', now - BACK_MS)).toEqual([])
  })

  it('nobody is refused for what was asked before they were set back', async () => {
    const { store } = await open(systemClock)
    const ask = { endpoint: 'ep', bucket: 'run', limit: 2 }
    const enter = async (now: number): Promise<string> => (await store.rates.enter({ ...ask, now })).state
    const now = store.clock.now()
    for (const expected of ['in', 'in', 'too-many']) expect(await enter(now)).toBe(expected)
    for (const expected of ['in', 'in', 'too-many']) expect(await enter(now - BACK_MS)).toBe(expected)
  })

  it.each([-100_000, -BACK_MS])(
    'a webhook is tried again soon, and not while it is called, where they were set by %i ms',
    async (stepMs) => {
      const { store } = await open(systemClock)
      const begin = store.clock.now()
      const { lease } = await leaseOf(store, 'job', { webhook: 'https://receiver.example/' })
      const end = { event: 'complete', output: Buffer.from('1') } as const
      await store.jobs.settle({ endpoint: 'ep', id: 'job', lease }, end, { now: begin })
      const claim = async (now: number): Promise<unknown[]> =>
        (await store.webhooks.claimDeliveries({ count: 10, holdMs: 15_000, without: [], now })).map(
          ({ attempt }) => attempt,
        )
      expect(await claim(begin)).toEqual([1])
      const after = begin + stepMs
      expect(await claim(after)).toEqual([])
      expect(await claim(after + 14_999)).toEqual([])
      expect(await claim(after + 15_000)).toEqual([1])
    },
  )
})
