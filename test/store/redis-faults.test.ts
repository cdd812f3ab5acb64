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
import { Connection } from '../../src/store/redis/connection.ts'
import type { LeasedJob, Store, StoreEvent } from '../../src/store/store.ts'
import { temporaryDir } from '../support/processes.ts'
import { Facts } from '../support/facts.ts'
import { DURABLE, isRedisMissing, startRedis, startRedisCluster, type RedisServer } from '../support/redis.ts'
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
  const replica = await redis(
    '--replicaof',
    `127.0.0.1 ${port}`,
    '--repl-diskless-sync-delay',
    '0',
    ...settings,
  )
  await expect.poll(() => replica.cli('info', 'replication'), LONG).toContain('master_link_status:up')
  await expect.poll(() => master.cli('info', 'replication'), LONG).toContain('state=online')
  return replica
}

async function link(server: RedisServer): Promise<SwitchedLink> {
  const made = await switchedLink(server.port)
  onTestFinished(() => made.close())
  return made
}

async function open(url: string, options: { replicas?: number } = {}): Promise<Store> {
  const store = await openStore(url, options)
  onTestFinished(() => store.close())
  await store.endpoints.ensureEndpoint('ep')
  return store
}

function submit(store: Store, id: string, { bytes = 10, endpoint = 'ep' } = {}): Promise<unknown> {
  return store.jobs.enqueue({
    endpoint,
    id,
    input: Buffer.from(JSON.stringify('x'.repeat(bytes))),
    policy: policySchema.parse({}),
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
    expect(await store.jobs.extend('ep', [stays!], store.clock.now() + LEASE_MS)).toEqual(new Set())
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
    await expect.poll(() => codeOf(submit(store, 'other')), LONG).toBe('STORE_UNAVAILABLE')
    expect(await find(store, 'job')).toBeDefined()
    expect(await find(store, 'other')).toBeUndefined()
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

  it('says so while a master is gone, and goes on when it is back', { timeout: 60_000 }, async () => {
    const cluster = await startRedisCluster(3, [...DURABLE, '--cluster-node-timeout', '1000'])
    onTestFinished(() => cluster.stop())
    const store = await open(cluster.url)
    await submit(store, 'before')
    const slot = await cluster.nodes[0]!.cli('cluster', 'keyslot', 'longshore:{ep}')
    const counts = await Promise.all(
      cluster.nodes.map((node) => node.cli('cluster', 'countkeysinslot', slot)),
    )
    const owner = cluster.nodes[counts.findIndex((count) => count !== '0')]!
    await owner.kill()
    expect(await codeOf(submit(store, 'meanwhile'))).toBe('STORE_UNAVAILABLE')
    expect(await codeOf(store.ping())).toBe('STORE_UNAVAILABLE')
    await owner.start()
    await available(store)
    await expect.poll(() => codeOf(submit(store, 'after')), LONG).toBe('ok')
    expect(await find(store, 'before')).toBeDefined()
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

  it('tells a password to nobody', async () => {
    const password = 'p@ss/w:rd'
    const server = await redis('--requirepass', password)
    const at = (secret: string): string => `redis://:${secret}@127.0.0.1:${server.port}`
    await open(at(encodeURIComponent(password)))
    for (const url of [at('wr@ng'), at('wr%40ng/'), `redis://127.0.0.1:1?password=wr@ng`]) {
      const { code, message } = await refusal(url)
      expect(code).toBe('STORE_UNREADABLE')
      expect(message).not.toMatch(/wr(@|%40)?ng/)
    }
    const connection = await Connection.open({ url: at(encodeURIComponent(password)) })
    onTestFinished(() => connection.close())
    const cause = await connection.call('set', 'key', 'secret', 'extra').catch((error: unknown) => error)
    expect(JSON.stringify(cause, Object.getOwnPropertyNames(cause))).not.toContain('secret')
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
