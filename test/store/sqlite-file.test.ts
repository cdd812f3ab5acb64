import { spawnSync } from 'node:child_process'
import { existsSync, linkSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { policySchema } from '../../src/job/job.ts'
import { openStore } from '../../src/store/open-store.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { GroupCommit } from '../../src/store/sqlite/group-commit.ts'
import type { NewJob } from '../../src/store/job-store.ts'
import type { Store } from '../../src/store/store.ts'
import { makeOlder } from '../support/older-file.ts'

let dir: string
let file: string
let open: Store[]

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longshore-test-'))
  file = join(dir, 'queue.db')
  open = []
})
afterEach(async () => {
  for (const store of open) await store.close()
  rmSync(dir, { recursive: true, force: true })
})

function opened(options: Parameters<typeof openSqliteStore>[0]): Store {
  const store = openSqliteStore(options)
  open.push(store)
  return store
}

function job(id: string, more: Partial<NewJob> = {}): NewJob {
  return {
    endpoint: 'ep',
    id,
    input: Buffer.from('{}'),
    policy: policySchema.parse({}),
    retentionMs: 60_000,
    now: 1,
    ...more,
  }
}

describe('a queue file', () => {
  // Seen: on a full disk the round that gave leases the time of a pause was undone, and the next one lapsed them.
  it('makes up for time that was not served in the first round that holds', async () => {
    const store = opened({ file })
    await store.endpoints.ensureEndpoint('ep')
    const served = { leaseMs: 10_000, servedMs: 1_500 }
    await store.jobs.sweep(1, served)
    await store.jobs.enqueue(job('job'))
    await store.jobs.lease({ endpoint: 'ep', worker: 'w', count: 1, leaseMs: 10_000, now: 1 })
    const other = new DatabaseSync(file)
    other.exec(`create trigger refuses before update on jobs begin select raise(abort, 'no room'); end`)
    await expect(store.jobs.sweep(60_000, served)).rejects.toThrow('no room')
    other.exec('drop trigger refuses')
    other.close()
    await store.jobs.sweep(61_000, served)
    expect(await store.jobs.find('ep', 'job', 61_000)).toMatchObject({ status: 'IN_PROGRESS' })
  })

  it('is refused to a second server with the pid of the first', () => {
    const second = `
      import { openSqliteStore } from ${JSON.stringify(join(import.meta.dirname, '../../src/store/sqlite/sqlite-store.ts'))}
      try { openSqliteStore({ file: ${JSON.stringify(file)} }) } catch (error) { console.log(error.code, error.message) }`
    writeFileSync(join(dir, 'second.mjs'), second)
    opened({ file })
    const { stdout } = spawnSync(process.execPath, [join(dir, 'second.mjs')], { encoding: 'utf8' })
    expect(stdout).toContain('STORE_IN_USE')
    expect(stdout).toContain(`in use by process ${process.pid}`)
  })

  it('is free again when its server was killed', () => {
    const holder = `
      import { openSqliteStore } from ${JSON.stringify(join(import.meta.dirname, '../../src/store/sqlite/sqlite-store.ts'))}
      openSqliteStore({ file: ${JSON.stringify(file)} })
      process.kill(process.pid, 'SIGKILL')`
    writeFileSync(join(dir, 'holder.mjs'), holder)
    expect(spawnSync(process.execPath, [join(dir, 'holder.mjs')]).signal).toBe('SIGKILL')
    expect(existsSync(`${file}.lock`)).toBe(true)
    expect(() => opened({ file })).not.toThrow()
  })

  it('is refused when a newer longshore has written it', async () => {
    await openSqliteStore({ file }).close()
    const db = new DatabaseSync(file)
    db.exec('pragma user_version = 99')
    db.close()
    expect(() => opened({ file })).toThrow(expect.objectContaining({ code: 'STORE_TOO_NEW' }))
    expect(() => opened({ file })).toThrow(/schema version 99/)
  })

  it('is brought forward from an earlier version, and counts what waits in it by its kind', async () => {
    const store = openSqliteStore({ file })
    await store.endpoints.ensureEndpoint('ep')
    const low = { policy: policySchema.parse({ lowPriority: true }) }
    for (const id of ['a', 'b', 'c']) await store.jobs.enqueue(job(id, id === 'b' ? low : {}))
    await store.close()
    const db = new DatabaseSync(file)
    makeOlder(db, 6)
    db.close()
    const { jobs } = opened({ file })
    expect(await jobs.load('ep', 5)).toEqual({
      waiting: 2,
      waitingLowPriority: 1,
      oldestWaitMs: 4,
      arrived: 0,
      ended: 0,
    })
    const leased = await jobs.lease({ endpoint: 'ep', worker: 'w', count: 3, leaseMs: 10_000, now: 5 })
    expect(leased.map(({ id }) => id)).toEqual(['a', 'b', 'c'])
    expect(await jobs.load('ep', 5)).toMatchObject({ waiting: 0, waitingLowPriority: 0 })
  })

  it('is refused when it is the database of another program, and left as it is', () => {
    const db = new DatabaseSync(file)
    db.exec('create table customers (name text)')
    db.close()
    expect(() => opened({ file })).toThrow(expect.objectContaining({ code: 'STORE_UNREADABLE' }))
    expect(() => opened({ file })).toThrow(/another program/)
    const after = new DatabaseSync(file)
    expect(after.prepare('select name from sqlite_schema').all()).toEqual([{ name: 'customers' }])
    after.close()
  })

  it('is refused under a second name while it is open, and with a hard link at all', () => {
    opened({ file })
    const second = join(dir, 'second.db')
    symlinkSync(file, second)
    expect(() => opened({ file: second })).toThrow(expect.objectContaining({ code: 'STORE_IN_USE' }))
    const third = join(dir, 'third.db')
    linkSync(file, third)
    expect(() => opened({ file: third })).toThrow(/hard link/)
  })

  it('is refused when it is something else, or in no folder', () => {
    writeFileSync(file, 'this is a letter, not a database; it is long enough to be read as one')
    expect(() => opened({ file })).toThrow(expect.objectContaining({ code: 'STORE_UNREADABLE' }))
    expect(() => opened({ file: join(dir, 'missing', 'queue.db') })).toThrow(
      expect.objectContaining({ code: 'STORE_UNREADABLE' }),
    )
  })

  it('is named by a sqlite: URL', async () => {
    const store = await openStore('sqlite::memory:')
    await store.close()
    await expect(openStore('queue.db')).rejects.toThrow(/Use sqlite:<file>/)
  })

  it('says STORE_FULL when it may not grow, loses nothing and goes on reading', async () => {
    const store = opened({ file, maxPages: 60 })
    await store.endpoints.ensureEndpoint('ep')
    await store.jobs.enqueue(job('small'))
    const large = job('large', { input: Buffer.alloc(500_000, 'x') })
    const results = await Promise.allSettled([
      store.jobs.enqueue(job('before')),
      store.jobs.enqueue(large),
      store.jobs.enqueue(job('after')),
    ])
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(results[1]).toMatchObject({ reason: { code: 'STORE_FULL' } })
    for (const id of ['small', 'before', 'after']) expect(await store.jobs.find('ep', id, 1)).toBeDefined()
    expect(await store.jobs.find('ep', 'large', 1)).toBeUndefined()
    expect((await store.jobs.count('ep')).inQueue).toBe(3)
  })

  it('shrinks again when jobs are forgotten', async () => {
    const store = opened({ file })
    await store.endpoints.ensureEndpoint('ep')
    for (let n = 0; n < 20; n += 1)
      await store.jobs.enqueue(job(`job-${n}`, { input: Buffer.alloc(100_000, 'x') }))
    const pages = (): number => {
      const db = new DatabaseSync(file, { readOnly: true })
      const count = Number(db.prepare('pragma page_count').get()?.['page_count'])
      db.close()
      return count
    }
    const before = pages()
    await store.jobs.sweep(1, { leaseMs: 10_000, servedMs: 10_000 })
    for (let n = 0; n < 5; n += 1) await store.jobs.sweep(90_000_000, { leaseMs: 10_000, servedMs: 10_000 })
    expect(pages()).toBeLessThan(before)
  })

  it('finds every job that a verb or a sweep looks for by an index', () => {
    opened({ file })
    const db = new DatabaseSync(file, { readOnly: true })
    const plan = (sql: string): string =>
      db
        .prepare(`explain query plan ${sql}`)
        .all()
        .map(({ detail }) => String(detail))
        .join('; ')
    for (const [isLow, index] of ['jobs_waiting', 'jobs_waiting_low'].entries()) {
      const waiting = plan(
        `select seq from jobs where endpoint = 'ep' and status in ('IN_QUEUE') and low_priority = ${isLow} and gone_at > 5
         order by position limit 3`,
      )
      expect(waiting).toContain(`${index} (`)
      expect(waiting).not.toContain('TEMP B-TREE')
    }
    expect(plan(`select seq from jobs where status in ('IN_PROGRESS') and lease_expires_at <= 5`)).toContain(
      'jobs_leased',
    )
    expect(
      plan(
        `select seq from jobs where status in ('IN_PROGRESS') and deadline_at is not null and deadline_at <= 5`,
      ),
    ).toContain('jobs_deadline')
    expect(plan(`select seq from jobs where gone_at <= 5`)).toContain('jobs_gone')
    const listed = plan(
      `select id from jobs where endpoint = 'ep' and seq < 9 and gone_at > 5 order by seq desc limit 3`,
    )
    expect(listed).toContain('jobs_endpoint')
    expect(listed).not.toContain('TEMP B-TREE')
    const owed = plan(`select seq from deliveries where origin = 'o' and due_at <= 5 order by due_at limit 3`)
    expect(owed).toContain('deliveries_origin')
    expect(owed).not.toContain('TEMP B-TREE')
    expect(plan(`select min(origin) from deliveries where origin > 'o'`)).toContain('deliveries_origin')
    expect(plan(`select seq from deliveries where endpoint = 'ep' limit 3`)).toContain('deliveries_endpoint')
    expect(plan(`select min(due_at) from deliveries`)).toContain('deliveries_due')
    db.close()
  })
})

describe('group commit', () => {
  it('shares one transaction among what is asked for in one turn, in the order of the asking', async () => {
    const db = new DatabaseSync(file)
    db.exec('create table t (n integer)')
    let commits = 0
    const counters = { write: () => void (commits += 1), drop: () => undefined }
    const group = new GroupCommit(db, counters, () => undefined)
    const insert = (n: number): Promise<number> =>
      group.submit(() => Number(db.prepare('insert into t values (?)').run(n).lastInsertRowid))
    expect(await Promise.all([insert(1), insert(2), insert(3)])).toEqual([1, 2, 3])
    expect(commits).toBe(1)
    db.close()
  })

  it('undoes alone what throws, tells events only of what held, and once', async () => {
    const db = new DatabaseSync(file)
    db.exec('create table t (n integer)')
    const told: string[] = []
    const group = new GroupCommit(db, { write: () => undefined, drop: () => undefined }, (event) =>
      told.push(event.kind),
    )
    const good = group.submit((transaction) => {
      db.exec('insert into t values (1)')
      transaction.emit({ kind: 'queued', endpoint: 'ep' })
    })
    const bad = group.submit((transaction) => {
      db.exec('insert into t values (2)')
      transaction.emit({ kind: 'chunks', endpoint: 'ep', id: 'x' })
      throw new Error('half-way')
    })
    await expect(bad).rejects.toThrow('half-way')
    await good
    expect(db.prepare('select n from t').all()).toEqual([{ n: 1 }])
    expect(told).toEqual(['queued'])
    db.close()
  })
})
