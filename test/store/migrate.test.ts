import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { policySchema } from '../../src/job/job.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { endpointFrom } from '../../src/resource/endpoint.ts'
import { templateFrom } from '../../src/resource/template.ts'
import type { QueueTarget } from '../../src/store/moved.ts'
import { openKeys, openStore } from '../../src/store/open-store.ts'
import { openRedisTarget } from '../../src/store/redis/import.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { Fence, LeasedJob, NewJob } from '../../src/store/job-store.ts'
import type { Store } from '../../src/store/store.ts'
import { longshore, serve, temporaryDir, type Process } from '../support/processes.ts'
import { isRedisMissing, startRedis, startRedisCluster, type RedisServer } from '../support/redis.ts'

const LEASE_MS = 60_000
const ERROR = { type: 'Error', message: 'no', code: 'HANDLER_ERROR' }
const KEY_ROW = {
  hash: 'hash',
  id: 'key_1',
  name: 'one',
  permissions: ['read'],
  endpoints: ['ep'],
  createdAt: 1,
} satisfies Parameters<Store['keys']['addKey']>[0]
const TEMPLATE = templateFrom({ name: 'named', imageName: 'image:1' }, 'tpl_1')
const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))

async function redis(): Promise<RedisServer> {
  const server = await startRedis()
  onTestFinished(() => server.stop())
  return server
}

async function open(url: string): Promise<Store> {
  const store = await openStore(url)
  onTestFinished(() => store.close())
  return store
}

const submit = (store: Store, id: string, more: Partial<NewJob> = {}): Promise<unknown> =>
  store.jobs.enqueue({
    endpoint: 'ep',
    id,
    input: json({ id }),
    policy: policySchema.parse({ lowPriority: true, executionTimeout: 7_000 }),
    retentionMs: 600_000,
    now: Date.now(),
    ...more,
  })

const fence = ({ id, lease }: LeasedJob): Fence => ({ endpoint: 'ep', id, lease })

async function leaseOne(store: Store): Promise<LeasedJob> {
  const [job] = await store.jobs.lease({
    endpoint: 'ep',
    worker: 'w',
    count: 1,
    leaseMs: LEASE_MS,
    now: Date.now(),
  })
  await store.jobs.start(fence(job!), { agoMs: 0, graceMs: 5_000, leaseMs: LEASE_MS, now: Date.now() })
  return job!
}

async function fill(url: string): Promise<void> {
  const store = await openStore(url)
  await store.endpoints.ensureEndpoint('ep')
  await store.endpoints.ensureEndpoint('empty')
  await store.keys.addKey(KEY_ROW)
  const now = Date.now()
  await submit(store, 'completed', {
    webhook: 'http://127.0.0.1:1/hook',
    trace: { traceparent: '00-a-b-01' },
  })
  const job = await leaseOne(store)
  const chunks = [
    { output: json(['a']), metrics: '{"n":1}', part: { as: 'array' as const, back: 0, last: false } },
    { output: json(['b']), part: { as: 'array' as const, back: 1, last: true } },
    { output: json('c') },
  ]
  await store.jobs.appendChunks(fence(job), { chunks, now })
  await store.jobs.markRead('ep', 'completed', 1)
  await store.jobs.settle(
    fence(job),
    { event: 'complete', output: json({ big: 1 }) },
    { now, executionMs: 12 },
  )
  await submit(store, 'failed', {
    sealedS3Config: Buffer.from('sealed'),
    idempotency: { key: 'k', bodyHash: 'h' },
  })
  await store.jobs.settle(
    fence(await leaseOne(store)),
    { event: 'fail', error: ERROR, errorText: 'no' },
    { now },
  )
  await submit(store, 'timed-out')
  await store.jobs.settle(fence(await leaseOne(store)), { event: 'timeOut', error: ERROR }, { now })
  await submit(store, 'cancelled')
  await store.jobs.cancel('ep', 'cancelled', now)
  await submit(store, 'running')
  await store.jobs.appendChunks(fence(await leaseOne(store)), { chunks: [{ output: json(1) }], now })
  await submit(store, 'first', { sealedS3Config: Buffer.from('sealed too') })
  await submit(store, 'second')
  await submit(store, 'normal', { policy: policySchema.parse({}) })
  await store.jobs.cancel('ep', 'normal', now)
  await store.fleet.templates.add(TEMPLATE)
  await store.fleet.templates.replace({ ...TEMPLATE, readme: '# 2' }, 1)
  await store.fleet.endpoints.add(endpointFrom({ templateId: TEMPLATE.id }, { id: 'ep', createdAt: 'now' }))
  await store.close()
}

const IDS = ['completed', 'failed', 'timed-out', 'cancelled', 'first', 'second']

async function told(store: Store): Promise<unknown> {
  const at = Date.now() + 1_000
  const streams = IDS.map((id) => store.jobs.readChunks('ep', id, { after: 0, maxBytes: 1e6, now: at }))
  return {
    records: (await Promise.all(IDS.map((id) => store.jobs.find('ep', id, at)))).map((record) => ({
      ...record,
      // They go on while it waits.
      delayTime: record?.status === 'IN_QUEUE' ? 0 : record?.delayTime,
      output: record?.output && Buffer.from(record.output).toString(),
    })),
    streams: (await Promise.all(streams)).map((read) =>
      read.kind === 'gone'
        ? read
        : {
            ...read,
            chunks: read.chunks.map((one) => ({ ...one, output: Buffer.from(one.output).toString() })),
          },
    ),
    unread: await store.jobs
      .readChunks('ep', 'completed', { maxBytes: 1e6, now: at })
      .then((read) => read.kind === 'read' && read.chunks.length),
    list: (await store.jobs.list('ep', { count: 50, now: at })).jobs.map(({ id, endedAt }) => ({
      id,
      endedAt,
    })),
    keys: [await store.keys.listKeys(), await store.keys.findKey('hash')],
    endpoints: await store.endpoints.listEndpoints(),
    due: await store.webhooks.nextDeliveryAt(),
    load: { ...(await store.jobs.load('ep', at)), oldestWaitMs: 0 },
    fleet: [await store.fleet.templates.list(), await store.fleet.endpoints.list()],
  }
}

const migrate = (from: string, to: string): Process => longshore(['migrate', '--from', from, '--to', to])

describe.skipIf(isRedisMissing)('a queue that moves from a file to Redis', () => {
  it(
    'is the same there: jobs of every status, counters, keys, deliveries, places in line',
    { timeout: 60_000 },
    async () => {
      const file = `sqlite:${join(temporaryDir(), 'queue.db')}`
      const server = await redis()
      await fill(file)
      const moving = migrate(file, server.url)
      expect(await moving.exit).toBe(0)
      expect(moving.stdout).toContain('Moved 8 jobs')
      expect(moving.stdout).toMatch(/2 of them have a sealed s3Config.*LONGSHORE_SECRET_KEY.*\.key file/)

      const [before, after] = [await open(file), await open(server.url)]
      expect(await told(after)).toEqual(await told(before))
      expect(await after.fleet.templates.add({ ...TEMPLATE, id: 'tpl_2' })).toBe(false)
      expect(await after.jobs.load('ep', Date.now())).toMatchObject({ waitingLowPriority: 3, arrived: 1 })
      expect(await after.jobs.count('ep')).toEqual({
        completed: 1,
        failed: 2,
        retried: 0,
        inQueue: 3,
        inProgress: 0,
      })
      expect(await after.jobs.count('ep')).toEqual(await before.jobs.count('ep'))

      const now = Date.now()
      const repeat = { idempotency: { key: 'k', bodyHash: 'h' } }
      expect(await submit(after, 'other', repeat)).toEqual({
        kind: 'duplicate',
        id: 'failed',
        status: 'FAILED',
      })
      expect(await submit(after, 'later')).toMatchObject({ kind: 'created' })
      const [delivery] = await after.webhooks.claimDeliveries({ count: 9, holdMs: 1, without: [], now })
      expect(delivery).toMatchObject({
        url: 'http://127.0.0.1:1/hook',
        attempt: 1,
        record: { id: 'completed', status: 'COMPLETED' },
      })
      await after.jobs.retry('ep', 'failed', now)
      // Who was leased is first in line, as on its first attempt; a retry is last, with the secrets it came with.
      const leased = await after.jobs.lease({ endpoint: 'ep', worker: 'w', count: 9, leaseMs: LEASE_MS, now })
      expect(leased.map(({ id, attempt }) => `${id} ${attempt}`)).toEqual([
        'running 1',
        'first 1',
        'second 1',
        'later 1',
        'failed 1',
      ])
      expect(leased.map(({ sealedS3Config: sealed }) => sealed && Buffer.from(sealed).toString())).toEqual([
        undefined,
        'sealed too',
        undefined,
        undefined,
        'sealed',
      ])
      expect(leased[0]).toMatchObject({ executionTimeoutMs: 7_000, policy: { lowPriority: true } })
      expect((await after.jobs.list('ep', { count: 1, now })).jobs[0]).toMatchObject({ id: 'later' })
      await after.jobs.sweep(now + 700_000, { leaseMs: LEASE_MS, servedMs: 1e9 })
      expect(await after.jobs.find('ep', 'completed', now)).toBeUndefined()
    },
  )

  it(
    'refuses a queue that is served, a store that has jobs, and other directions',
    { timeout: 60_000 },
    async () => {
      const file = `sqlite:${join(temporaryDir(), 'queue.db')}`
      const server = await redis()
      await fill(file)
      const running = await openStore(file)
      const refused = migrate(file, server.url)
      expect(await refused.exit).toBe(1)
      expect(refused.stderr).toMatch(/in use by process \d+.*STORE_IN_USE/)
      await running.close()
      expect(await migrate(file, server.url).exit).toBe(0)
      const again = migrate(file, server.url)
      expect(await again.exit).toBe(1)
      expect(again.stderr).toContain("has had jobs of the endpoint 'ep' already")
      expect(await migrate(server.url, file).exit).toBe(1)
      // Its jobs are gone, and their counters and a delivery are left.
      const used = await redis()
      const forgotten = await openStore(used.url)
      await forgotten.endpoints.ensureEndpoint('ep')
      await submit(forgotten, 'old', { webhook: 'http://127.0.0.1:1/old' })
      await forgotten.jobs.cancel('ep', 'old', Date.now())
      await forgotten.jobs.sweep(Date.now() + 9e8, { leaseMs: LEASE_MS, servedMs: 1e9 })
      await forgotten.close()
      expect(await migrate(file, used.url).exit).toBe(1)
      const other = await redis()
      const serving = await serve({ store: other.url })
      const served = migrate(file, other.url)
      expect(await served.exit).toBe(1)
      expect(served.stderr).toContain('is being served')
      await serving.kill('SIGTERM')
      expect(await migrate(file, other.url).exit).toBe(0)
      expect(await migrate('sqlite:nowhere/none.db', server.url).exit).toBe(1)
    },
  )

  it('writes nothing where its user may not do all that a server does', async () => {
    const file = `sqlite:${join(temporaryDir(), 'queue.db')}`
    const server = await redis()
    await fill(file)
    await server.cli('acl', 'setuser', 'limited', 'on', '>word', '~*', '&*', '+@all', '-zrange')
    const refused = migrate(file, server.url.replace('//', '//limited:word@'))
    expect(await refused.exit).toBe(1)
    expect(refused.stderr).toMatch(/NOPERM.*\bzrange\b.*ACL SETUSER/)
    expect(await server.cli('dbsize')).toBe('0')
    expect(await migrate(file, server.url).exit).toBe(0)
  })

  it(
    'begins anew after it was broken off, and is not served before it is whole',
    { timeout: 60_000 },
    async () => {
      const file = `sqlite:${join(temporaryDir(), 'queue.db')}`
      const server = await redis()
      await fill(file)
      await server.cli('set', 'longshore:moving', '1')
      await server.cli('hset', 'longshore:{ep}:job:half', 'status', 'IN_QUEUE')
      await server.cli('zadd', 'longshore:{ep}:waiting', '1', 'half')
      await expect(openStore(server.url)).rejects.toThrow(/longshore migrate (is under way|was broken off)/)
      expect(await migrate(file, server.url).exit).toBe(0)
      const store = await open(server.url)
      expect(await store.jobs.count('ep')).toMatchObject({ inQueue: 3 })
      expect(await server.cli('exists', 'longshore:{ep}:job:half')).toBe('0')
    },
  )

  it('is whole after a move that was killed half-way and run again', { timeout: 60_000 }, async () => {
    const file = `sqlite:${join(temporaryDir(), 'queue.db')}`
    const source = await openStore(file)
    await source.endpoints.ensureEndpoint('ep')
    await source.keys.addKey(KEY_ROW)
    const ids = Array.from({ length: 3_000 }, (_one, at) => `job-${at}`)
    await Promise.all(ids.map((id) => submit(source, id, { input: json('x'.repeat(2_000)) })))
    await source.close()
    const server = await redis()
    const size = async (): Promise<number> => Number(await server.cli('dbsize'))
    const killed = migrate(file, server.url)
    await expect.poll(size, { timeout: 20_000, interval: 1 }).toBeGreaterThan(100)
    killed.child.kill('SIGKILL')
    await killed.exit
    const half = await size()
    expect(half).toBeLessThan(2 * ids.length)
    // What is ended in the file meanwhile stays so.
    const early = await openKeys(file)
    await early.keys.revokeKey('key_1')
    await early.close()
    await expect(openStore(server.url)).rejects.toThrow(/longshore migrate (is under way|was broken off)/)
    expect(await migrate(file, server.url).exit).toBe(0)
    const store = await open(server.url)
    expect(await store.jobs.count('ep')).toMatchObject({ inQueue: ids.length })
    expect(await store.keys.listKeys()).toEqual([])
    const now = Date.now()
    const leased = await store.jobs.lease({
      endpoint: 'ep',
      worker: 'w',
      count: 5_000,
      leaseMs: LEASE_MS,
      now,
    })
    expect(leased.map(({ id }) => id)).toEqual(ids)
    expect(leased.every(({ input }) => input.byteLength === 2_002)).toBe(true)
  })

  it('that is broken off before it begins leaves a Redis as it was', { timeout: 60_000 }, async () => {
    const file = `sqlite:${join(temporaryDir(), 'queue.db')}`
    await fill(file)
    const server = await redis()
    const serving = await serve({ store: server.url })
    const broken = migrate(file, server.url)
    await expect
      .poll(() => server.cli('exists', 'longshore:mover'), { timeout: 20_000, interval: 5 })
      .toBe('1')
    broken.child.kill('SIGKILL')
    await broken.exit
    const { id } = await serving.client.run({ input: {} })
    await serving.kill('SIGTERM')
    const again = migrate(file, server.url)
    expect(await again.exit).toBe(1)
    expect(again.stderr).toContain("has had jobs of the endpoint 'default' already")
    const after = await serve({ store: server.url })
    expect((await after.client.status(id)).status).toBe('IN_QUEUE')
  })

  it('takes nothing from a server that was silent when the move began', { timeout: 60_000 }, async () => {
    const server = await redis()
    // Gives no sign of itself after the first, as a server that is stopped, and can still be asked.
    const clock = { ...systemClock, after: () => ({ clear: () => undefined }) }
    const silent = await openRedisStore({ url: server.url, clock })
    onTestFinished(() => silent.close())
    await silent.endpoints.ensureEndpoint('ep')
    const isTaken = (id: string): Promise<boolean> =>
      submit(silent, id).then(
        () => true,
        ({ code }: { code: string }) => (expect(code).toBe('STORE_UNAVAILABLE'), false),
      )
    const begin = async (): Promise<QueueTarget> => {
      await server.cli('del', 'longshore:servers')
      return openRedisTarget(server.url)
    }
    const template = templateFrom({ name: 'one', imageName: 'image:1' }, 'one')
    // Broken off, and begun anew, which removes what is there.
    await (await begin()).close()
    for (let times = 0; times < 2; times += 1) {
      expect(await isTaken('early')).toBe(false)
      await expect(silent.ping()).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
      await expect(silent.fleet.templates.add(template)).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
      const target = await begin()
      expect(await isTaken('early')).toBe(false)
      await target.close()
    }
    const target = await begin()
    const counters = { completed: 0, failed: 0, retried: 0, arrived: 0 }
    await target.addEndpoint({ id: 'ep', executionTimeoutMs: 600_000, maxAttempts: 2, ...counters })
    expect(await isTaken('early')).toBe(false)
    await target.finish()
    await target.close()
    expect(await isTaken('late')).toBe(true)
    await silent.ping(['ep'])
    expect(await silent.fleet.templates.add(template)).toBe(true)
    // And where there were jobs the refused move leaves everything as it was.
    await expect(begin()).rejects.toMatchObject({ code: 'STORE_IN_USE' })
    expect(await isTaken('later')).toBe(true)
    expect(await silent.jobs.count('ep')).toMatchObject({ inQueue: 2 })
  })

  it('is done by one at a time, also when one stood still meanwhile', { timeout: 60_000 }, async () => {
    const files = ['one', 'two'].map((name) => `sqlite:${join(temporaryDir(), `${name}.db`)}`)
    for (const file of files) {
      const source = await openStore(file)
      await source.endpoints.ensureEndpoint('ep')
      const ids = Array.from({ length: 3_000 }, (_one, at) => `${file.slice(-6, -3)}-${at}`)
      await Promise.all(ids.map((id) => submit(source, id, { input: json('x'.repeat(2_000)) })))
      await source.close()
    }
    const [first = '', second = ''] = files
    const server = await redis()
    const size = async (): Promise<number> => Number(await server.cli('dbsize'))
    const stopped = migrate(first, server.url)
    await expect.poll(size, { timeout: 20_000, interval: 1 }).toBeGreaterThan(100)
    stopped.child.kill('SIGSTOP')
    // It waits for the right of the one that stands still to end.
    expect(await migrate(second, server.url).exit).toBe(0)
    stopped.child.kill('SIGCONT')
    expect(await stopped.exit).toBe(1)
    // Or its connection is gone by then, which ends it as well.
    expect(stopped.stderr).toMatch(/was taken over by another longshore migrate|STORE_UNAVAILABLE/)
    const store = await open(server.url)
    expect(await store.jobs.count('ep')).toMatchObject({ inQueue: 3_000 })
    const { jobs } = await store.jobs.list('ep', { count: 1, now: Date.now() })
    expect(jobs[0]?.id).toMatch(/^two-/)
  })

  it('makes an endpoint anew that was removed there', { timeout: 60_000 }, async () => {
    const file = `sqlite:${join(temporaryDir(), 'queue.db')}`
    await fill(file)
    const server = await redis()
    const former = await openStore(server.url)
    await former.endpoints.ensureEndpoint('ep')
    await former.endpoints.removeEndpoint('ep')
    await former.close()
    expect(await migrate(file, server.url).exit).toBe(0)
    const store = await open(server.url)
    expect(await store.endpoints.findEndpoint('ep')).toMatchObject({ id: 'ep' })
    expect(await store.endpoints.ensureEndpoint('ep')).toBe(false)
    expect(await store.jobs.count('ep')).toMatchObject({ inQueue: 3 })
    expect(await submit(store, 'later')).toMatchObject({ kind: 'created' })
    expect(await store.jobs.find('ep', 'later', Date.now())).toMatchObject({ status: 'IN_QUEUE' })
  })

  it('is refused where a fleet has records, and leaves them', { timeout: 60_000 }, async () => {
    const server = await redis()
    const former = await open(server.url)
    await former.fleet.registryAuths.add({ id: 'auth', name: 'one', username: 'u', sealedPassword: 'p' })
    await server.cli('del', 'longshore:servers')
    await expect(openRedisTarget(server.url)).rejects.toMatchObject({
      code: 'STORE_IN_USE',
      message: expect.stringContaining('records of a fleet already (registryAuths: 1)') as unknown,
    })
    expect(await former.fleet.registryAuths.find('auth')).toMatchObject({ value: { name: 'one' } })
  })

  it('leaves no standstill of another queue whose move was broken off', { timeout: 60_000 }, async () => {
    const server = await redis()
    const counters = { completed: 0, failed: 0, retried: 0, arrived: 0 }
    const endpoint = { executionTimeoutMs: 600_000, maxAttempts: 2, ...counters }
    // As it is before the last of its endpoints is named.
    await (await openRedisTarget(server.url)).close()
    await server.cli('set', 'longshore:{other}:moving', '1')
    const target = await openRedisTarget(server.url)
    await target.addEndpoint({ id: 'ep', ...endpoint })
    await target.finish()
    await target.close()
    const store = await open(server.url)
    await store.endpoints.ensureEndpoint('other')
    expect(await submit(store, 'job', { endpoint: 'other' })).toMatchObject({ kind: 'created' })
    expect(await server.cli('keys', '*:moving')).toBe('')
  })

  it('goes to a cluster too', { timeout: 60_000 }, async () => {
    const file = `sqlite:${join(temporaryDir(), 'queue.db')}`
    await fill(file)
    const cluster = await startRedisCluster()
    onTestFinished(() => cluster.stop())
    expect(await migrate(file, cluster.url).exit).toBe(0)
    expect(await told(await open(cluster.url))).toEqual(await told(await open(file)))
  })
})
