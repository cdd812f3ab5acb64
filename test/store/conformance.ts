// What every engine must do, whatever it is built on: the contract of src/store/store.ts as tests.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  isAllowed,
  jobStatuses,
  transitions,
  type JobEvent,
  type JobStatus,
} from '../../src/job/lifecycle.ts'
import { policySchema } from '../../src/job/job.ts'
import type { Key } from '../../src/resource/key.ts'
import { describeFleet } from './fleet-conformance.ts'
import type { Fence, LeasedJob, NewJob } from '../../src/store/job-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { StoreEvent } from '../../src/store/store-event.ts'
import type { Delivery } from '../../src/store/webhook-store.ts'

export interface EngineUnderTest {
  store: Store
  /** Closes the store and opens it again on the same data. */
  reopen(): Promise<Store>
  /** Closes it for good and removes the data. */
  dispose(): Promise<void>
}

const T0 = 1_750_000_000_000
const LEASE_MS = 10_000
/** In most rules here the clock moves by whole leases, all of which count as served. */
const SERVED = { leaseMs: LEASE_MS, servedMs: LEASE_MS }
const ERROR = { type: 'Error', message: 'no', code: 'HANDLER_ERROR' }
const KEY: Key = { id: 'key_1', name: 'owner', permissions: ['read', 'write'], createdAt: T0 }
const json = (value: unknown): Buffer => Buffer.from(JSON.stringify(value))
const read = (bytes: Uint8Array | undefined): unknown => bytes && JSON.parse(Buffer.from(bytes).toString())

export function describeStore(name: string, open: () => Promise<EngineUnderTest>): void {
  describe(`${name} store`, () => {
    let engine: EngineUnderTest
    let store: Store

    beforeEach(async () => {
      engine = await open()
      store = engine.store
      await store.endpoints.ensureEndpoint('ep')
    })
    afterEach(() => engine.dispose())

    const submit = async (id: string, more: Partial<NewJob> = {}): Promise<void> => {
      const policy = policySchema.parse({})
      await store.jobs.enqueue({
        endpoint: 'ep',
        id,
        input: json({ id }),
        policy,
        retentionMs: 60_000,
        now: T0,
        ...more,
      })
    }
    const lease = async (now = T0, count = 1, worker = 'w1'): Promise<LeasedJob[]> =>
      store.jobs.lease({ endpoint: 'ep', worker, count, leaseMs: LEASE_MS, now })
    const leaseOne = async (now = T0, worker = 'w1'): Promise<LeasedJob> => {
      const [job] = await lease(now, 1, worker)
      if (!job) throw new Error('There was nothing to lease.')
      return job
    }
    const fence = ({ id, lease: token }: { id: string; lease: string }): Fence => ({
      endpoint: 'ep',
      id,
      lease: token,
    })
    const statusOf = async (id: string, now = T0): Promise<JobStatus | undefined> =>
      (await store.jobs.find('ep', id, now))?.status
    const start = (job: LeasedJob, now = T0): Promise<unknown> =>
      store.jobs.start(fence(job), { agoMs: 0, graceMs: 5_000, leaseMs: LEASE_MS, now })

    /** Brings a fresh job into a status; the lease it had, if any, is answered with it. */
    const bringTo = async (
      status: JobStatus,
      id = 'job',
      more: Partial<NewJob> = {},
    ): Promise<LeasedJob | undefined> => {
      await submit(id, more)
      if (status === 'IN_QUEUE') return undefined
      if (status === 'CANCELLED') return void (await store.jobs.cancel('ep', id, T0))
      const job = await leaseOne()
      await start(job)
      if (status === 'COMPLETED')
        await store.jobs.settle(fence(job), { event: 'complete', output: json(1) }, { now: T0 })
      if (status === 'FAILED')
        await store.jobs.settle(fence(job), { event: 'fail', error: ERROR }, { now: T0 })
      if (status === 'TIMED_OUT')
        await store.jobs.settle(fence(job), { event: 'timeOut', error: ERROR }, { now: T0 })
      return job
    }

    describe('every status and every event', () => {
      const stranger: LeasedJob = { id: 'job', lease: 'x.1' } as LeasedJob
      /** Causes the event as far as the contract has a verb for it. */
      const cause: Record<JobEvent, (job: LeasedJob) => Promise<unknown>> = {
        lease: () => lease(),
        start: (job) => start(job),
        complete: (job) => store.jobs.settle(fence(job), { event: 'complete' }, { now: T0 }),
        fail: (job) => store.jobs.settle(fence(job), { event: 'fail', error: ERROR }, { now: T0 }),
        timeOut: (job) => store.jobs.settle(fence(job), { event: 'timeOut', error: ERROR }, { now: T0 }),
        release: (job) => store.jobs.release(fence(job), T0),
        lose: (job) => store.jobs.lose(fence(job), { error: ERROR, executionMs: 1, now: T0 }),
        cancel: () => store.jobs.cancel('ep', 'job', T0),
        purge: () => store.jobs.purge('ep', T0),
        retry: () => store.jobs.retry('ep', 'job', T0),
        lapse: async () => {
          await store.jobs.sweep(T0, SERVED)
          await store.jobs.sweep(T0 + LEASE_MS, SERVED)
        },
        lapseLast: async () => {
          await cause.lapse(stranger)
          const [again] = await lease(T0 + LEASE_MS)
          if (again) await start(again, T0 + LEASE_MS)
          await store.jobs.sweep(T0 + 2 * LEASE_MS, SERVED)
        },
        expire: async () => void (await store.jobs.sweep(T0 + 86_400_000, SERVED)),
        forget: async () => void (await store.jobs.sweep(T0 + 60_000, SERVED)),
      }
      for (const status of jobStatuses) {
        for (const event of Object.keys(transitions) as JobEvent[]) {
          const allowed = isAllowed(event, status)
          it(`${allowed ? `takes a job from ${status} to ${transitions[event].to}` : `leaves a job ${status}`} on ${event}`, async () => {
            const job = await bringTo(status)
            await cause[event](job ?? stranger)
            const later = event === 'lapse' || event === 'lapseLast' ? T0 + 2 * LEASE_MS : T0
            const after = await statusOf('job', later)
            if (!allowed) {
              // What time alone does is tried on every status; a waiting job may be leased by lapseLast's second half.
              const leasedOn = event === 'lapseLast' && status === 'IN_QUEUE'
              const expected = leasedOn ? ['IN_QUEUE', 'IN_PROGRESS'] : [status]
              const gone = (event === 'expire' || event === 'forget') && after === undefined
              expect(gone || expected.includes(after ?? 'deleted')).toBe(true)
            } else if (transitions[event].to === 'deleted') expect(after).toBeUndefined()
            else expect(after).toBe(transitions[event].to)
          })
        }
      }

      it('lets nobody but the holder of the lease report', async () => {
        const job = await bringTo('IN_PROGRESS')
        for (const wrong of [{ ...fence(stranger) }, { ...fence(job ?? stranger), endpoint: 'other' }]) {
          expect(await store.jobs.start(wrong, { agoMs: 0, graceMs: 0, leaseMs: 1, now: T0 })).toBe('stale')
          expect(await store.jobs.settle(wrong, { event: 'complete' }, { now: T0 })).toBe('stale')
          expect(await store.jobs.release(wrong, T0)).toBe('stale')
          expect(await store.jobs.lose(wrong, { error: ERROR, executionMs: 1, now: T0 })).toBe('stale')
          expect(await store.jobs.setProgress(wrong, json(1))).toBe('stale')
          expect(await store.jobs.appendChunks(wrong, { chunks: [{ output: json(1) }], now: T0 })).toEqual({
            state: 'stale',
          })
        }
        expect(await statusOf('job')).toBe('IN_PROGRESS')
      })
    })

    describe('leasing', () => {
      it('gives jobs first in, first out, with their input as it came', async () => {
        for (const id of ['a', 'b', 'c']) await submit(id)
        const jobs = await lease(T0, 2)
        expect(jobs.map(({ id, attempt, input }) => [id, attempt, read(input)])).toEqual([
          ['a', 1, { id: 'a' }],
          ['b', 1, { id: 'b' }],
        ])
        expect((await leaseOne()).id).toBe('c')
        expect(await lease()).toEqual([])
      })

      it('gives a job to one of two workers that race for it', async () => {
        for (let n = 0; n < 50; n += 1) await submit(`job-${n}`)
        const rounds = Array.from({ length: 40 }, (_, n) => lease(T0, 2, n % 2 === 0 ? 'w1' : 'w2'))
        const ids = (await Promise.all(rounds)).flat().map(({ id }) => id)
        expect(ids).toHaveLength(50)
        expect(new Set(ids).size).toBe(50)
      })

      it('gives a new token at each lease, and the old one is stale', async () => {
        await submit('job')
        const first = await leaseOne()
        await store.jobs.release(fence(first), T0)
        const second = await leaseOne()
        expect(second.lease).not.toBe(first.lease)
        expect(await store.jobs.settle(fence(first), { event: 'complete' }, { now: T0 })).toBe('stale')
        expect(await store.jobs.settle(fence(second), { event: 'complete' }, { now: T0 })).toBe('accepted')
      })

      // Seen: on a full disk a large chunk was refused, the small end behind it was taken, and the chunk was lost.
      it('takes no end before the chunks that it counts', async () => {
        const job = await bringTo('IN_PROGRESS')
        if (!job) throw new Error('no lease')
        const end = (): Promise<unknown> =>
          store.jobs.settle(fence(job), { event: 'complete' }, { chunks: 2, now: T0 })
        const append = (firstOrdinal: number): Promise<unknown> =>
          store.jobs.appendChunks(fence(job), {
            firstOrdinal,
            chunks: [{ output: json(firstOrdinal) }],
            now: T0,
          })
        await append(1)
        expect(await end()).toBe('behind')
        expect(await statusOf('job')).toBe('IN_PROGRESS')
        await append(2)
        expect(await end()).toBe('accepted')
        expect(await end()).toBe('stale')
      })

      it('takes one of two results of the same lease', async () => {
        const job = await bringTo('IN_PROGRESS')
        if (!job) throw new Error('no lease')
        const answers = await Promise.all([
          store.jobs.settle(fence(job), { event: 'complete', output: json('first') }, { now: T0 }),
          store.jobs.settle(fence(job), { event: 'complete', output: json('second') }, { now: T0 }),
        ])
        expect(answers).toEqual(['accepted', 'stale'])
        expect(read((await store.jobs.find('ep', 'job', T0))?.output)).toBe('first')
      })

      it('puts released jobs before those that wait, in their old order, uncounted', async () => {
        for (const id of ['a', 'b', 'c']) await submit(id)
        const [a, b] = await lease(T0, 2)
        if (!a || !b) throw new Error('no leases')
        await store.jobs.release(fence(b), T0)
        await store.jobs.release(fence(a), T0)
        expect((await lease(T0, 3)).map(({ id, attempt }) => [id, attempt])).toEqual([
          ['a', 1],
          ['b', 1],
          ['c', 1],
        ])
      })

      it('gives a lost job back with its attempt counted, to run alone, and fails it when that was the last', async () => {
        for (const id of ['a', 'b']) await submit(id)
        const [a, b] = await lease(T0, 2)
        if (!a || !b) throw new Error('no leases')
        expect([a.isAlone, b.isAlone]).toEqual([false, false])
        await start(a)
        await store.jobs.appendChunks(fence(a), { chunks: [{ output: json('lost') }], now: T0 })
        await store.jobs.lose(fence(b), { error: ERROR, executionMs: 30, now: T0 })
        await store.jobs.lose(fence(a), { error: ERROR, executionMs: 30, now: T0 })
        expect(await store.jobs.find('ep', 'a', T0)).toMatchObject({
          status: 'IN_QUEUE',
          reason: 'process-lost',
        })
        const again = await lease(T0, 2)
        expect(again.map(({ id, attempt, isAlone }) => [id, attempt, isAlone])).toEqual([
          ['a', 2, true],
          ['b', 2, true],
        ])
        expect((await store.jobs.count('ep')).retried).toBe(2)
        const chunks = await store.jobs.readChunks('ep', 'a', { after: 0, maxBytes: 1e6, now: T0 })
        expect(chunks).toMatchObject({ kind: 'read', chunks: [] })
        for (const job of again) await store.jobs.lose(fence(job), { error: ERROR, executionMs: 30, now: T0 })
        expect(await store.jobs.find('ep', 'a', T0)).toMatchObject({
          status: 'FAILED',
          error: ERROR,
          executionTime: 30,
        })
        await store.jobs.retry('ep', 'a', T0)
        expect(await leaseOne()).toMatchObject({ id: 'a', attempt: 1, isAlone: false })
      })

      it('gives the trace context of the submission with the job', async () => {
        const trace = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'x=1' }
        await submit('job', { trace })
        expect((await leaseOne()).trace).toEqual(trace)
      })

      it('leases to a worker known by name alone, and fences by that name', async () => {
        await submit('job')
        await store.jobs.lease({
          endpoint: 'ep',
          worker: 'py',
          count: 1,
          leaseMs: LEASE_MS,
          startsAtLease: { graceMs: 0 },
          now: T0,
        })
        const other: Fence = { endpoint: 'ep', id: 'job', worker: 'else' }
        expect(await store.jobs.settle(other, { event: 'complete' }, { now: T0 })).toBe('stale')
        const own: Fence = { endpoint: 'ep', id: 'job', worker: 'py' }
        expect(await store.jobs.settle(own, { event: 'complete' }, { now: T0 + 700 })).toBe('accepted')
        expect((await store.jobs.find('ep', 'job', T0 + 900))?.executionTime).toBe(700)
      })

      it('keeps endpoints apart', async () => {
        await store.endpoints.ensureEndpoint('other')
        await submit('job')
        expect(
          await store.jobs.lease({ endpoint: 'other', worker: 'w', count: 1, leaseMs: LEASE_MS, now: T0 }),
        ).toEqual([])
        expect(await store.jobs.find('other', 'job', T0)).toBeUndefined()
        expect(await store.jobs.cancel('other', 'job', T0)).toEqual({ kind: 'not-found' })
      })
    })

    describe('lapses', () => {
      const startSweeping = (): Promise<number> => store.jobs.sweep(T0, SERVED)

      it('gives a job to the queue when its lease runs out, the attempt counted, its chunks gone', async () => {
        await startSweeping()
        await submit('job')
        await submit('behind')
        const job = await leaseOne()
        await start(job)
        await store.jobs.appendChunks(fence(job), {
          firstOrdinal: 1,
          chunks: [{ output: json('lost') }],
          now: T0,
        })
        await store.jobs.sweep(T0 + LEASE_MS, SERVED)
        const again = await leaseOne(T0 + LEASE_MS)
        expect([again.id, again.attempt]).toEqual(['job', 2])
        expect((await store.jobs.count('ep')).retried).toBe(1)
        await store.jobs.appendChunks(fence(again), {
          firstOrdinal: 1,
          chunks: [{ output: json('new') }],
          now: T0 + LEASE_MS,
        })
        const chunks = await store.jobs.readChunks('ep', 'job', {
          after: 0,
          maxBytes: 1e6,
          now: T0 + LEASE_MS,
        })
        expect(
          chunks.kind === 'read' &&
            chunks.chunks.map(({ index, attempt, output }) => [index, attempt, read(output)]),
        ).toEqual([[2, 2, 'new']])
      })

      it('fails a job whose last attempt lapses and names the worker', async () => {
        await startSweeping()
        await submit('job')
        for (const round of [0, 1]) {
          await start(await leaseOne(T0 + round * LEASE_MS, `w${round}`), T0 + round * LEASE_MS)
          await store.jobs.sweep(T0 + (round + 1) * LEASE_MS, SERVED)
        }
        const record = await store.jobs.find('ep', 'job', T0 + 2 * LEASE_MS)
        expect(record?.status).toBe('FAILED')
        expect(record?.error?.code).toBe('WORKER_LOST')
        expect(record?.error?.message).toContain('w1')
      })

      it('does not count a lease that its worker never spoke of', async () => {
        await startSweeping()
        await submit('job')
        await leaseOne()
        await store.jobs.sweep(T0 + LEASE_MS, SERVED)
        expect((await leaseOne(T0 + LEASE_MS)).attempt).toBe(1)
      })

      it('keeps a lease that is extended, and says which are lost', async () => {
        await startSweeping()
        await submit('job')
        const job = await leaseOne()
        const stale = await store.jobs.extend('ep', [job, { id: 'job', lease: 'gone.1' }], {
          now: T0,
          leaseMs: 2 * LEASE_MS,
        })
        expect([...stale]).toEqual(['gone.1'])
        await store.jobs.sweep(T0 + LEASE_MS, SERVED)
        expect(await statusOf('job', T0 + LEASE_MS)).toBe('IN_PROGRESS')
        expect([
          ...(await store.jobs.extendHeldBy('ep', 'w1', ['job', 'nope'], { now: T0, leaseMs: 3 * LEASE_MS })),
        ]).toEqual(['nope'])
      })

      it('does not lapse a lease in time that was not served', async () => {
        await submit('job')
        await start(await leaseOne())
        const muchLater = T0 + 20 * LEASE_MS
        await store.jobs.sweep(muchLater, SERVED)
        expect(await statusOf('job', muchLater)).toBe('IN_PROGRESS')
        await store.jobs.sweep(muchLater + LEASE_MS, SERVED)
        expect(await statusOf('job', muchLater + LEASE_MS)).toBe('IN_QUEUE')
      })

      // Seen: a pause shorter than a lease was not made up for, and lapsed leases that had been kept alive in time.
      it('gives every lease the time of a pause, however short that was', async () => {
        const served = { leaseMs: LEASE_MS, servedMs: 1_500 }
        await store.jobs.sweep(T0, served)
        await submit('job')
        await start(await leaseOne())
        await store.jobs.sweep(T0 + 1_000, served)
        await store.jobs.sweep(T0 + 10_400, served)
        expect(await statusOf('job', T0 + 10_400)).toBe('IN_PROGRESS')
        for (let now = T0 + 11_400; now < T0 + 21_000; now += 1_000) await store.jobs.sweep(now, served)
        expect(await statusOf('job', T0 + 21_000)).toBe('IN_QUEUE')
      })

      const firsts = ['lease', 'start', 'extend', 'extendHeldBy'] as const
      it.each(firsts)(
        'gives what follows a pause its own time, though %s comes before the next round',
        async (first) => {
          const served = { leaseMs: LEASE_MS, servedMs: 1_500 }
          const later = T0 + 100 * LEASE_MS
          const policy = policySchema.parse({ executionTimeout: 5_000 })
          for (const id of ['leased', 'started', 'extended', 'held', 'before']) await submit(id, { policy })
          await store.jobs.sweep(T0, served)
          const ask = { endpoint: 'ep', worker: 'w1', count: 1, leaseMs: LEASE_MS, now: T0 }
          const jobs = await store.jobs.lease({ ...ask, count: 5 })
          const [, started, extended, held] = jobs
          await store.jobs.release(fence(jobs[0]!), T0)
          const term = { now: later, leaseMs: LEASE_MS }
          await {
            lease: () => store.jobs.lease({ ...ask, now: later }),
            start: () => store.jobs.start(fence(started!), { ...term, agoMs: 0, graceMs: 0 }),
            extend: () => store.jobs.extend('ep', [extended!], term),
            extendHeldBy: () => store.jobs.extendHeldBy('ep', 'w1', [held!.id], term),
          }[first]()
          await store.jobs.lease({ ...ask, now: later })
          await store.jobs.start(fence(started!), { ...term, agoMs: 0, graceMs: 0 })
          await store.jobs.extend('ep', [extended!], term)
          await store.jobs.extendHeldBy('ep', 'w1', [held!.id], term)
          const running = async (now: number): Promise<string[]> => {
            await store.jobs.sweep(now, served)
            const page = await store.jobs.list('ep', { count: 9, now })
            return page.jobs.flatMap(({ id, status }) => (status === 'IN_PROGRESS' ? [id] : [])).toSorted()
          }
          for (let now = later; now < later + LEASE_MS; now += 1_000)
            expect(await running(now)).toEqual(['before', 'extended', 'held', 'leased', 'started'])
          expect(await running(later + LEASE_MS)).toEqual([])
        },
      )

      it('makes a server that comes first give time to the jobs that run, and to none that starts later', async () => {
        const served = { leaseMs: 3 * LEASE_MS, servedMs: 1e6 }
        const policy = policySchema.parse({ executionTimeout: 5_000 })
        const leaseNext = { endpoint: 'ep', worker: 'w1', count: 1, leaseMs: 4 * LEASE_MS, now: T0 }
        const report = { agoMs: 0, graceMs: 0, leaseMs: 4 * LEASE_MS, now: T0 }
        for (const id of ['running', 'leased', 'late']) await submit(id, { policy })
        const [running, leased] = await store.jobs.lease({ ...leaseNext, count: 2 })
        await store.jobs.start(fence(running!), report)
        await store.jobs.sweep(T0, served)
        await store.jobs.start(fence(leased!), report)
        await store.jobs.lease({ ...leaseNext, startsAtLease: { graceMs: 0 } })
        const endedAt = async (now: number): Promise<string[]> => {
          await store.jobs.sweep(now, served)
          const { jobs } = await store.jobs.list('ep', { count: 9, now })
          return jobs.flatMap(({ id, status }) => (status === 'TIMED_OUT' ? [id] : []))
        }
        expect(await endedAt(T0 + 9_999)).toEqual([])
        expect(await endedAt(T0 + 10_000)).toEqual(['late', 'leased'])
        expect(await endedAt(T0 + 3 * LEASE_MS - 1)).toEqual(['late', 'leased'])
        expect(await endedAt(T0 + 3 * LEASE_MS)).toEqual(['late', 'leased', 'running'])
      })

      it('times out a job whose worker is silent about its end', async () => {
        await startSweeping()
        await submit('job', { policy: policySchema.parse({ executionTimeout: 5_000 }) })
        const job = await leaseOne()
        await start(job)
        const deadline = T0 + 5_000 + 5_000 + 5_000
        for (let now = T0; now < deadline; now += 1_000) {
          await store.jobs.extend('ep', [job], { now, leaseMs: LEASE_MS })
          await store.jobs.sweep(now, SERVED)
        }
        expect(await statusOf('job', deadline)).toBe('IN_PROGRESS')
        await store.jobs.sweep(deadline, SERVED)
        expect(await statusOf('job', deadline)).toBe('TIMED_OUT')
      })
    })

    describe('ttl and retention', () => {
      it('takes a job past its ttl for gone before anybody sweeps, running or waiting', async () => {
        const policy = policySchema.parse({ ttl: 10_000 })
        await submit('runs', { policy })
        await submit('waits', { policy })
        const job = await leaseOne()
        await start(job)
        const later = T0 + 10_000
        expect(await statusOf('runs', later)).toBeUndefined()
        expect(await statusOf('waits', later)).toBeUndefined()
        expect(await lease(later, 5)).toEqual([])
        expect(await store.jobs.cancel('ep', 'waits', later)).toEqual({ kind: 'not-found' })
        expect(await store.jobs.settle(fence(job), { event: 'complete' }, { now: later })).toBe('stale')
        expect(await store.jobs.purge('ep', later)).toBe(0)
      })

      it('keeps an ended job for its retention from its end, whatever its ttl', async () => {
        await submit('job', { policy: policySchema.parse({ ttl: 10_000 }), retentionMs: 60_000 })
        await store.jobs.settle(fence(await leaseOne()), { event: 'complete' }, { now: T0 + 9_000 })
        expect(await statusOf('job', T0 + 68_999)).toBe('COMPLETED')
        expect(await statusOf('job', T0 + 69_000)).toBeUndefined()
      })

      it('moves the ttl, and deletes at once when that is past', async () => {
        await submit('later')
        await submit('now')
        await store.jobs.setTtl('ep', 'later', 20_000, T0)
        await store.jobs.setTtl('ep', 'now', 10_000, T0 + 10_000)
        expect(await statusOf('now', T0)).toBeUndefined()
        expect(await statusOf('later', T0 + 19_999)).toBe('IN_QUEUE')
        expect(await statusOf('later', T0 + 20_000)).toBeUndefined()
      })

      it('does not queue a failed job again when its ttl has passed', async () => {
        await submit('job', { policy: policySchema.parse({ ttl: 10_000 }) })
        await store.jobs.settle(fence(await leaseOne()), { event: 'fail', error: ERROR }, { now: T0 + 5_000 })
        expect(await store.jobs.retry('ep', 'job', T0 + 10_000)).toEqual({ kind: 'ttl-passed' })
        expect(await statusOf('job', T0 + 10_000)).toBe('FAILED')
      })

      it('deletes what is past in bounded rounds', async () => {
        for (let n = 0; n < 700; n += 1)
          void submit(`job-${n}`, { policy: policySchema.parse({ ttl: 10_000 }) })
        await submit('last', { policy: policySchema.parse({ ttl: 10_000 }) })
        const first = await store.jobs.sweep(T0 + 10_000, SERVED)
        const second = await store.jobs.sweep(T0 + 10_000, SERVED)
        expect(first + second).toBe(701)
        expect(second).toBeGreaterThan(0)
        expect((await store.jobs.count('ep')).inQueue).toBe(0)
      })
    })

    // Each was found by the histories of test/store/histories.ts, or by what they made us look at.
    describe('histories that went wrong', () => {
      // Seen: the job was given back to the queue, or failed and told to its webhook, in the round before it was deleted.
      it('leaves a job past its ttl to be deleted, with more to delete than one round does', async () => {
        const served = { leaseMs: LEASE_MS, servedMs: 10 * LEASE_MS }
        await store.jobs.sweep(T0, served)
        await submit('lapsed', {
          policy: policySchema.parse({ ttl: 12_000 }),
          webhook: 'https://example.org/',
        })
        const timeLimits = { ttl: 12_000, executionTimeout: 5_000 }
        await submit('late', { policy: policySchema.parse(timeLimits), webhook: 'https://example.org/' })
        const [lapsed, late] = await lease(T0, 2)
        if (!lapsed || !late) throw new Error('no leases')
        await start(lapsed)
        await store.jobs.start(fence(late), { agoMs: 3_000, graceMs: 0, leaseMs: 30_000, now: T0 })
        const past = Array.from({ length: 600 }, (_, n) =>
          submit(`past-${n}`, { policy: policySchema.parse({ ttl: 10_000 }) }),
        )
        await Promise.all(past)
        const now = T0 + 12_000
        expect((await store.jobs.sweep(now, served)) + (await store.jobs.sweep(now, served))).toBe(602)
        expect(await store.jobs.count('ep')).toMatchObject({
          retried: 0,
          failed: 0,
          inQueue: 0,
          inProgress: 0,
        })
        expect(await store.webhooks.nextDeliveryAt()).toBeUndefined()
      })

      // Seen: the end told with the chunks that it counts was `behind` for ever, since none could be stored any more.
      it('takes an end with missing chunks for stale once the job is past its ttl', async () => {
        await submit('job', { policy: policySchema.parse({ ttl: 10_000 }) })
        const job = await leaseOne()
        const report = { chunks: 2, now: T0 + 10_000 }
        expect(await store.jobs.settle(fence(job), { event: 'complete' }, report)).toBe('stale')
      })

      // Seen: executionTime was 0, or the time until the loss was told, unless the attempt was the last.
      it("counts a lost job's run as its worker measured it, whether or not an attempt is left", async () => {
        await submit('job')
        const job = await leaseOne()
        await start(job)
        await store.jobs.lose(fence(job), { error: ERROR, executionMs: 700, now: T0 + 1_000 })
        expect(await store.jobs.find('ep', 'job', T0 + 2_000)).toMatchObject({
          executionTime: 700,
          delayTime: 1_300,
        })
      })

      // Seen: a cancel set executionTime to 0 where a purge left it.
      it('keeps the time of the last attempt when a job that waits for the next is cancelled', async () => {
        await store.jobs.sweep(T0, SERVED)
        for (const id of ['cancelled', 'purged']) await submit(id)
        for (const job of await lease(T0, 2)) await start(job)
        await store.jobs.sweep(T0 + LEASE_MS, SERVED)
        await store.jobs.cancel('ep', 'cancelled', T0 + LEASE_MS)
        await store.jobs.purge('ep', T0 + LEASE_MS)
        for (const id of ['cancelled', 'purged']) {
          const record = await store.jobs.find('ep', id, T0 + LEASE_MS)
          expect(record).toMatchObject({ status: 'CANCELLED', executionTime: LEASE_MS })
        }
      })

      // Seen: a lapse with an attempt left withheld the job from its worker, the last one did not.
      it('withholds a job whose last attempt lapsed from its worker after a retry too', async () => {
        await store.jobs.sweep(T0, SERVED)
        await submit('job')
        for (const [round, worker] of ['w0', 'w1'].entries()) {
          const now = T0 + round * LEASE_MS
          await start(await leaseOne(now, worker), now)
          await store.jobs.sweep(now + LEASE_MS, SERVED)
        }
        const now = T0 + 2 * LEASE_MS
        expect(await store.jobs.retry('ep', 'job', now)).toMatchObject({ kind: 'done' })
        const ask = { endpoint: 'ep', count: 1, leaseMs: LEASE_MS, notLostSince: T0, now }
        expect(await store.jobs.lease({ ...ask, worker: 'w1' })).toEqual([])
        expect(await store.jobs.lease({ ...ask, worker: 'w0' })).toHaveLength(1)
      })

      // Seen: SQLite gave them in the order in which they came to be, Redis one endpoint's before another's.
      it('gives deliveries longest due first, whatever their endpoint and their age', async () => {
        const HOOK = 'https://receiver.example/'
        await store.endpoints.ensureEndpoint('other')
        for (const [at, endpoint] of ['ep', 'other', 'ep'].entries()) {
          await submit(`job-${at}`, { endpoint, webhook: HOOK })
          await store.jobs.cancel(endpoint, `job-${at}`, T0 + at)
        }
        const claim = async (count: number, now: number): Promise<Delivery[]> =>
          store.webhooks.claimDeliveries({ count, holdMs: 1_000, without: [], now })
        const [first, second] = await claim(2, T0 + 10)
        expect([first?.record.id, second?.record.id]).toEqual(['job-0', 'job-1'])
        await store.webhooks.postponeDelivery(first?.id ?? '', T0 + 900)
        await store.webhooks.postponeDelivery(second?.id ?? '', T0 + 800)
        const again = (await claim(9, T0 + 900)).map(({ record }) => record.id)
        expect(again).toEqual(['job-2', 'job-1', 'job-0'])
      })
    })

    describe('times', () => {
      it('counts waiting as delayTime and running as executionTime', async () => {
        await submit('job')
        expect(await store.jobs.find('ep', 'job', T0 + 300)).toMatchObject({
          delayTime: 300,
          executionTime: 0,
        })
        const job = await leaseOne(T0 + 1_000)
        await start(job, T0 + 1_000)
        expect(await store.jobs.find('ep', 'job', T0 + 1_500)).toMatchObject({
          delayTime: 1_000,
          executionTime: 500,
        })
        await store.jobs.settle(fence(job), { event: 'complete' }, { executionMs: 750, now: T0 + 1_760 })
        expect(await store.jobs.find('ep', 'job', T0 + 9_000)).toMatchObject({
          delayTime: 1_010,
          executionTime: 750,
        })
      })

      it('counts the waiting between attempts, and the last attempt alone as executionTime', async () => {
        await store.jobs.sweep(T0, SERVED)
        await submit('job')
        await start(await leaseOne())
        await store.jobs.sweep(T0 + LEASE_MS, SERVED)
        const again = await leaseOne(T0 + LEASE_MS + 500)
        await start(again, T0 + LEASE_MS + 500)
        await store.jobs.settle(
          fence(again),
          { event: 'complete' },
          { executionMs: 200, now: T0 + LEASE_MS + 700 },
        )
        expect(await store.jobs.find('ep', 'job', T0 + 30_000)).toMatchObject({
          delayTime: 500,
          executionTime: 200,
        })
      })

      it('counts afresh from a retry', async () => {
        await bringTo('FAILED')
        await store.jobs.retry('ep', 'job', T0 + 5_000)
        expect(await store.jobs.find('ep', 'job', T0 + 5_100)).toMatchObject({
          status: 'IN_QUEUE',
          delayTime: 100,
          executionTime: 0,
          attempt: 1,
        })
      })
    })

    describe('chunks', () => {
      const chunk = (value: unknown): { output: Uint8Array } => ({ output: json(value) })
      const indexes = async (after?: number, maxBytes = 1e6): Promise<number[]> => {
        const answer = await store.jobs.readChunks('ep', 'job', {
          maxBytes,
          now: T0,
          ...(after !== undefined && { after }),
        })
        return answer.kind === 'read' ? answer.chunks.map(({ index }) => index) : []
      }

      it('stores each chunk once, in order, and refuses a gap', async () => {
        const job = await bringTo('IN_PROGRESS')
        if (!job) throw new Error('no lease')
        const append = (firstOrdinal: number, count: number): ReturnType<Store['jobs']['appendChunks']> =>
          store.jobs.appendChunks(fence(job), {
            firstOrdinal,
            chunks: Array.from({ length: count }, (_, n) => chunk(firstOrdinal + n)),
            now: T0,
          })
        expect(await append(1, 2)).toEqual({ state: 'accepted', stored: 2 })
        expect(await append(1, 2)).toEqual({ state: 'accepted', stored: 2 })
        expect(await append(2, 3)).toEqual({ state: 'accepted', stored: 4 })
        expect(await append(9, 1)).toEqual({ state: 'accepted', stored: 4 })
        expect(await indexes(0)).toEqual([1, 2, 3, 4])
      })

      it('reads after an index without moving the read position, which moves only forward', async () => {
        const job = await bringTo('IN_PROGRESS')
        if (!job) throw new Error('no lease')
        await store.jobs.appendChunks(fence(job), { chunks: [chunk(1), chunk(2), chunk(3)], now: T0 })
        expect(await indexes(1)).toEqual([2, 3])
        expect(await indexes()).toEqual([1, 2, 3])
        await store.jobs.markRead('ep', 'job', 2)
        await store.jobs.markRead('ep', 'job', 1)
        expect(await indexes()).toEqual([3])
        expect(await indexes(0)).toEqual([1, 2, 3])
      })

      it('bounds one read, and always gives one chunk at least', async () => {
        const job = await bringTo('IN_PROGRESS')
        if (!job) throw new Error('no lease')
        await store.jobs.appendChunks(fence(job), {
          chunks: ['x', 'y', 'z'].map((c) => chunk(c.repeat(100))),
          now: T0,
        })
        expect(await indexes(0, 10)).toEqual([1])
        expect(await indexes(0, 210)).toEqual([1, 2])
      })

      it('keeps metrics and parts, the first part by its index', async () => {
        const job = await bringTo('IN_PROGRESS')
        if (!job) throw new Error('no lease')
        const part = { as: 'text' as const, last: false }
        await store.jobs.appendChunks(fence(job), {
          chunks: [
            chunk('whole'),
            { ...chunk('a'), metrics: '{"n":1}', part: { ...part, back: 0 } },
            { ...chunk('b'), part: { ...part, back: 1, last: true } },
          ],
          now: T0,
        })
        const answer = await store.jobs.readChunks('ep', 'job', { after: 0, maxBytes: 1e6, now: T0 })
        expect(answer.kind === 'read' && answer.chunks.slice(1)).toMatchObject([
          { index: 2, metrics: '{"n":1}', part: { as: 'text', first: 2, last: false } },
          { index: 3, part: { as: 'text', first: 2, last: true } },
        ])
      })

      it('forgets chunks, output and error at a retry, and never repeats an index', async () => {
        const job = await bringTo('IN_PROGRESS')
        if (!job) throw new Error('no lease')
        await store.jobs.appendChunks(fence(job), { chunks: [chunk(1)], now: T0 })
        await store.jobs.settle(fence(job), { event: 'fail', error: ERROR, output: json(0) }, { now: T0 })
        await store.jobs.retry('ep', 'job', T0)
        const record = await store.jobs.find('ep', 'job', T0)
        expect([record?.output, record?.error]).toEqual([undefined, undefined])
        expect(await indexes(0)).toEqual([])
        await store.jobs.appendChunks(fence(await leaseOne()), {
          firstOrdinal: 1,
          chunks: [chunk(2)],
          now: T0,
        })
        expect(await indexes(0)).toEqual([2])
      })
    })

    describe('submissions', () => {
      it('answers the same job for the same idempotency key and body, and a conflict for another body', async () => {
        const policy = policySchema.parse({})
        const job = { endpoint: 'ep', input: json({}), policy, retentionMs: 60_000, now: T0 }
        const first = await store.jobs.enqueue({ ...job, id: 'a', idempotency: { key: 'k', bodyHash: 'h' } })
        const same = await store.jobs.enqueue({ ...job, id: 'b', idempotency: { key: 'k', bodyHash: 'h' } })
        const other = await store.jobs.enqueue({
          ...job,
          id: 'c',
          idempotency: { key: 'k', bodyHash: 'else' },
        })
        expect([first.kind, same, other]).toEqual([
          'created',
          { kind: 'duplicate', id: 'a', status: 'IN_QUEUE' },
          { kind: 'conflict', id: 'a' },
        ])
        const past = await store.jobs.enqueue({
          ...job,
          id: 'd',
          now: T0 + 86_400_000,
          idempotency: { key: 'k', bodyHash: 'h' },
        })
        expect(past).toEqual({ kind: 'created', id: 'd', status: 'IN_QUEUE' })
      })

      it('gives webhook and sealed s3Config to the lease, byte for byte', async () => {
        await submit('job', { webhook: 'https://example.org/x', sealedS3Config: new Uint8Array([0, 255, 7]) })
        const job = await leaseOne()
        expect([job.webhook, [...(job.sealedS3Config ?? [])]]).toEqual(['https://example.org/x', [0, 255, 7]])
      })

      it.each(['FAILED', 'TIMED_OUT'] as const)(
        'gives them again to the lease after a retry of one %s',
        async (status) => {
          await bringTo(status, 'job', { webhook: 'https://example.org/x', sealedS3Config: json('sealed') })
          await store.jobs.sweep(T0 + 1, SERVED)
          store = await engine.reopen()
          expect(await store.jobs.retry('ep', 'job', T0 + 2)).toMatchObject({ kind: 'done' })
          // From here on its secrets no longer go with the ttl that it had.
          const { ttl } = policySchema.parse({})
          await store.jobs.setTtl('ep', 'job', 2 * ttl, T0 + 2)
          await store.jobs.sweep(T0 + ttl, SERVED)
          const { webhook, sealedS3Config } = await leaseOne(T0 + ttl)
          expect([webhook, read(sealedS3Config)]).toEqual(['https://example.org/x', 'sealed'])
        },
      )

      it('keeps an input of 10 MB and an output of 20 MB as they came', async () => {
        const input = Buffer.from(`{"x":"${'i'.repeat(10_000_000)}"}`)
        const output = Buffer.from(`"${'o'.repeat(19_999_998)}"`)
        await submit('job', { input })
        const job = await leaseOne()
        expect(Buffer.compare(Buffer.from(job.input), input)).toBe(0)
        await store.jobs.settle(fence(job), { event: 'complete', output }, { now: T0 })
        const record = await store.jobs.find('ep', 'job', T0)
        expect(Buffer.compare(Buffer.from(record?.output ?? []), output)).toBe(0)
      })
    })

    it('counts jobs by where they are, and what has ended or was retried for good', async () => {
      await bringTo('COMPLETED', 'a')
      await bringTo('FAILED', 'b')
      await bringTo('TIMED_OUT', 'c')
      await bringTo('CANCELLED', 'd')
      await store.jobs.retry('ep', 'b', T0)
      expect((await leaseOne()).id).toBe('b')
      await submit('e')
      expect(await store.jobs.count('ep')).toEqual({
        completed: 1,
        failed: 2,
        inProgress: 1,
        inQueue: 1,
        retried: 1,
      })
      await store.jobs.sweep(T0 + 60_000, SERVED)
      expect((await store.jobs.count('ep')).completed).toBe(1)
    })

    describe('an endpoint that is removed', () => {
      const HOOK = 'https://example.com/done'
      const removed = async (): Promise<void> => {
        await submit('ended', { webhook: HOOK, idempotency: { key: 'k', bodyHash: 'h' } })
        const ended = await leaseOne()
        await store.jobs.settle(fence(ended), { event: 'complete', output: json(1) }, { now: T0 })
        await submit('running')
        const job = await leaseOne()
        await store.jobs.appendChunks(fence(job), { chunks: [{ output: json('piece') }], now: T0 })
        await submit('waiting', { policy: policySchema.parse({ lowPriority: true }) })
        await store.endpoints.removeEndpoint('ep')
      }

      it('is gone with its jobs, deliveries and counts, and no other is', async () => {
        await store.endpoints.ensureEndpoint('other')
        await submit('others', { endpoint: 'other', webhook: HOOK })
        await store.jobs.cancel('other', 'others', T0)
        await removed()
        expect(await store.endpoints.findEndpoint('ep')).toBeUndefined()
        expect((await store.endpoints.listEndpoints()).map(({ id }) => id)).toEqual(['other'])
        for (const id of ['ended', 'running', 'waiting']) expect(await statusOf(id)).toBeUndefined()
        expect(await store.jobs.list('ep', { count: 9, now: T0 })).toEqual({ jobs: [] })
        const counted = { ...(await store.jobs.count('ep')), ...(await store.jobs.load('ep', T0)) }
        expect(new Set(Object.values(counted))).toEqual(new Set([0]))
        const due = await store.webhooks.claimDeliveries({ count: 9, holdMs: 1, without: [], now: T0 + 1 })
        expect(due.map(({ record }) => record.id)).toEqual(['others'])
        expect(await store.jobs.find('other', 'others', T0)).toMatchObject({ status: 'CANCELLED' })
      })

      it('tells whoever runs a job of it to stop', async () => {
        const events: StoreEvent[] = []
        const stop = store.watch((event) => events.push(event))
        await removed()
        stop()
        const stops = events.filter(({ kind }) => kind === 'stop')
        expect(stops).toMatchObject([{ endpoint: 'ep', worker: 'w1', id: 'running', reason: 'expired' }])
        expect(events).toContainEqual({ kind: 'changed', endpoint: 'ep', id: 'waiting', status: 'deleted' })
      })

      it('is made anew by whoever asks for it, empty, and by nobody who only keeps it', async () => {
        await removed()
        store = await engine.reopen()
        expect(await store.endpoints.wasRemoved('ep')).toBe(true)
        expect(await store.endpoints.keepEndpoint('ep')).toBe(false)
        expect(await store.endpoints.findEndpoint('ep')).toBeUndefined()
        // It was let in before, and goes with the others.
        await submit('late')
        expect(await statusOf('late')).toBeUndefined()
        await store.endpoints.removeEndpoint('ep')
        expect(await store.endpoints.ensureEndpoint('ep')).toBe(true)
        expect(await store.endpoints.wasRemoved('ep')).toBe(false)
        expect(await store.endpoints.ensureEndpoint('ep')).toBe(false)
        expect(await store.jobs.list('ep', { count: 9, now: T0 })).toEqual({ jobs: [] })
        await submit('anew', { idempotency: { key: 'k', bodyHash: 'another' } })
        expect((await lease()).map(({ id }) => id)).toEqual(['anew'])
      })

      it('takes rounds when it has many, and others are served between them', async () => {
        await store.endpoints.ensureEndpoint('other')
        await Promise.all(Array.from({ length: 1_700 }, (_, n) => submit(`job-${n}`)))
        let isOver = false
        const removing = store.endpoints.removeEndpoint('ep').then(() => (isOver = true))
        await submit('others', { endpoint: 'other' })
        const ask = { endpoint: 'other', worker: 'w', count: 1, leaseMs: LEASE_MS, now: T0 }
        expect([(await store.jobs.lease(ask)).length, isOver]).toEqual([1, false])
        await removing
        expect(await store.jobs.list('ep', { count: 9, now: T0 })).toEqual({ jobs: [] })
      })

      it('is nothing to remove twice, or when there never was one', async () => {
        await removed()
        await store.endpoints.removeEndpoint('ep')
        await store.endpoints.removeEndpoint('never')
        expect(await store.endpoints.wasRemoved('never')).toBe(false)
        expect(await store.endpoints.keepEndpoint('never')).toBe(true)
      })
    })

    describe('what a queue asks of its workers', () => {
      const low = { policy: policySchema.parse({ lowPriority: true }) }
      const load = async (now = T0): Promise<number[]> => {
        const { waiting, waitingLowPriority, oldestWaitMs, arrived, ended } = await store.jobs.load('ep', now)
        return [waiting, waitingLowPriority, oldestWaitMs, arrived, ended]
      }

      it('counts jobs of low priority apart, wherever they stand in line', async () => {
        expect(await load()).toEqual([0, 0, 0, 0, 0])
        for (let n = 0; n < 9; n += 1) await submit(`low-${n}`, { ...low, now: T0 + n })
        expect(await load(T0 + 60)).toEqual([0, 9, 0, 0, 0])
        await submit('first', { now: T0 + 10 })
        await submit('low-9', { ...low, now: T0 + 20 })
        await submit('second', { now: T0 + 30 })
        expect(await load(T0 + 60)).toEqual([2, 10, 50, 2, 0])
        expect(await lease(T0 + 60, 10)).toHaveLength(10)
        expect(await load(T0 + 60)).toEqual([1, 1, 30, 2, 0])
        store = await engine.reopen()
        expect(await load(T0 + 60)).toEqual([1, 1, 30, 2, 0])
      })

      it('leases both kinds in the order of their submission', async () => {
        for (const n of [0, 1, 2, 3, 4, 5]) await submit(`job-${n}`, n % 2 === 1 ? low : {})
        const ids = (await lease(T0, 4)).map(({ id }) => id)
        expect(ids).toEqual(['job-0', 'job-1', 'job-2', 'job-3'])
        expect((await lease(T0, 4)).map(({ id }) => id)).toEqual(['job-4', 'job-5'])
      })

      it('counts a job that comes back by its kind, and no submission twice', async () => {
        for (const more of [{}, low]) {
          const id = 'policy' in more ? 'low' : 'job'
          const isLow = 'policy' in more
          const inLine = isLow ? [0, 1] : [1, 0]
          await submit(id, more)
          expect((await load()).slice(0, 2)).toEqual(inLine)
          for (const back of ['release', 'lose', 'retry', 'lapse'] as const) {
            const job = await leaseOne()
            expect((await load()).slice(0, 2)).toEqual([0, 0])
            await start(job)
            if (back === 'release') await store.jobs.release(fence(job), T0)
            if (back === 'lose') await store.jobs.lose(fence(job), { error: ERROR, executionMs: 1, now: T0 })
            if (back === 'lapse') {
              await store.jobs.sweep(T0, SERVED)
              await store.jobs.extend('ep', [job], { now: T0, leaseMs: 0 })
              await store.jobs.sweep(T0 + LEASE_MS, SERVED)
            }
            if (back === 'retry') {
              await store.jobs.settle(fence(job), { event: 'fail', error: ERROR }, { now: T0 })
              expect((await load())[4]).toBe(isLow ? 3 : 1)
              await store.jobs.retry('ep', id, T0)
            }
            expect((await load()).slice(0, 2)).toEqual(inLine)
          }
          await store.jobs.settle(fence(await leaseOne()), { event: 'complete' }, { now: T0 })
          // The submission of low priority does not count; its ends do.
          expect(await load()).toEqual([0, 0, 0, 1, isLow ? 4 : 2])
        }
      })

      it('counts none that is cancelled, purged, expired or deleted', async () => {
        for (const gone of ['cancel', 'purge', 'setTtl', 'ttl'] as const) {
          const ttl = gone === 'ttl' ? 10_000 : 86_400_000
          await submit(`${gone}-job`, { policy: policySchema.parse({ ttl }) })
          await submit(`${gone}-low`, { policy: policySchema.parse({ ttl, lowPriority: true }) })
          expect((await load()).slice(0, 2)).toEqual([1, 1])
          for (const id of [`${gone}-job`, `${gone}-low`]) {
            if (gone === 'cancel') await store.jobs.cancel('ep', id, T0)
            if (gone === 'setTtl') await store.jobs.setTtl('ep', id, 0, T0)
          }
          if (gone === 'purge') await store.jobs.purge('ep', T0)
          if (gone === 'ttl') {
            expect((await load(T0 + 10_000))[2]).toBe(0)
            await store.jobs.sweep(T0 + 10_000, SERVED)
          }
          expect((await load()).slice(0, 3)).toEqual([0, 0, 0])
        }
        expect((await load()).slice(3)).toEqual([4, 0])
      })

      it('counts one submission of those that repeat a key', async () => {
        for (const id of ['a', 'b']) await submit(id, { idempotency: { key: 'k', bodyHash: 'h' } })
        expect(await load()).toEqual([1, 0, 0, 1, 0])
      })
    })

    it('purges however many wait, and none that comes or comes back after it was asked', async () => {
      const ids = Array.from({ length: 1100 }, (_one, at) => `job-${at}`)
      await submit('back')
      const held = await leaseOne()
      await Promise.all(ids.map((id) => submit(id)))
      const purging = store.jobs.purge('ep', T0)
      await Promise.all([store.jobs.release(fence(held), T0), submit('new')])
      expect(await purging).toBe(1100)
      expect(await statusOf('back')).toBe('IN_QUEUE')
      expect(await statusOf('new')).toBe('IN_QUEUE')
      expect(await store.jobs.count('ep')).toMatchObject({ inQueue: 2 })
      // The next one takes them.
      expect(await store.jobs.purge('ep', T0)).toBe(2)
    })

    it('leases and lists the one job that is left behind thousands past their ttl', async () => {
      await submit('first')
      const ids = Array.from({ length: 2500 }, (_one, at) => `job-${at}`)
      await Promise.all(ids.map((id) => submit(id, { policy: policySchema.parse({ ttl: 10_000 }) })))
      await submit('last')
      const later = T0 + 20_000
      const page = await store.jobs.list('ep', { count: 2, now: later })
      expect(page.jobs.map(({ id }) => id)).toEqual(['last', 'first'])
      expect(page.next).toBeUndefined()
      expect(await leaseOne(later)).toMatchObject({ id: 'first' })
      expect(await leaseOne(later)).toMatchObject({ id: 'last' })
      expect(await lease(later)).toEqual([])
    })

    it('purges only what waits, and says how many', async () => {
      await submit('runs')
      await leaseOne()
      for (const id of ['a', 'b', 'c']) await submit(id)
      expect(await store.jobs.purge('ep', T0)).toBe(3)
      expect(await store.jobs.find('ep', 'a', T0)).toMatchObject({ status: 'CANCELLED', reason: 'purged' })
      expect(await statusOf('runs')).toBe('IN_PROGRESS')
    })

    it('shows progress while the job runs and not after', async () => {
      const job = await bringTo('IN_PROGRESS')
      if (!job) throw new Error('no lease')
      await store.jobs.setProgress(fence(job), json({ percent: 5 }))
      expect(read((await store.jobs.find('ep', 'job', T0))?.progress)).toEqual({ percent: 5 })
      await store.jobs.settle(fence(job), { event: 'complete' }, { now: T0 })
      expect((await store.jobs.find('ep', 'job', T0))?.progress).toBeUndefined()
    })

    it('tells what happened after it is durable, and the worker of a cancelled job to stop', async () => {
      const events: StoreEvent[] = []
      const unwatch = store.watch((event) => events.push(event))
      const job = await bringTo('IN_PROGRESS')
      await store.jobs.cancel('ep', 'job', T0)
      unwatch()
      await submit('unheard')
      expect(events).toEqual([
        { kind: 'queued', endpoint: 'ep' },
        { kind: 'stop', endpoint: 'ep', worker: 'w1', id: 'job', lease: job?.lease, reason: 'cancelled' },
        { kind: 'changed', endpoint: 'ep', id: 'job', status: 'CANCELLED' },
      ])
    })

    it('withholds a job from the worker that let it lapse after a time it names, and from nobody else', async () => {
      await submit('job')
      await leaseOne(T0, 'w1')
      await store.jobs.extendHeldBy('ep', 'w1', ['job'], { now: T0, leaseMs: LEASE_MS })
      await store.jobs.sweep(T0, SERVED)
      await store.jobs.sweep(T0 + LEASE_MS, SERVED)
      expect(await statusOf('job', T0 + LEASE_MS)).toBe('IN_QUEUE')
      const now = T0 + LEASE_MS + 1
      const ask = { endpoint: 'ep', worker: 'w1', count: 1, leaseMs: LEASE_MS, now }
      expect(await store.jobs.lease({ ...ask, notLostSince: T0 })).toEqual([])
      expect(await store.jobs.lease({ ...ask, notLostSince: 0 })).toEqual([])
      expect(await store.jobs.lease({ ...ask, worker: 'w2', notLostSince: 0 })).toHaveLength(1)
      await store.jobs.release({ endpoint: 'ep', id: 'job', worker: 'w2' }, now)
      expect(await store.jobs.lease({ ...ask, notLostSince: 0 })).toEqual([])
      expect(await store.jobs.lease(ask)).toHaveLength(1)
    })

    it('gives a worker back what it lost before the time it names', async () => {
      await submit('job')
      await leaseOne(T0, 'w1')
      await store.jobs.extendHeldBy('ep', 'w1', ['job'], { now: T0, leaseMs: LEASE_MS })
      await store.jobs.sweep(T0, SERVED)
      await store.jobs.sweep(T0 + LEASE_MS, SERVED)
      const ask = { endpoint: 'ep', worker: 'w1', count: 1, leaseMs: LEASE_MS, now: T0 + LEASE_MS + 1 }
      expect(await store.jobs.lease({ ...ask, notLostSince: T0 + LEASE_MS })).toHaveLength(1)
    })

    describe('a list of jobs', () => {
      it('has the newest first, page by page, without payloads, and only what is there', async () => {
        for (const id of ['a', 'b', 'c', 'd']) await submit(id)
        await store.endpoints.ensureEndpoint('other')
        await submit('elsewhere', { endpoint: 'other' })
        const leased = await leaseOne()
        await store.jobs.settle(
          fence(leased),
          { event: 'fail', error: ERROR },
          { executionMs: 7, now: T0 + 9 },
        )
        const first = await store.jobs.list('ep', { count: 3, now: T0 + 9 })
        expect(first.jobs.map(({ id }) => id)).toEqual(['d', 'c', 'b'])
        await submit('e')
        const second = await store.jobs.list('ep', { count: 3, before: first.next ?? '', now: T0 + 9 })
        expect(second).toEqual({
          jobs: [
            {
              id: 'a',
              endpoint: 'ep',
              status: 'FAILED',
              attempt: 1,
              workerId: 'w1',
              submittedAt: T0,
              endedAt: T0 + 9,
              delayTime: 2,
              executionTime: 7,
              error: ERROR,
            },
          ],
        })
        expect(await store.jobs.list('ep', { count: 9, now: T0 + 86_400_000 })).toEqual({ jobs: [] })
      })
    })

    describe('webhooks', () => {
      const HOOK = 'https://receiver.example/done?token=1'
      const claim = (now: number, without: string[] = [], count = 10): Promise<Delivery[]> =>
        store.webhooks.claimDeliveries({ count, holdMs: 15_000, without, now })
      const ends: Record<string, (id: string) => Promise<unknown>> = {
        COMPLETED: async () =>
          store.jobs.settle(
            fence(await leaseOne()),
            { event: 'complete', output: json({ made: 1 }) },
            { now: T0 },
          ),
        FAILED: async () =>
          store.jobs.settle(fence(await leaseOne()), { event: 'fail', error: ERROR }, { now: T0 }),
        TIMED_OUT: async () =>
          store.jobs.settle(fence(await leaseOne()), { event: 'timeOut', error: ERROR }, { now: T0 }),
        CANCELLED: (id) => store.jobs.cancel('ep', id, T0),
        'CANCELLED by a purge': () => store.jobs.purge('ep', T0),
        'FAILED by a lost worker': async () => {
          for (const round of [0, 1]) {
            const now = T0 + round * LEASE_MS
            await start(await leaseOne(now), now)
            await store.jobs.sweep(now, SERVED)
            await store.jobs.sweep(now + LEASE_MS, SERVED)
          }
        },
        'TIMED_OUT by the sweeper': async () => {
          await start(await leaseOne())
          for (let now = T0; now <= T0 + 610_001; now += LEASE_MS) {
            await store.jobs.extendHeldBy('ep', 'w1', ['job'], { now, leaseMs: 2 * LEASE_MS })
            await store.jobs.sweep(now, SERVED)
          }
        },
      }
      for (const [how, end] of Object.entries(ends)) {
        it(`are owed the record and the input of a job that is ${how}`, async () => {
          await submit('job', { webhook: HOOK, dialect: 'hosted' })
          expect(await claim(T0)).toEqual([])
          await end('job')
          const record = await store.jobs.find('ep', 'job', T0 + 700_000 - 100_000)
          const [delivery] = await claim(T0 + 700_000)
          expect(delivery).toMatchObject({ url: HOOK, attempt: 1, dialect: 'hosted', record: record ?? {} })
          expect(delivery?.record.status).toBe(how.split(' ')[0])
          expect(read(delivery?.input)).toEqual({ id: 'job' })
        })
      }

      it('are told once each, whoever claims, until a claim is over', async () => {
        await submit('job', { webhook: HOOK })
        await store.jobs.cancel('ep', 'job', T0)
        const claimed = (await Promise.all([claim(T0), claim(T0), claim(T0 + 14_999)])).flat()
        expect(claimed).toHaveLength(1)
        expect(await claim(T0 + 15_000)).toHaveLength(1)
      })

      it('are tried again when it is said, with the count of the tries, until dropped', async () => {
        await submit('job', { webhook: HOOK })
        await store.jobs.cancel('ep', 'job', T0)
        const [first] = await claim(T0)
        await store.webhooks.postponeDelivery(first?.id ?? '', T0 + 500)
        expect(await store.webhooks.nextDeliveryAt()).toBe(T0 + 500)
        expect(await claim(T0 + 499)).toEqual([])
        const [second] = await claim(T0 + 500)
        expect(second).toMatchObject({ id: first?.id, attempt: 2 })
        await store.webhooks.dropDelivery(second?.id ?? '')
        expect(await store.webhooks.nextDeliveryAt()).toBeUndefined()
      })

      it('outlive their job and a restart, and leave out what their receiver is too busy for', async () => {
        await submit('job', { webhook: HOOK })
        await submit('other', { webhook: 'http://other.example/' })
        await store.jobs.purge('ep', T0)
        await store.jobs.sweep(T0 + 60_000, SERVED)
        expect(await statusOf('job', T0 + 60_000)).toBeUndefined()
        store = await engine.reopen()
        const [only, ...more] = await claim(T0 + 60_000, ['https://receiver.example'])
        expect([only?.record.id, more]).toEqual(['other', []])
        expect((await claim(T0 + 60_000)).map(({ record }) => record.id)).toEqual(['job'])
      })

      it('are not owed the former end of a job that is retried', async () => {
        await submit('job', { webhook: HOOK })
        await ends['FAILED']?.('job')
        await store.jobs.retry('ep', 'job', T0)
        expect(await claim(T0 + 1)).toEqual([])
        await store.jobs.cancel('ep', 'job', T0 + 2)
        expect((await claim(T0 + 2)).map(({ record }) => record.status)).toEqual(['CANCELLED'])
      })

      it('are nothing to a job that has none, nor told of a deletion', async () => {
        await bringTo('COMPLETED', 'plain')
        await submit('expires', { webhook: HOOK })
        await store.jobs.sweep(T0 + 86_400_000, SERVED)
        expect(await claim(T0 + 90_000_000)).toEqual([])
      })

      it('wake whoever delivers', async () => {
        const told: StoreEvent[] = []
        const stop = store.watch((event) => void told.push(event))
        await submit('job', { webhook: HOOK })
        await store.jobs.cancel('ep', 'job', T0)
        stop()
        expect(told).toContainEqual({ kind: 'webhook' })
      })
    })

    it('keeps keys by their hash, with what each may do, until they are revoked', async () => {
      const narrow: Key = {
        ...KEY,
        id: 'key_2',
        permissions: ['worker'],
        endpoints: ['ep'],
        createdAt: T0 + 1,
      }
      await store.keys.addKey({ hash: 'h2', ...narrow })
      await store.keys.addKey({ hash: 'h1', ...KEY })
      expect(await store.keys.listKeys()).toEqual([KEY, narrow])
      expect(await store.keys.findKey('h2')).toEqual(narrow)
      expect([await store.keys.revokeKey('key_2'), await store.keys.revokeKey('key_2')]).toEqual([
        true,
        false,
      ])
      expect(await store.keys.findKey('h2')).toBeUndefined()
      expect(await store.keys.listKeys()).toEqual([KEY])
    })

    describeFleet(() => store)

    it('takes a first key once, whoever brings it', async () => {
      const bring = (n: number): Promise<boolean> =>
        store.keys.addFirstKey({ ...KEY, id: `key_${n}`, hash: `h${n}` })
      expect((await Promise.all([1, 2, 3].map(bring))).filter(Boolean)).toHaveLength(1)
      expect(await store.keys.listKeys()).toHaveLength(1)
      expect(await bring(4)).toBe(false)
    })

    it('has everything again after it was closed and opened', async () => {
      await bringTo('COMPLETED', 'done')
      await submit('waits')
      await submit('runs')
      const job = await leaseOne()
      await start(job)
      await store.jobs.appendChunks(fence(job), { chunks: [{ output: json('chunk') }], now: T0 })
      await store.keys.addKey({ hash: 'h', ...KEY })
      store = await engine.reopen()
      expect(await store.jobs.find('ep', 'done', T0)).toMatchObject({ status: 'COMPLETED' })
      expect(await store.jobs.settle(fence(job), { event: 'complete' }, { now: T0 })).toBe('accepted')
      expect(await store.jobs.count('ep')).toMatchObject({ completed: 2, inQueue: 1, inProgress: 0 })
      expect(await store.endpoints.listEndpoints()).toMatchObject([{ id: 'ep' }])
      expect([await store.keys.findKey('h'), await store.keys.findKey('x')]).toEqual([KEY, undefined])
      await submit('newest')
      expect((await lease(T0, 5)).map(({ id }) => id)).toEqual(
        ['runs', 'newest'].filter((id) => id !== job.id),
      )
    })
  })
}
