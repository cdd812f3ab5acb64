// What goes wrong with Redis and between it and a server: nothing that was answered is lost, and the store comes back.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { policySchema } from '../../src/job/job.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { Key } from '../../src/resource/key.ts'
import { templateFrom, type Template } from '../../src/resource/template.ts'
import { Connection } from '../../src/store/redis/connection.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { LeasedJob } from '../../src/store/job-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { StoreEvent } from '../../src/store/store-event.ts'
import { temporaryDir } from '../support/processes.ts'
import { Facts } from '../support/facts.ts'
import {
  DURABLE,
  isRedisMissing,
  moveSlot,
  slotOwner,
  startClusterOfOne,
  startRedis,
  startRedisCluster,
  type RedisServer,
} from '../support/redis.ts'
import { switchedLink, type SwitchedLink } from '../support/switched-link.ts'

const LONG = { timeout: 20_000, interval: 50 }
const LEASE_MS = 10_000
const SERVED = { leaseMs: LEASE_MS, servedMs: LEASE_MS }
const run = promisify(execFile)

async function redis(...settings: string[]): Promise<RedisServer> {
  const server = await startRedis(settings)
  onTestFinished(() => server.stop())
  return server
}

async function replicaOf(master: RedisServer, ...settings: string[]): Promise<RedisServer> {
  return replicaThrough(master.port, master, ...settings)
}

async function replicaThrough(
  port: number,
  master: RedisServer,
  ...settings: string[]
): Promise<RedisServer> {
  const replica = await redis('--replicaof', `127.0.0.1 ${port}`, ...settings)
  await expect.poll(() => replica.cli('info', 'replication'), LONG).toContain('master_link_status:up')
  await expect.poll(() => master.cli('info', 'replication'), LONG).toContain('state=online')
  return replica
}

async function link(server: RedisServer, delayMs = 0): Promise<SwitchedLink> {
  const made = await switchedLink(server.port, delayMs)
  onTestFinished(() => made.close())
  return made
}

async function open(url: string, options: { replicas?: number } = {}): Promise<Store> {
  const store = await openStore(url, options)
  onTestFinished(() => store.close())
  await store.endpoints.ensureEndpoint('ep')
  return store
}

function submit(
  store: Store,
  id: string,
  { bytes = 10, endpoint = 'ep', webhook }: { bytes?: number; endpoint?: string; webhook?: string } = {},
): Promise<unknown> {
  return store.jobs.enqueue({
    endpoint,
    id,
    input: Buffer.from(JSON.stringify('x'.repeat(bytes))),
    policy: policySchema.parse({}),
    ...(webhook !== undefined && { webhook }),
    retentionMs: 600_000,
    now: store.clock.now(),
  })
}

const find = (store: Store, id: string): ReturnType<Store['jobs']['find']> =>
  store.jobs.find('ep', id, store.clock.now())

const lease = (store: Store, count = 1, endpoint = 'ep'): Promise<LeasedJob[]> =>
  store.jobs.lease({ endpoint, worker: 'w', count, leaseMs: LEASE_MS, now: store.clock.now() })

const complete = (store: Store, { id, lease: token }: LeasedJob, endpoint = 'ep'): Promise<unknown> =>
  store.jobs.settle(
    { endpoint, id, lease: token },
    { event: 'complete', output: Buffer.from('1') },
    { now: store.clock.now() },
  )

/** Takes its machine's time from it, so that connections stand and say nothing; answers how to signal to it. */
async function halted(server: RedisServer): Promise<(name: 'SIGCONT') => void> {
  const pid = Number(/process_id:(\d+)/.exec(await server.cli('info', 'server'))?.[1])
  process.kill(pid, 'SIGSTOP')
  return (name) => void process.kill(pid, name)
}

const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'ok',
    (cause: { code?: string }) => cause.code ?? cause,
  )

const available = (store: Store): Promise<void> => expect.poll(() => codeOf(store.ping()), LONG).toBe('ok')

/** Submits until it is told to stop; answers which were acknowledged. */
function submitting(store: Store): { acknowledged: string[]; failed: unknown[]; stop(): Promise<void> } {
  const acknowledged: string[] = []
  const failed: unknown[] = []
  const stopping = new AbortController()
  const lane = async (name: number): Promise<void> => {
    for (let at = 0; !stopping.signal.aborted; at += 1) {
      const id = `job-${name}-${at}`
      const code = await codeOf(submit(store, id))
      if (code === 'ok') acknowledged.push(id)
      else failed.push(code)
      // A refusal needs no turn of the event loop, in which Redis could come back.
      await turn()
    }
  }
  const lanes = Array.from({ length: 8 }, (_one, at) => lane(at))
  return {
    acknowledged,
    failed,
    async stop() {
      stopping.abort()
      await Promise.all(lanes)
    },
  }
}

/** Names of endpoints whose slots are the first of all. */
async function inTheFirstSlots(url: string, count: number): Promise<string[]> {
  const admin = new Redis(url)
  const found: string[] = []
  for (let at = 0; found.length < count; at += 1) {
    if ((await admin.cluster('KEYSLOT', `longshore:{ep-${at}}`)) < 150) found.push(`ep-${at}`)
  }
  admin.disconnect()
  return found
}

async function missing(store: Store, ids: readonly string[]): Promise<string[]> {
  const found = await Promise.all(ids.map((id) => find(store, id)))
  return ids.filter((_id, at) => !found[at])
}

describe.skipIf(isRedisMissing)('a Redis that goes wrong', () => {
  it('has every acknowledged submission and result after a power cut, with appendfsync always', async () => {
    const server = await redis(...DURABLE)
    const store = await open(server.url)
    const load = submitting(store)
    const done: string[] = []
    await expect.poll(() => load.acknowledged.length, LONG).toBeGreaterThan(50)
    for (const job of await lease(store, 20))
      if ((await complete(store, job)) === 'accepted') done.push(job.id)
    await server.kill()
    await expect.poll(() => load.failed.length, LONG).toBeGreaterThan(0)
    await load.stop()
    expect(new Set(load.failed)).toEqual(new Set(['STORE_UNAVAILABLE']))
    expect(await codeOf(store.ping())).toBe('STORE_UNAVAILABLE')
    await server.start()
    await available(store)
    expect(await missing(store, load.acknowledged)).toEqual([])
    expect(done).toHaveLength(20)
    for (const id of done) expect(await find(store, id)).toMatchObject({ status: 'COMPLETED' })
  })

  it('goes on with a server that has lost its scripts', async () => {
    const server = await redis()
    const store = await open(server.url)
    await server.cli('script', 'flush')
    await submit(store, 'job')
    expect(await find(store, 'job')).toMatchObject({ status: 'IN_QUEUE' })
    expect(await lease(store)).toHaveLength(1)
  })

  it('makes anew what is missing of an endpoint, all of it, however often that is refused', async () => {
    const server = await redis()
    const store = await open(server.url)
    await store.ping(['ep'])
    expect(await store.endpoints.ensureEndpoint('ep')).toBe(false)
    for (const key of ['longshore:endpoints', 'longshore:{ep}']) {
      await server.cli('del', key)
      expect(await codeOf(store.ping(['ep']))).toBe('STORE_UNAVAILABLE')
      await server.cli('config', 'set', 'min-replicas-to-write', '1')
      expect(await codeOf(store.endpoints.ensureEndpoint('ep'))).toBe('STORE_UNAVAILABLE')
      await server.cli('config', 'set', 'min-replicas-to-write', '0')
      expect(await store.endpoints.ensureEndpoint('ep')).toBe(true)
      expect(await store.endpoints.ensureEndpoint('ep')).toBe(false)
      await store.ping(['ep'])
    }
  })

  it('tells whoever waits to look once Redis is back', async () => {
    const server = await redis(...DURABLE)
    const store = await open(server.url)
    const events = new Facts<StoreEvent>()
    onTestFinished(store.watch((event) => events.add(event)))
    await submit(store, 'job')
    await server.kill()
    await expect.poll(() => codeOf(store.ping()), LONG).toBe('STORE_UNAVAILABLE')
    await server.start()
    await events.first(({ kind }) => kind === 'missed')
  })

  it('notices a message that was lost as fast with many endpoints as with one', async () => {
    const server = await redis()
    const far = await link(server, 5)
    const near = await open(server.url)
    const names = Array.from({ length: 400 }, (_one, at) => `ep-${at}`)
    await Promise.all(names.map((name) => near.endpoints.ensureEndpoint(name)))
    const store = await open(`redis://127.0.0.1:${far.port}`)
    const events = new Facts<StoreEvent>()
    onTestFinished(store.watch((event) => events.add(event)))
    const last = names.at(-1)!
    const missed = (event: StoreEvent): boolean => event.kind === 'missed' && event.endpoint === last
    // What is there before a server looks for the first time is no news.
    const begin = systemClock.monotonic()
    await expect
      .poll(async () => {
        // A number is taken, and its message comes to nobody.
        await server.cli('hincrby', `longshore:{${last}}`, 'events', '1')
        return events.all.some(missed)
      }, LONG)
      .toBe(true)
    expect(systemClock.monotonic() - begin).toBeLessThan(2_500)
  })

  it('takes a message that it cannot read for one that was lost, and passes over what it does not know', async () => {
    const server = await redis()
    const warnings: string[] = []
    const store = await openStore(server.url, { warn: (sentence) => void warnings.push(sentence) })
    onTestFinished(() => store.close())
    await store.endpoints.ensureEndpoint('ep')
    const events = new Facts<StoreEvent>()
    onTestFinished(store.watch((event) => events.add(event)))
    const publish = (text: string): Promise<string> => server.cli('publish', 'longshore:{ep}:events:0', text)
    for (const text of ['garbage', '', '{}', '[1]', '[-1,"o",[]]']) expect(await publish(text)).toBe('1')
    await publish('[1,"o",[["newkind","x"],["changed","job","ODD"],["chunks","job"]]]')
    expect(await events.first(({ kind }) => kind === 'chunks')).toMatchObject({ id: 'job' })
    await events.first(({ kind }) => kind === 'missed')
    expect(events.all.filter(({ kind }) => kind === 'changed')).toEqual([])
    expect(warnings).toEqual([expect.stringContaining('the channel longshore:{ep}:events:0')])
  })

  it('is not available to a user from whom a right was taken, and says which', async () => {
    const server = await redis()
    await server.cli('acl', 'setuser', 'user', 'on', '>word', '~*', '&*', '+@all')
    const store = await open(server.url.replace('//', '//user:word@'))
    await server.cli('acl', 'setuser', 'user', '-zadd', '-hmget')
    for (const asked of [submit(store, 'job'), store.endpoints.findEndpoint('ep')])
      await expect(asked).rejects.toMatchObject({
        code: 'STORE_UNAVAILABLE',
        message: expect.stringContaining('ACL SETUSER') as string,
      })
  })

  it('counts no request that it refuses for want of a right', async () => {
    const server = await redis()
    await server.cli('acl', 'setuser', 'user', 'on', '>word', '~*', '&*', '+@all')
    const store = await open(server.url.replace('//', '//user:word@'))
    const enter = (bucket: string): ReturnType<Store['rates']['enter']> =>
      store.rates.enter({ endpoint: 'ep', bucket, limit: 9, atATime: 9, now: store.clock.now() })
    for (const right of ['zadd', 'hincrby', 'pexpire']) {
      await server.cli('acl', 'setuser', 'user', `-${right}`)
      await expect(enter(right)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
      await server.cli('acl', 'setuser', 'user', `+${right}`)
      expect(
        await server.cli('exists', `longshore:{ep}:rate:${right}`, `longshore:{ep}:inside:${right}`),
      ).toBe('0')
      expect(await enter(right)).toMatchObject({ state: 'in', counted: 1 })
    }
  })

  it('tells nothing to whoever uses another database of it', async () => {
    const server = await redis()
    const [store, other, beside] = [
      await open(`${server.url}/4`),
      await open(`${server.url}/4`),
      await open(`${server.url}/5`),
    ]
    const events = new Facts<StoreEvent>()
    onTestFinished(store.watch((event) => events.add(event)))
    const end = async (by: Store, id: string): Promise<void> => {
      await submit(by, id)
      await by.jobs.cancel('ep', id, by.clock.now())
    }
    await end(beside, 'beside')
    await end(other, 'here')
    await events.first((event) => event.kind === 'changed' && event.id === 'here')
    expect(events.all.filter((event) => 'id' in event && event.id === 'beside')).toEqual([])
  })

  it('is not available while Redis reads its data, and then is', { timeout: 60_000 }, async () => {
    const settings = [
      '--enable-debug-command',
      'yes',
      '--key-load-delay',
      '2000',
      '--loading-process-events-interval-bytes',
      '1024',
    ]
    const server = await redis(...DURABLE, ...settings)
    const store = await open(server.url)
    await Promise.all(Array.from({ length: 400 }, (_one, at) => submit(store, `job-${at}`)))
    await server.kill()
    await server.start(false)
    await expect.poll(() => server.cli('ping').catch(String), LONG).toContain('LOADING')
    expect(await codeOf(submit(store, 'early'))).toBe('STORE_UNAVAILABLE')
    expect(await codeOf(store.ping())).toBe('STORE_UNAVAILABLE')
    await available(store)
    expect(await store.jobs.count('ep')).toMatchObject({ inQueue: 400 })
  })

  it('refuses what is new when Redis is full, and lets jobs be read, end and go', async () => {
    const server = await redis()
    const store = await open(server.url)
    for (const id of ['ends', 'stays', 'waits']) await submit(store, id)
    const [ends, stays] = await lease(store, 2)
    await server.cli('config', 'set', 'maxmemory', '1mb')
    expect(await codeOf(submit(store, 'new', { bytes: 1000 }))).toBe('STORE_FULL')
    expect(await find(store, 'new')).toBeUndefined()
    expect(await find(store, 'ends')).toMatchObject({ status: 'IN_PROGRESS' })
    const asked = { endpoint: 'ep', bucket: 'b', limit: 10, now: store.clock.now() }
    expect(await store.rates.enter(asked)).toMatchObject({ state: 'in' })
    expect(await store.jobs.extend('ep', [stays!], { now: store.clock.now(), leaseMs: LEASE_MS })).toEqual(
      new Set(),
    )
    expect(await complete(store, ends!)).toBe('accepted')
    expect(await store.jobs.cancel('ep', 'stays', store.clock.now())).toMatchObject({ status: 'CANCELLED' })
    expect(await lease(store)).toHaveLength(1)
    await store.jobs.sweep(store.clock.now() + 86_400_000, SERVED)
    expect(await find(store, 'ends')).toBeUndefined()
    // Another server may start meanwhile.
    await open(server.url)
    await server.cli('config', 'set', 'maxmemory', '0')
    await submit(store, 'new')
  })

  it('is not available for an input that Redis takes no more, and is for the next', async () => {
    const server = await redis()
    const store = await open(server.url)
    await server.cli('config', 'set', 'proto-max-bulk-len', '1mb')
    await expect(submit(store, 'large', { bytes: 3_000_000 })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      // Redis says why and ends the connection, which may be over before its words are read.
      message: expect.stringMatching(/Raise its proto-max-bulk-len|lost before it had answered/) as string,
    })
    await available(store)
    await submit(store, 'small')
  })

  it('gives up a connection that leads nowhere within seconds, and makes another', async () => {
    const server = await redis()
    const proxy = await link(server)
    const store = await open(`redis://127.0.0.1:${proxy.port}`)
    const before = proxy.connections
    proxy.swallow()
    const begin = systemClock.monotonic()
    expect(await codeOf(submit(store, 'job'))).toBe('STORE_UNAVAILABLE')
    expect(systemClock.monotonic() - begin).toBeLessThan(6_000)
    await available(store)
    // The one for messages too.
    await expect.poll(() => proxy.connections - before, LONG).toBeGreaterThanOrEqual(2)
    await submit(store, 'job')
    const other = await open(server.url)
    const events = new Facts<StoreEvent>()
    onTestFinished(store.watch((event) => events.add(event)))
    await submit(other, 'of another')
    await events.first(({ kind }) => kind === 'queued')
  })

  it('finds out once for all that Redis says nothing, until it does', { timeout: 60_000 }, async () => {
    const server = await redis()
    const store = await open(server.url)
    for (let at = 0; at < 10; at += 1) await store.endpoints.ensureEndpoint(`ep-${at}`)
    const signal = await halted(server)
    const all = (): Promise<unknown[]> =>
      Promise.all(
        [submit(store, 'job'), store.ping(), store.jobs.sweep(store.clock.now(), SERVED)].map(codeOf),
      )
    const begin = systemClock.monotonic()
    expect(new Set(await all())).toEqual(new Set(['STORE_UNAVAILABLE']))
    expect(systemClock.monotonic() - begin).toBeLessThan(7_000)
    const again = systemClock.monotonic()
    for (let times = 0; times < 20; times += 1)
      expect(new Set(await all())).toEqual(new Set(['STORE_UNAVAILABLE']))
    expect(systemClock.monotonic() - again).toBeLessThan(2_000)
    signal('SIGCONT')
    await available(store)
    expect(await codeOf(submit(store, 'after'))).toBe('ok')
  })

  it('keeps nobody waiting for a Redis that says nothing once its server goes', async () => {
    const server = await redis()
    const store = await openStore(server.url)
    await store.endpoints.ensureEndpoint('ep')
    await store.leave()
    expect(await codeOf(submit(store, 'answered'))).toBe('ok')
    await halted(server)
    const begin = systemClock.monotonic()
    const asked = codeOf(submit(store, 'job'))
    await store.leave()
    expect(await asked).toBe('STORE_UNAVAILABLE')
    await store.close()
    expect(systemClock.monotonic() - begin).toBeLessThan(3_000)
  })

  it('waits for a Redis that is slow for a while, and is bounded when it is for long', async () => {
    const server = await redis('--enable-debug-command', 'yes')
    const store = await open(server.url)
    await server.cli('client', 'pause', '1000')
    expect(await codeOf(submit(store, 'paused'))).toBe('ok')
    const sleeping = server.cli('debug', 'sleep', '7')
    await expect.poll(() => codeOf(submit(store, 'late')), LONG).toBe('STORE_UNAVAILABLE')
    await sleeping
    await available(store)
    expect(await codeOf(submit(store, 'after'))).toBe('ok')
    expect(await find(store, 'paused')).toBeDefined()
  })

  it('goes to where the address leads when its server has become a replica, without haste', async () => {
    const master = await redis(...DURABLE)
    const replica = await replicaOf(master, ...DURABLE)
    const proxy = await link(master)
    const store = await open(`redis://127.0.0.1:${proxy.port}`)
    await submit(store, 'before')
    await expect.poll(() => replica.cli('exists', 'longshore:{ep}:job:before'), LONG).toBe('1')
    await replica.cli('replicaof', 'no', 'one')
    await master.cli('replicaof', '127.0.0.1', String(replica.port))
    const before = proxy.connections
    const begin = systemClock.monotonic()
    for (let tries = 0; tries < 200; tries += 1) {
      expect(await codeOf(submit(store, `refused-${tries}`))).toBe('STORE_UNAVAILABLE')
    }
    expect(await codeOf(store.ping())).toBe('STORE_UNAVAILABLE')
    const seconds = (systemClock.monotonic() - begin) / 1000
    expect(proxy.connections - before).toBeLessThanOrEqual(2 + 2 * seconds)
    proxy.lead(replica.port)
    await available(store)
    await submit(store, 'after')
    expect(await replica.cli('exists', 'longshore:{ep}:job:after')).toBe('1')
    expect(await find(store, 'before')).toBeDefined()
  })
})

describe.skipIf(isRedisMissing)('a failover', () => {
  async function failOver({ replicas, settings = [] }: { replicas: number; settings?: string[] }) {
    const master = await redis(...DURABLE, ...settings)
    const wire = await link(master)
    const replica = await replicaThrough(wire.port, master, ...DURABLE)
    const proxy = await link(master)
    const store = await open(`redis://127.0.0.1:${proxy.port}`, { replicas })
    const load = submitting(store)
    await expect.poll(() => load.acknowledged.length, LONG).toBeGreaterThan(100)
    const done: string[] = []
    for (const job of await lease(store, 20))
      if ((await complete(store, job)) === 'accepted') done.push(job.id)
    // What the master takes from here on does not reach the replica, and goes with the master.
    wire.swallow()
    const before = load.acknowledged.length
    if (replicas > 0) await expect.poll(() => load.failed.length, LONG).toBeGreaterThan(0)
    else await expect.poll(() => load.acknowledged.length, LONG).toBeGreaterThan(before + 50)
    await master.kill()
    await replica.cli('replicaof', 'no', 'one')
    proxy.lead(replica.port)
    await load.stop()
    // Nothing is acknowledged before the new master has a replica of its own.
    if (replicas > 0) await replicaOf(replica)
    await available(store)
    return { store, replica, done, acknowledged: load.acknowledged }
  }

  it('loses nothing that was acknowledged with --redis-wait 1 and min-replicas-to-write 1', async () => {
    const settings = ['--min-replicas-to-write', '1']
    const { store, acknowledged, done } = await failOver({ replicas: 1, settings })
    expect(await missing(store, acknowledged)).toEqual([])
    expect(done).toHaveLength(20)
    for (const id of done) expect(await find(store, id)).toMatchObject({ status: 'COMPLETED' })
  })

  it('comes up without them too; what had not reached the replica is not there, and its id is free', async () => {
    const { store, acknowledged } = await failOver({ replicas: 0 })
    const lost = await missing(store, acknowledged)
    const { inQueue, inProgress, completed } = await store.jobs.count('ep')
    expect(inQueue + inProgress + completed).toBeGreaterThanOrEqual(acknowledged.length - lost.length)
    for (const id of lost) expect(await codeOf(submit(store, id))).toBe('ok')
    await submit(store, 'after')
    expect(await lease(store, 1)).toHaveLength(1)
  })

  it('loses what a master took while cut off from its replica, which --redis-wait does not acknowledge', async () => {
    const master = await redis(...DURABLE)
    const replica = await replicaOf(master)
    const [plain, waiting] = [await open(master.url), await open(master.url, { replicas: 1 })]
    await submit(waiting, 'replicated')
    await replica.kill()
    await submit(plain, 'unreplicated')
    await expect.poll(() => codeOf(submit(waiting, 'unacknowledged')), LONG).toBe('STORE_UNAVAILABLE')
    const refused = await submit(waiting, 'again').catch((cause: Error) => cause.message)
    expect(refused).toContain('0 of 1 replicas have what was written')
    // It may have happened, and here it did.
    expect(await find(plain, 'unacknowledged')).toBeDefined()
  })

  it('refuses writes at a master that has lost its replicas, with min-replicas-to-write', async () => {
    const master = await redis('--min-replicas-to-write', '1')
    const replica = await replicaOf(master)
    const store = await open(master.url)
    await submit(store, 'job')
    await replica.kill()
    // Until the master knows that the replica is gone it takes what comes: each try is another job.
    const tries: string[] = []
    const next = (): string => (tries.push(`job-${tries.length}`), tries.at(-1)!)
    await expect.poll(() => codeOf(submit(store, next())), LONG).toBe('STORE_UNAVAILABLE')
    expect(await find(store, 'job')).toBeDefined()
    expect(await find(store, tries.at(-1)!)).toBeUndefined()
    // Whoever asks whether the store is there is told the same.
    expect(await codeOf(store.ping())).toBe('STORE_UNAVAILABLE')
  })

  it('shows nobody a result that a failover would undo, with --redis-wait', async () => {
    const master = await redis(...DURABLE, '--min-replicas-to-write', '1')
    const wire = await link(master)
    const replica = await replicaThrough(wire.port, master, ...DURABLE)
    const address = await link(master)
    const url = `redis://127.0.0.1:${address.port}`
    const [one, other] = [await open(url, { replicas: 1 }), await open(url, { replicas: 1 })]
    await submit(one, 'job')
    const [leased] = await lease(one)
    wire.swallow()
    const settled = codeOf(complete(one, leased!))
    await expect.poll(() => master.cli('hget', 'longshore:{ep}:job:job', 'status'), LONG).toBe('COMPLETED')
    expect(await codeOf(find(other, 'job'))).toBe('STORE_UNAVAILABLE')
    expect(await settled).toBe('STORE_UNAVAILABLE')
    await master.kill()
    await replica.cli('replicaof', 'no', 'one')
    address.lead(replica.port)
    await replicaOf(replica)
    await available(one)
    expect(await find(one, 'job')).toMatchObject({ status: 'IN_PROGRESS' })
    expect(await complete(one, leased!)).toBe('accepted')
  })

  it('waits once for all that is written together', async () => {
    const master = await redis()
    await replicaOf(master)
    const store = await open(master.url, { replicas: 1 })
    await master.cli('config', 'resetstat')
    await Promise.all(Array.from({ length: 500 }, (_one, at) => submit(store, `job-${at}`)))
    const calls = /cmdstat_wait:calls=(\d+)/.exec(await master.cli('info', 'commandstats'))?.[1]
    expect(Number(calls)).toBeGreaterThan(0)
    expect(Number(calls)).toBeLessThan(100)
  })
})

describe.skipIf(isRedisMissing)('a cluster that changes', () => {
  it('goes on while slots move from node to node', { timeout: 120_000 }, async () => {
    const cluster = await startRedisCluster(3, DURABLE)
    onTestFinished(() => cluster.stop())
    const store = await open(cluster.url)
    const endpoints = await inTheFirstSlots(cluster.nodes[0]!.url, 4)
    const [watched = ''] = endpoints
    for (const endpoint of endpoints) await store.endpoints.ensureEndpoint(endpoint)
    const acknowledged: [string, string][] = []
    const failed = new Set<unknown>()
    const stopping = new AbortController()
    const ended: string[] = []
    const lanes = endpoints.map(async (endpoint) => {
      for (let at = 0; !stopping.signal.aborted; at += 1) {
        const id = `job-${endpoint}-${at}`
        const code = await codeOf(submit(store, id, { endpoint }))
        if (code === 'ok') acknowledged.push([endpoint, id])
        else failed.add(code)
        await turn()
        if (endpoint !== watched) continue
        const leased = await lease(store, 1, watched).catch(() => [])
        for (const job of leased)
          if ((await codeOf(complete(store, job, watched))) === 'ok') ended.push(job.id)
      }
    })
    const [first, second] = cluster.nodes
    const ids = await Promise.all(cluster.nodes.map((node) => node.cli('cluster', 'myid')))
    for (const [from, to] of [
      [0, 1],
      [1, 2],
      [2, 0],
    ] as const) {
      // A node gives its first slots away first.
      const slots = ['--cluster-from', ids[from]!, '--cluster-to', ids[to]!, '--cluster-slots', '150']
      await run(
        'redis-cli',
        ['--cluster', 'reshard', `127.0.0.1:${first!.port}`, ...slots, '--cluster-yes'],
        { maxBuffer: 1e8 },
      )
    }
    stopping.abort()
    await Promise.all(lanes)
    expect([...failed].filter((code) => code !== 'STORE_UNAVAILABLE')).toEqual([])
    expect(ended.length).toBeGreaterThan(0)
    for (const [endpoint, id] of acknowledged)
      expect(await store.jobs.find(endpoint, id, store.clock.now())).toBeDefined()
    for (const id of ended)
      expect(await store.jobs.find(watched, id, store.clock.now())).toMatchObject({ status: 'COMPLETED' })
    const { completed, inQueue, inProgress } = await store.jobs.count(watched)
    expect(completed).toBeGreaterThanOrEqual(ended.length)
    expect(completed + inQueue + inProgress).toBeGreaterThanOrEqual(
      acknowledged.filter(([one]) => one === watched).length,
    )
    expect(await second!.cli('cluster', 'info')).toContain('cluster_state:ok')
  })

  it('writes nothing of a script while its slot is half moved', async () => {
    const cluster = await startRedisCluster()
    onTestFinished(() => cluster.stop())
    const store = await open(cluster.url)
    for (const id of ['one', 'two']) await submit(store, id)
    const slot = await cluster.nodes[0]!.cli('cluster', 'keyslot', 'longshore:{ep}')
    const others = await Promise.all(
      cluster.nodes.map(async (node) => ({
        node,
        slots: await node.cli('cluster', 'countkeysinslot', slot),
      })),
    )
    const holds = (await cluster.nodes[0]!.cli('cluster', 'countkeysinslot', slot)) !== '0'
    const [from, to] = holds
      ? cluster.nodes
      : [others.find((one) => one.slots !== '0')!.node, cluster.nodes[0]!]
    const [source, target] = [await from!.cli('cluster', 'myid'), await to!.cli('cluster', 'myid')]
    const move = (key: string): Promise<string> =>
      from!.cli('migrate', '127.0.0.1', String(to!.port), key, '0', '5000')
    await to!.cli('cluster', 'setslot', slot, 'importing', source)
    await from!.cli('cluster', 'setslot', slot, 'migrating', target)
    for (const half of [['longshore:{ep}:job:one'], ['longshore:{ep}', 'longshore:{ep}:waiting']]) {
      for (const key of half) await move(key)
      expect(await codeOf(submit(store, 'new'))).toBe('STORE_UNAVAILABLE')
      expect(await codeOf(lease(store))).toBe('STORE_UNAVAILABLE')
      expect(await codeOf(find(store, 'one'))).toBe('STORE_UNAVAILABLE')
    }
    for (const key of (await from!.cli('cluster', 'getkeysinslot', slot, '100')).split('\n')) await move(key)
    for (const node of [to!, from!]) await node.cli('cluster', 'setslot', slot, 'node', target)
    await expect.poll(() => codeOf(find(store, 'one')), LONG).toBe('ok')
    expect(await find(store, 'new')).toBeUndefined()
    expect((await lease(store, 5)).map(({ id }) => id)).toEqual(['one', 'two'])
  })

  it('gives a unique name of the fleet once while their slot is half moved', async () => {
    const cluster = await startRedisCluster()
    onTestFinished(() => cluster.stop())
    const { templates } = (await open(cluster.url)).fleet
    const made = (id: string, name: string): Template => templateFrom({ name, imageName: 'image:1' }, id)
    for (const id of ['one', 'two']) await templates.add(made(id, id))
    const from = await slotOwner(cluster, 'longshore:{:fleet}:templates')
    const to = cluster.nodes.find((node) => node !== from)!
    await moveSlot({
      from,
      to,
      key: 'longshore:{:fleet}:templates:names',
      half: async () => {
        const tries = [
          templates.add(made('three', 'one')),
          templates.replace(made('two', 'one'), 1),
          templates.remove('one'),
        ]
        expect(await Promise.all(tries.map(codeOf))).toEqual(tries.map(() => 'STORE_UNAVAILABLE'))
      },
    })
    await expect.poll(() => codeOf(templates.list()), LONG).toBe('ok')
    expect(await templates.add(made('three', 'one'))).toBe(false)
    expect(await templates.replace(made('two', 'one'), 1)).toBe('taken')
    expect((await templates.list()).map(({ value: { name } }) => name)).toEqual(['one', 'two'])
  })

  it('says so while a master is gone, and goes on when it is back', { timeout: 60_000 }, async () => {
    const cluster = await startRedisCluster(3, [...DURABLE, '--cluster-node-timeout', '1000'])
    onTestFinished(() => cluster.stop())
    const store = await open(cluster.url)
    await submit(store, 'before')
    const owner = await slotOwner(cluster, 'longshore:{ep}')
    await owner.kill()
    expect(await codeOf(submit(store, 'meanwhile'))).toBe('STORE_UNAVAILABLE')
    expect(await codeOf(store.ping())).toBe('STORE_UNAVAILABLE')
    await owner.start()
    await available(store)
    await expect.poll(() => codeOf(submit(store, 'after')), LONG).toBe('ok')
    expect(await find(store, 'before')).toBeDefined()
  })
})

describe.skipIf(isRedisMissing)('a cluster of which one master is gone', () => {
  const keys = (names: readonly string[]): string[] => names.map((name) => `longshore:{${name}}`)

  async function withoutOne() {
    const settings = ['--cluster-node-timeout', '1000', '--cluster-require-full-coverage', 'no']
    const cluster = await startRedisCluster(3, settings)
    onTestFinished(() => cluster.stop())
    let aheadMs = 0
    const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + aheadMs }
    const store = await openRedisStore({ url: cluster.url, clock })
    onTestFinished(() => store.close())
    const key: Key = { id: 'key_1', name: 'ours', permissions: ['read'], createdAt: 0 }
    await store.keys.addKey({ ...key, hash: 'hash' })
    await store.keys.findKey('hash')
    const names = Array.from({ length: 12 }, (_one, at) => `ep-${at}`)
    for (const name of names) await store.endpoints.ensureEndpoint(name)
    const gone = await slotOwner(cluster, 'longshore:endpoints')
    const owners = await Promise.all(keys(names).map((one) => slotOwner(cluster, one)))
    const [away = '', here = ''] = [true, false].map((isGone) =>
      names.find((_name, at) => (owners[at] === gone) === isGone),
    )
    return { store, gone, away, here, cluster, pass: (ms: number) => (aheadMs += ms) }
  }

  it('does what is to be done for the endpoints of the others', { timeout: 60_000 }, async () => {
    const { store, gone, away, here, cluster } = await withoutOne()
    const events = new Facts<StoreEvent>()
    onTestFinished(store.watch((event) => events.add(event)))
    for (const endpoint of [away, here]) {
      await submit(store, 'runs', { endpoint })
      await lease(store, 1, endpoint)
      await submit(store, 'ends', { endpoint, webhook: 'https://receiver.example/' })
      await store.jobs.cancel(endpoint, 'ends', store.clock.now())
      await store.jobs.sweep(store.clock.now(), SERVED)
    }
    await gone.kill()
    await expect.poll(() => codeOf(store.jobs.count(away)), LONG).toBe('STORE_UNAVAILABLE')
    const claim = { count: 10, holdMs: 10_000, without: [], now: store.clock.now() }
    const claimed = await store.webhooks.claimDeliveries(claim)
    expect(claimed.map(({ record }) => record.endpoint)).toEqual([here])
    // What is due later where nobody answers is not known.
    expect(await codeOf(store.webhooks.nextDeliveryAt())).toBe('STORE_UNAVAILABLE')
    // Somebody who waits here is still told to look when a message is lost.
    const owner = await slotOwner(
      { ...cluster, nodes: cluster.nodes.filter((node) => node !== gone) },
      `longshore:{${here}}`,
    )
    const isMissed = (event: StoreEvent): boolean => event.kind === 'missed' && event.endpoint === here
    const before = events.all.filter(isMissed).length
    await expect
      .poll(async () => {
        await owner.cli('hincrby', `longshore:{${here}}`, 'events', '1')
        return events.all.filter(isMissed).length
      }, LONG)
      .toBeGreaterThan(before)
    const later = store.clock.now() + LEASE_MS
    expect(await codeOf(store.jobs.sweep(later, { leaseMs: LEASE_MS, servedMs: 60_000 }))).toBe(
      'STORE_UNAVAILABLE',
    )
    expect(await store.jobs.find(here, 'runs', later)).toMatchObject({ status: 'IN_QUEUE' })
  })

  it('knows the keys that were asked with for ten seconds more', { timeout: 60_000 }, async () => {
    const { store, cluster, pass } = await withoutOne()
    await (await slotOwner(cluster, 'longshore:keys')).kill()
    expect(await store.keys.findKey('hash')).toMatchObject({ id: 'key_1' })
    expect(await codeOf(store.keys.findKey('another'))).toBe('STORE_UNAVAILABLE')
    pass(10_000)
    expect(await codeOf(store.keys.findKey('hash'))).toBe('STORE_UNAVAILABLE')
  })

  it('opens nothing with a key that was revoked', async () => {
    const server = await redis()
    const [store, other] = [await open(server.url), await open(server.url)]
    for (const id of ['here', 'there']) {
      await store.keys.addKey({ id, name: id, permissions: ['read'], createdAt: 0, hash: id })
      await store.keys.findKey(id)
    }
    await store.keys.revokeKey('here')
    await other.keys.revokeKey('there')
    for (const id of ['here', 'there']) expect(await store.keys.findKey(id)).toBeUndefined()
    await server.kill()
    for (const id of ['here', 'there']) expect(await codeOf(store.keys.findKey(id))).toBe('STORE_UNAVAILABLE')
  })
})

describe.skipIf(isRedisMissing)('a cluster of which an answer is lost', () => {
  it('is asked nothing a second time', async () => {
    const server = await startClusterOfOne()
    onTestFinished(() => server.stop())
    const proxy = await link(server)
    await server.announce(proxy.port)
    const store = await open(`redis+cluster://127.0.0.1:${proxy.port}`)
    for (const id of ['one', 'two', 'three']) await submit(store, id)
    const asked = async (ask: () => Promise<unknown>): Promise<void> => {
      proxy.loseAnswer('evalsha')
      const before = proxy.lost
      expect(await codeOf(ask())).toBe('STORE_UNAVAILABLE')
      expect(proxy.lost).toBe(before + 1)
      await available(store)
    }
    await asked(() => lease(store))
    expect(await store.jobs.count('ep')).toMatchObject({ inQueue: 2, inProgress: 1 })
    const fence = { endpoint: 'ep', id: 'one', worker: 'w' }
    const chunks = [{ output: Buffer.from('1') }]
    await asked(() => store.jobs.appendChunks(fence, { chunks, now: store.clock.now() }))
    const read = { after: 0, maxBytes: 1000, now: store.clock.now() }
    expect(await store.jobs.readChunks('ep', 'one', read)).toMatchObject({ lastIndex: 1 })
    const error = { type: 'Error', message: 'm', code: 'HANDLER_ERROR' } as const
    await asked(() => store.jobs.settle(fence, { event: 'fail', error }, { now: store.clock.now() }))
    expect(await find(store, 'one')).toMatchObject({ status: 'FAILED' })
    await asked(() => store.jobs.retry('ep', 'one', store.clock.now()))
    expect(await store.jobs.count('ep')).toMatchObject({ inQueue: 3, retried: 1 })
  })
})

describe.skipIf(isRedisMissing)('the messages of a cluster', () => {
  async function ofOne() {
    const server = await startClusterOfOne()
    onTestFinished(() => server.stop())
    const proxy = await link(server)
    await server.announce(proxy.port)
    const url = `redis+cluster://127.0.0.1:${proxy.port}`
    return { server, proxy, url, store: await open(url) }
  }

  it('come again when the connection they came on leads nowhere', async () => {
    const { proxy, url, store } = await ofOne()
    proxy.swallowSubscribed()
    const other = await open(url)
    const events = new Facts<StoreEvent>()
    onTestFinished(store.watch((event) => events.add(event)))
    let at = 0
    await expect
      .poll(async () => {
        await codeOf(submit(other, `job-${(at += 1)}`))
        return events.all.some(({ kind }) => kind === 'queued')
      }, LONG)
      .toBe(true)
  })

  it('are waited for without a warning while no node is there', async () => {
    const { server, proxy } = await ofOne()
    const warnings: Error[] = []
    const listen = (warning: Error): void => void warnings.push(warning)
    process.on('warning', listen)
    onTestFinished(() => void process.off('warning', listen))
    await server.kill()
    const before = proxy.connections
    await expect.poll(() => proxy.connections - before, LONG).toBeGreaterThan(12)
    expect(warnings).toEqual([])
  })
})

describe.skipIf(isRedisMissing)('a cluster with replicas', () => {
  it('goes on by itself at the replica that takes over', { timeout: 60_000 }, async () => {
    const settings = [...DURABLE, '--cluster-node-timeout', '1000']
    const cluster = await startRedisCluster(3, settings, 1)
    onTestFinished(() => cluster.stop())
    const store = await open(cluster.url)
    await submit(store, 'before')
    const owner = await slotOwner(cluster, 'longshore:{ep}')
    await expect.poll(() => owner.cli('wait', '1', '1000'), LONG).toBe('1')
    await owner.kill()
    expect(await codeOf(submit(store, 'meanwhile'))).toBe('STORE_UNAVAILABLE')
    await expect.poll(() => codeOf(submit(store, 'after')), LONG).toBe('ok')
    await available(store)
    expect((await lease(store, 9)).map(({ id }) => id)).toContain('before')
  })
})

describe.skipIf(isRedisMissing)('what is checked at start', () => {
  const refusal = (url: string, options = {}): Promise<{ code: string; message: string }> =>
    openStore(url, options).then(
      () => ({ code: 'ok', message: '' }),
      ({ code, message }: { code: string; message: string }) => ({ code, message }),
    )

  it('refuses a server that evicts keys, with the mend', async () => {
    const server = await redis('--maxmemory-policy', 'allkeys-lru')
    const { code, message } = await refusal(server.url)
    expect(code).toBe('STORE_MISCONFIGURED')
    expect(message).toContain('CONFIG SET maxmemory-policy noeviction')
    await server.cli('config', 'set', 'maxmemory-policy', 'noeviction')
    await open(server.url)
  })

  it('refuses to wait for replicas that there are not, in a cluster, or with a file', async () => {
    const server = await redis()
    expect(await refusal(server.url, { replicas: 1 })).toMatchObject({ code: 'STORE_MISCONFIGURED' })
    for (const url of ['redis+cluster://127.0.0.1:1', 'sqlite::memory:'])
      expect(await refusal(url, { replicas: 1 })).toMatchObject({
        code: 'STORE_MISCONFIGURED',
        message: expect.stringContaining('--redis-wait') as string,
      })
  })

  it('names the nodes of a cluster that cannot be reached, and why', async () => {
    const opening = openStore('redis+cluster://127.0.0.1:1,127.0.0.1:2')
    await expect(opening).rejects.toThrow(
      /cannot be reached: (?=.*127\.0\.0\.1:1 does not answer: .*ECONNREFUSED)(?=.*127\.0\.0\.1:2 does not answer: .*ECONNREFUSED)/,
    )
  })

  it('tells a password to nobody', async () => {
    const password = 'p@ss/w:rd'
    const server = await redis('--requirepass', password)
    const at = (secret: string): string => `redis://:${secret}@127.0.0.1:${server.port}`
    await open(at(encodeURIComponent(password)))
    const cluster = `redis+cluster://:wr@ng@127.0.0.1:${server.port}`
    const asHost = `redis://wr@ng/x@127.0.0.1:${server.port}`
    for (const url of [at('wr@ng'), at('wr%40ng/'), `redis://127.0.0.1:1?password=wr@ng`, cluster, asHost]) {
      const { code, message } = await refusal(url)
      expect(code).toBe('STORE_UNREADABLE')
      expect(message).not.toMatch(/wr(@|%40)?ng/)
    }
    const connection = await Connection.open({ url: at(encodeURIComponent(password)) })
    onTestFinished(() => connection.close())
    const cause = await connection.call('set', 'key', 'secret', 'extra').catch((error: unknown) => error)
    expect(JSON.stringify(cause, Object.getOwnPropertyNames(cause))).not.toContain('secret')
  })

  it('refuses a database that there is not, and takes one that there is', async () => {
    const server = await redis()
    expect(await refusal(`${server.url}/99`)).toMatchObject({
      code: 'STORE_UNREADABLE',
      message: expect.stringMatching(/DB index is out of range|no database 99/) as string,
    })
    expect(await refusal(`${server.url}/abc`)).toMatchObject({ code: 'STORE_UNREADABLE' })
    await open(`${server.url}/5`)
    expect(await server.cli('info', 'keyspace')).toContain('db5:')
  })

  it('refuses options behind the address that would be taken unsaid', async () => {
    const server = await redis()
    for (const option of ['db=77', 'family=5', 'family=4&commandTimeout=1', 'x'])
      expect(await refusal(`${server.url}/0?${option}`)).toEqual({
        code: 'STORE_UNREADABLE',
        message: `The address ${server.url}/0 has options behind its ?, of which only family=4 or family=6 is taken here. Leave them out; the database is the number of the path, as in redis://<host>:<port>/0.`,
      })
    expect(await refusal('redis+cluster://127.0.0.1:1/3')).toMatchObject({
      code: 'STORE_UNREADABLE',
      message: expect.stringContaining('names a database') as string,
    })
    for (const kind of ['cluster', 'sentinel'])
      expect(await refusal(`redis+${kind}://127.0.0.1:1/name?family=4`)).toMatchObject({
        code: 'STORE_UNREADABLE',
        message: expect.stringContaining('of which none is taken') as string,
      })
    await open(`${server.url}/0?family=4`)
  })

  it('speaks TLS to rediss, and trusts no certificate that nobody vouches for', async () => {
    const dir = temporaryDir()
    const [key, cert] = [join(dir, 'key.pem'), join(dir, 'cert.pem')]
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost']
    await run('openssl', [
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-days',
      '2',
      '-keyout',
      key,
      '-out',
      cert,
      ...subject,
    ])
    const plain = await redis()
    const port = plain.port
    await plain.kill()
    const tls = [
      '--tls-port',
      String(port),
      '--tls-cert-file',
      cert,
      '--tls-key-file',
      key,
      '--tls-ca-cert-file',
      cert,
      '--tls-auth-clients',
      'no',
    ]
    await redis(...tls)
    expect(await refusal(`rediss://127.0.0.1:${port}`)).toMatchObject({ code: 'STORE_UNREADABLE' })
    const script = `import { openStore } from '${new URL('../../src/store/open-store.ts', import.meta.url).href}'
      const store = await openStore('rediss://127.0.0.1:${port}'); await store.ping(); await store.close()`
    await run(process.execPath, ['--input-type=module', '-e', script], {
      env: { ...process.env, NODE_EXTRA_CA_CERTS: cert },
    })
  })
})
