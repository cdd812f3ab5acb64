// What a queue file still holds of a job's sealed s3Config: looked up in the file itself, which no verb answers.

import { readFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { endedStatuses, isAllowed, transitions, type JobEvent } from '../../src/job/lifecycle.ts'
import { policySchema } from '../../src/job/job.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Fence, LeasedJob } from '../../src/store/job-store.ts'
import type { Store } from '../../src/store/store.ts'
import { makeOlder } from '../support/older-file.ts'

const SEALED = 'sealed-bytes-that-nothing-else-in-a-queue-file-holds'
const ERROR = { type: 'Error', message: 'no', code: 'HANDLER_ERROR' }
const LEASE_MS = 10_000
const SERVED = { leaseMs: LEASE_MS, servedMs: LEASE_MS }
const TTL_MS = 20_000

let dir: string
let file: string
let store: Store

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'longshore-test-'))
  file = join(dir, 'queue.db')
  store = openSqliteStore({ file })
  await store.endpoints.ensureEndpoint('ep')
})
afterEach(async () => {
  await store.close()
  rmSync(dir, { recursive: true, force: true })
})

async function submit({ id = 'job', ttl = 86_400_000, sealed = SEALED } = {}): Promise<void> {
  await store.jobs.enqueue({
    endpoint: 'ep',
    id,
    input: Buffer.from('{}'),
    policy: policySchema.parse({ ttl }),
    webhook: 'https://receiver.example/',
    sealedS3Config: Buffer.from(sealed),
    retentionMs: 60_000,
    now: 0,
  })
}

async function lease(now = 0): Promise<LeasedJob> {
  const [job] = await store.jobs.lease({ endpoint: 'ep', worker: 'w', count: 1, leaseMs: LEASE_MS, now })
  if (!job) throw new Error('There was nothing to lease.')
  return job
}

async function holder(now?: number): Promise<Fence> {
  const { id, lease: token } = await lease(now)
  return { endpoint: 'ep', id, lease: token }
}

async function started(now?: number): Promise<Fence> {
  const fence = await holder(now)
  await store.jobs.start(fence, { agoMs: 0, graceMs: 0, leaseMs: LEASE_MS, now: now ?? 0 })
  return fence
}

/** A worker that is lost, as often as it takes. */
async function lapse(times: number): Promise<void> {
  await store.jobs.sweep(0, SERVED)
  for (let round = 0; round < times; round += 1) {
    await started(round * LEASE_MS)
    await store.jobs.sweep((round + 1) * LEASE_MS, SERVED)
  }
}

/** Each way in which the store itself lets a job end, by its event in the lifecycle. */
const ways: [event: JobEvent, how: string, end: () => Promise<unknown>][] = [
  [
    'complete',
    'by its worker',
    async () => store.jobs.settle(await holder(), { event: 'complete' }, { now: 0 }),
  ],
  [
    'fail',
    'by its worker',
    async () => store.jobs.settle(await holder(), { event: 'fail', error: ERROR }, { now: 0 }),
  ],
  [
    'timeOut',
    'by its worker',
    async () => store.jobs.settle(await holder(), { event: 'timeOut', error: ERROR }, { now: 0 }),
  ],
  [
    'timeOut',
    'by the sweeper',
    async () => {
      await started()
      for (let now = 0; now <= 620_000; now += LEASE_MS) {
        await store.jobs.extendHeldBy('ep', 'w', ['job'], { now, leaseMs: 2 * LEASE_MS })
        await store.jobs.sweep(now, SERVED)
      }
    },
  ],
  ['lapseLast', 'by the sweeper', () => lapse(2)],
  [
    'fail',
    'with its process, by its worker',
    async () => {
      for (const now of [0, 1])
        await store.jobs.lose(await holder(now), { error: ERROR, executionMs: 1, now })
    },
  ],
  ['cancel', 'while it waits', () => store.jobs.cancel('ep', 'job', 0)],
  [
    'cancel',
    'while it runs',
    async () => {
      await holder()
      await store.jobs.cancel('ep', 'job', 0)
    },
  ],
  ['purge', 'while it waits', () => store.jobs.purge('ep', 0)],
]

function row(): { status: string; sealed: string | undefined } | undefined {
  const db = new DatabaseSync(file, { readOnly: true })
  const found = db.prepare('select status, cast(s3_config as text) as sealed from jobs').get()
  db.close()
  return found && { status: String(found['status']), sealed: found['sealed'] as string | undefined }
}

describe('the sealed s3Config in a queue file', () => {
  for (const [event, how, end] of ways) {
    const { to } = transitions[event]
    const keeps = to !== 'deleted' && isAllowed('retry', to)
    it(`is ${keeps ? 'kept for a retry' : 'dropped'} on ${event} ${how}`, async () => {
      await submit()
      await end()
      expect(row()).toEqual({ status: to, sealed: keeps ? SEALED : null })
    })
  }

  it('is looked at here after every event that ends a job', () => {
    const ending = Object.entries(transitions).filter(([, { to }]) =>
      (endedStatuses as readonly string[]).includes(to),
    )
    expect(new Set(ways.map(([event]) => event))).toEqual(new Set(ending.map(([event]) => event)))
  })

  it.each([
    ['lapse', () => lapse(1)],
    ['release', async () => store.jobs.release(await holder(), 0)],
  ])('is kept while the job may yet run: %s', async (_, back) => {
    await submit()
    await back()
    expect(row()).toEqual({ status: 'IN_QUEUE', sealed: SEALED })
  })

  it('is dropped by the sweep after the ttl of a job that failed, when a retry is refused, and no sooner', async () => {
    await submit({ ttl: TTL_MS })
    await store.jobs.settle(await holder(), { event: 'fail', error: ERROR }, { now: 0 })
    await store.jobs.sweep(TTL_MS - 1, SERVED)
    expect(row()?.sealed).toBe(SEALED)
    expect(await store.jobs.sweep(TTL_MS, SERVED)).toBe(1)
    expect(row()).toEqual({ status: 'FAILED', sealed: null })
    expect(await store.jobs.retry('ep', 'job', TTL_MS)).toEqual({ kind: 'ttl-passed' })
    expect(await store.jobs.sweep(TTL_MS, SERVED)).toBe(0)
  })

  it.each([
    ['expire', 'its ttl', async () => store.jobs.sweep(TTL_MS, SERVED)],
    [
      'forget',
      'its retention',
      async () => {
        await store.jobs.settle(await holder(), { event: 'fail', error: ERROR }, { now: 0 })
        await store.jobs.sweep(60_000, SERVED)
      },
    ],
  ])('goes with the job on %s after %s', async (_, __, gone) => {
    await submit({ ttl: TTL_MS })
    await gone()
    expect(row()).toBeUndefined()
  })

  it('leaves no trace of a job that has ended in the pages of the file', async () => {
    await submit()
    await submit({ id: 'beside', sealed: 'of another job' })
    await store.jobs.settle(await holder(), { event: 'complete', output: Buffer.from('1') }, { now: 0 })
    await store.close()
    expect(readFileSync(file).includes('of another job')).toBe(true)
    expect(readFileSync(file).includes(SEALED.slice(0, 20))).toBe(false)
    store = openSqliteStore({ file })
    expect((await store.jobs.find('ep', 'job', 0))?.status).toBe('COMPLETED')
  })

  it('is found by an index when it is to go', () => {
    const db = new DatabaseSync(file, { readOnly: true })
    const plan = db
      .prepare(
        `explain query plan select seq from jobs where s3_config is not null and status in ('FAILED', 'TIMED_OUT')
           and submitted_at + ttl_ms <= 5 limit 3`,
      )
      .all()
    db.close()
    expect(plan.map(({ detail }) => String(detail)).join()).toContain('jobs_secrets')
  })

  it('is dropped from the jobs that have ended for good in a file of the version before', async () => {
    await submit()
    await store.close()
    const old = new DatabaseSync(file)
    makeOlder(old, 4)
    const copy = old.prepare(
      `insert into jobs select seq + $n, id || $n, endpoint, $status, reason, position, attempt, lease, worker, lease_expires_at, is_confirmed,
         submitted_at, counted_from, ran_ms, started_at, deadline_at, ended_at, execution_ms, gone_at, retention_ms, execution_timeout_ms,
         low_priority, ttl_ms, webhook, s3_config, idempotency_key, body_hash, last_index, lease_index, read_index, progress, error, output,
         runs_alone, trace, lapsed_at, lost_by, dialect, error_text from jobs where id = 'job'`,
    )
    endedStatuses.forEach((status, n) => copy.run({ n: n + 1, status }))
    old.close()
    store = openSqliteStore({ file })
    const db = new DatabaseSync(file, { readOnly: true })
    const kept = db.prepare('select status from jobs where s3_config is not null order by status').all()
    db.close()
    expect(kept.map(({ status }) => status)).toEqual(['FAILED', 'IN_QUEUE', 'TIMED_OUT'])
  })
})
