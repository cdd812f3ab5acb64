// What whoever starts workers is told of them, and what becomes of one that it orders to leave.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import {
  decodeExchange,
  encodeExchange,
  exchangeRequestSchema,
  type ExchangeAnswer,
  type ExchangeRequest,
} from '../../src/protocol/exchange.ts'
import type { Workforce } from '../../src/fleet/service/workforce.ts'
import { Service } from '../../src/queue/service.ts'
import { Workers } from '../../src/queue/workers.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { Presence, PresenceStore } from '../../src/store/traffic.ts'

const ENDPOINT = 'default'
const LEASE_MS = 20_000
const DONE = [Buffer.from('null')]

let store: Store
let service: Service & { workforce: Workforce }
const errors: unknown[] = []

beforeEach(async () => {
  store = openSqliteStore({ file: ':memory:' })
  await store.endpoints.ensureEndpoint(ENDPOINT)
  const noop = (): void => undefined
  service = new Service({
    store,
    clock: systemClock,
    leaseMs: LEASE_MS,
    telemetry: { leased: noop, ran: noop, webhook: noop },
    onRetired: noop,
    onError: (cause) => errors.push(cause),
  })
})
afterEach(async () => {
  await service.close()
  await store.close()
  expect(errors.splice(0)).toEqual([])
})

/** All that waits for no answer of anybody has gone on by then. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
const gone = new AbortController().signal
let seq = 0

async function say(
  message: Partial<ExchangeRequest> = {},
  { worker = 'w1', session = 's1', payloads = [] as Uint8Array[] } = {},
): Promise<ExchangeAnswer> {
  const request: ExchangeRequest = {
    session,
    seq: (seq += 1),
    want: 0,
    held: [],
    started: [],
    chunks: [],
    progress: [],
    ended: [],
    ...message,
  }
  const body = decodeExchange(encodeExchange(request, payloads), exchangeRequestSchema)
  return (await service.dispatch.exchange(ENDPOINT, worker, body.head, body.payloads, gone)).head
}

let made = 0
async function submit(lowPriority = false): Promise<string> {
  const id = `job-${(made += 1)}`
  await store.jobs.enqueue({
    endpoint: ENDPOINT,
    id,
    input: Buffer.from('{}'),
    policy: { lowPriority, ttl: 60_000 },
    retentionMs: 60_000,
    now: systemClock.now(),
  })
  return id
}

const statusOf = async (id: string): Promise<string | undefined> =>
  (await store.jobs.find(ENDPOINT, id, systemClock.now()))?.status
const ended = ({ id, lease }: { id: string; lease: string }): ExchangeRequest['ended'] => [
  { id, lease, outcome: 'completed', executionMs: 1, bytes: 4 },
]
const drain = (worker = 'w1'): void => service.workforce.drain(ENDPOINT, worker)

describe('a worker that is ordered to leave', () => {
  it('is told at once in the request that is held for it, and gets no job any more', async () => {
    const held = say({ want: 1 })
    drain()
    expect(await held).toMatchObject({ drain: true, leases: [] })
    const id = await submit()
    expect(await say({ want: 1 })).toMatchObject({ drain: true, leases: [] })
    expect(await statusOf(id)).toBe('IN_QUEUE')
    expect((await say({ want: 1 }, { worker: 'w2' })).leases.map((lease) => lease.id)).toEqual([id])
  })

  it('is told before it was ever heard, and when it comes with another session', async () => {
    await submit()
    drain()
    for (const session of ['s1', 's2']) {
      expect(await say({ want: 1 }, { session })).toMatchObject({ drain: true, leases: [] })
    }
  })

  it('ends the jobs that it has, and is held meanwhile as ever', async () => {
    const id = await submit()
    await submit()
    const [lease] = (await say({ want: 1 })).leases
    drain()
    const ref = { id, lease: lease!.lease }
    expect(await say({ held: [ref] })).toMatchObject({ drain: true, leases: [] })
    // It knows: another such request waits until there is something to say.
    const held = say({ held: [ref] })
    drain()
    await store.jobs.cancel(ENDPOINT, id, systemClock.now())
    expect(await held).toMatchObject({ drain: true, stops: [{ ...ref, reason: 'cancelled' }] })
  })

  it('gets no other job for the result that it reports', async () => {
    await submit()
    const [lease] = (await say({ want: 1 })).leases
    const next = await submit()
    drain()
    const answer = await say({ want: 1, ended: ended(lease!) }, { payloads: DONE })
    expect(answer).toMatchObject({ drain: true, leases: [], acks: [{ state: 'accepted', ended: true }] })
    expect(await statusOf(next)).toBe('IN_QUEUE')
  })

  it('loses no job that was on its way to it: it runs there, or is given back uncounted', async () => {
    const ids = await Promise.all(Array.from({ length: 20 }, () => submit()))
    // The order comes before, between and after the steps in which a job is leased.
    for (const [at] of ids.entries()) {
      const worker = `racing-${at}`
      const asked = say({ want: 1 }, { worker, session: worker })
      for (let turns = 0; turns < at % 5; turns += 1) await turn()
      drain(worker)
      const { leases, ...answer } = await asked
      if (leases.length === 0) expect(answer.drain).toBe(true)
      for (const lease of leases) {
        await say({ ended: ended(lease) }, { worker, session: worker, payloads: DONE })
      }
    }
    await expect.poll(async () => (await store.jobs.count(ENDPOINT)).inProgress).toBe(0)
    const left = (await store.jobs.count(ENDPOINT)).inQueue
    const { leases } = await say({ want: left + 1 }, { worker: 'last', session: 'last' })
    expect(leases.map(({ attempt }) => attempt)).toEqual(Array.from({ length: left }, () => 1))
    const ends = await Promise.all(ids.map(statusOf))
    expect(ends.filter((status) => status === 'COMPLETED')).toHaveLength(ids.length - left)
  })

  it('is told again when the answer that told it never came', async () => {
    drain()
    await say({ want: 1 })
    expect(await say({ want: 0, failed: [seq] })).toMatchObject({ drain: true })
  })

  it('is a worker like any other once it is forgotten', async () => {
    await say({ want: 0, failed: [0] })
    expect(await service.workers.heard(ENDPOINT)).toMatchObject([{ worker: 'w1', holds: 0 }])
    drain()
    service.workforce.forget(ENDPOINT, 'w1')
    expect(await service.workforce.heard(ENDPOINT)).toEqual([])
    const id = await submit()
    expect(await service.workforce.load(ENDPOINT)).toMatchObject({ waiting: 1, arrived: 1 })
    const { drain: isToLeave, leases } = await say({ want: 1 })
    expect([isToLeave, leases.map((lease) => lease.id)]).toEqual([false, [id]])
  })
})

describe('a foreign worker that is ordered to leave', () => {
  it('has its held take answered as when there is no job, and takes none any more', async () => {
    const held = service.foreign.take(ENDPOINT, 'w1', 1, gone)
    await turn()
    drain()
    expect(await held).toEqual([])
    const id = await submit()
    const leaves = new AbortController()
    const again = service.foreign.take(ENDPOINT, 'w1', 1, leaves.signal)
    expect((await service.foreign.take(ENDPOINT, 'w2', 1, gone)).map((job) => job.id)).toEqual([id])
    leaves.abort()
    expect(await again).toEqual([])
  })

  it('ends the job that it has', async () => {
    const id = await submit()
    expect(await service.foreign.take(ENDPOINT, 'w1', 1, gone)).toHaveLength(1)
    drain()
    expect(await service.workers.heard(ENDPOINT)).toMatchObject([{ worker: 'w1', holds: 1 }])
    await service.foreign.done(ENDPOINT, 'w1', id, Buffer.from('{"output":1}'))
    expect(await statusOf(id)).toBe('COMPLETED')
    expect(await service.workers.heard(ENDPOINT)).toMatchObject([{ worker: 'w1', holds: 0 }])
  })
})

describe('what is known of a worker', () => {
  it('is that it starts, as long as it pings and has asked for no job', async () => {
    const ping = (ids: string[] = []) => service.foreign.ping(ENDPOINT, 'w1', { ids, isUnhealthy: false })
    const heard = async () => (await service.workforce.heard(ENDPOINT)).map(({ isStarting }) => isStarting)
    await ping()
    expect(await heard()).toEqual([true])
    service.workforce.setFleetCounts(ENDPOINT, { initializing: 1, throttled: 0 })
    expect(await service.workers.count(ENDPOINT)).toMatchObject({ ready: 0, initializing: 1 })
    const leaves = new AbortController()
    const taken = service.foreign.take(ENDPOINT, 'w1', 1, leaves.signal)
    await turn()
    expect(await heard()).toEqual([false])
    leaves.abort()
    await taken
    await ping()
    expect(await heard()).toEqual([false])
  })

  it('is that it asks, whichever server it asks and whichever it pings', async () => {
    const told: Presence[] = []
    const presence: PresenceStore = {
      tell: (_endpoint, heard) => Promise.resolve(void told.push(...heard)),
      list: () => Promise.resolve(told),
    }
    const onError = (cause: unknown): void => void errors.push(cause)
    const [polled, pinged] = [1, 2].map(() => new Workers({ clock: systemClock, presence, onError }))
    const report = { holds: 0, lowPriority: 0, aliveMs: 60_000 }
    pinged!.hear(ENDPOINT, 'w1', { ...report, isStarting: true })
    expect(told).toEqual([])
    polled!.hear(ENDPOINT, 'w1', { ...report, isStarting: false })
    pinged!.hear(ENDPOINT, 'w1', { ...report, isStarting: true })
    expect(await pinged!.heard(ENDPOINT)).toMatchObject([{ worker: 'w1', isStarting: false }])
    expect(await pinged!.count(ENDPOINT)).toMatchObject({ idle: 1, ready: 1, initializing: 0 })
    for (const one of [polled, pinged]) one!.close()
  })

  it('is that it has begun before, where it pings for a job that it has', async () => {
    await service.foreign.ping(ENDPOINT, 'w1', { ids: ['a-job'], isUnhealthy: false })
    expect(await service.workforce.heard(ENDPOINT)).toMatchObject([{ isStarting: false, holds: 1 }])
  })

  it('is what it holds, from its lease on, and what of that is of low priority', async () => {
    await submit()
    await submit(true)
    const known = async (): Promise<unknown> =>
      (await service.workers.heard(ENDPOINT)).map(({ holds, lowPriority }) => [holds, lowPriority])
    const { leases } = await say({ want: 2 })
    expect(await known()).toEqual([[2, 1]])
    const held = leases.map(({ id, lease }) => ({ id, lease }))
    await say({ held, failed: [0] })
    expect(await known()).toEqual([[2, 1]])
    const [normal, low] = leases
    await say({ held: [held[1]!], ended: ended(normal!) }, { payloads: DONE })
    expect(await known()).toEqual([[1, 1]])
    await say({ ended: ended(low!) }, { payloads: DONE })
    expect(await known()).toEqual([[0, 0]])
  })

  it('does not call a job of low priority that was leased before this server', async () => {
    const id = await submit(true)
    const ask = { endpoint: ENDPOINT, worker: 'w1', count: 1, leaseMs: LEASE_MS, now: systemClock.now() }
    const [job] = await store.jobs.lease(ask)
    await say({ held: [{ id, lease: job!.lease }], failed: [0] })
    expect(await service.workers.heard(ENDPOINT)).toMatchObject([{ holds: 1, lowPriority: 0 }])
  })

  it('is the same of a foreign worker', async () => {
    const id = await submit(true)
    await submit()
    await service.foreign.take(ENDPOINT, 'w1', 2, gone)
    expect(await service.workers.heard(ENDPOINT)).toMatchObject([{ holds: 2, lowPriority: 1 }])
    await service.foreign.done(ENDPOINT, 'w1', id, Buffer.from('{"output":1}'))
    expect(await service.workers.heard(ENDPOINT)).toMatchObject([{ holds: 1, lowPriority: 0 }])
  })
})

it('counts the workers that do not speak yet as whoever starts them says', async () => {
  await say({ failed: [0] })
  service.workers.setFleetCounts(ENDPOINT, { initializing: 2, throttled: 1 })
  const counts = { idle: 1, running: 0, ready: 1, unhealthy: 0 }
  expect(await service.workers.count(ENDPOINT)).toEqual({ ...counts, initializing: 2, throttled: 1 })
  service.workers.setFleetCounts(ENDPOINT, { initializing: 0, throttled: 0 })
  expect(await service.workers.count(ENDPOINT)).toEqual({ ...counts, initializing: 0, throttled: 0 })
})
