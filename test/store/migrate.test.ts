import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { policySchema } from '../../src/job/job.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { Fence, LeasedJob, NewJob, Store } from '../../src/store/store.ts'
import { longshore, temporaryDir, type Process } from '../support/processes.ts'
import { isRedisMissing, startRedis, type RedisServer } from '../support/redis.ts'

const LEASE_MS = 60_000
const ERROR = { type: 'Error', message: 'no', code: 'HANDLER_ERROR' }
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
  await store.keys.addKey({
    hash: 'hash',
    id: 'key_1',
    name: 'one',
    permissions: ['read'],
    endpoints: ['ep'],
    createdAt: 1,
  })
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
      expect(moving.stdout).toContain('Moved 7 jobs')
      expect(moving.stdout).toMatch(/2 of them have a sealed s3Config.*LONGSHORE_SECRET_KEY.*\.key file/)

      const [before, after] = [await open(file), await open(server.url)]
      expect(await told(after)).toEqual(await told(before))
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
      expect(again.stderr).toContain("has 7 jobs of the endpoint 'ep' already")
      expect(await migrate(server.url, file).exit).toBe(1)
      expect(await migrate('sqlite:nowhere/none.db', server.url).exit).toBe(1)
    },
  )

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
      await expect(openStore(server.url)).rejects.toThrow('longshore migrate is under way, or was broken off')
      expect(await migrate(file, server.url).exit).toBe(0)
      const store = await open(server.url)
      expect(await store.jobs.count('ep')).toMatchObject({ inQueue: 3 })
      expect(await server.cli('exists', 'longshore:{ep}:job:half')).toBe('0')
    },
  )
})
