// The embedded engine: one file, write-ahead log, every commit on disk before it is answered.

import { DatabaseSync } from 'node:sqlite'
import { systemClock } from '../../lib/clock.ts'
import type { EndpointStore } from '../endpoint-store.ts'
import type { JobStore } from '../job-store.ts'
import type { KeyStore } from '../key-store.ts'
import type { Store } from '../store.ts'
import { StoreError } from '../store-error.ts'
import type { StoreEvent } from '../store-event.ts'
import type { WebhookStore } from '../webhook-store.ts'
import { composeJobs } from '../compose-jobs.ts'
import { SqliteClientVerbs } from './client-verbs.ts'
import { Counters, Statements, type Context } from './context.ts'
import { SqliteEndpoints } from './endpoints.ts'
import { LocalRates, noOthers } from '../local-traffic.ts'
import type { FleetStore } from '../fleet-store.ts'
import { lockFile } from './file-lock.ts'
import { makeFleet } from './fleet.ts'
import { GroupCommit } from './group-commit.ts'
import { SqliteKeys } from './keys.ts'
import { realFile } from './real-file.ts'
import { SqliteReads } from './reads.ts'
import { BUSY_MS, migrate } from './schema.ts'
import { ServedTime } from './served-time.ts'
import { SqliteSweep } from './sweep.ts'
import { SqliteWebhooks } from './webhooks.ts'
import { SqliteWorkerVerbs } from './worker-verbs.ts'

export interface SqliteOptions {
  /** Path of the queue file, made when missing; ':memory:' for one that nobody else sees. */
  file: string
  /** Largest size of the file in pages of 4,096 bytes; without it the disk is the limit. */
  maxPages?: number
}

/** Opens a queue file. Throws StoreError when it is in use, too new, or no queue file. */
export function openSqliteStore(options: SqliteOptions): Store {
  let lock: { release(): void } | undefined
  try {
    const file = options.file === ':memory:' ? options.file : realFile(options.file)
    if (file !== ':memory:') lock = lockFile(file)
    // A command that manages keys may be writing at the same moment.
    const db = new DatabaseSync(file, { timeout: BUSY_MS })
    prepareFile(db, options)
    return new SqliteStore(db, () => lock?.release())
  } catch (cause) {
    lock?.release()
    if (cause instanceof StoreError) throw cause
    throw unreadable(options.file, cause)
  }
}

function unreadable(file: string, cause: unknown): StoreError {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new StoreError(
    'STORE_UNREADABLE',
    `The store ${file} cannot be opened: ${why}. Name a queue file, or a new file in a folder that exists and can be written, with --store sqlite:<file>.`,
    { cause },
  )
}

function prepareFile(db: DatabaseSync, { file, maxPages }: SqliteOptions): void {
  // What is dropped from a page is overwritten there, a sealed secret above all. `on` would write over whole pages too,
  // which makes the deletion of large payloads a hundred times slower.
  db.exec('pragma secure_delete = fast')
  migrate(db, file)
  db.exec('pragma journal_mode = wal')
  db.exec('pragma synchronous = full')
  // A checkpoint writes pages twice and syncs twice: fewer and larger ones cost less per job.
  db.exec('pragma wal_autocheckpoint = 4000')
  db.exec('pragma cache_size = -65536')
  if (maxPages !== undefined) db.exec(`pragma max_page_count = ${Math.trunc(maxPages)}`)
}

class SqliteStore implements Store {
  readonly jobs: JobStore
  readonly endpoints: EndpointStore
  readonly keys: KeyStore
  readonly webhooks: WebhookStore
  readonly fleet: FleetStore
  readonly clock = systemClock
  readonly rates = new LocalRates()
  readonly presence = noOthers
  readonly #db: DatabaseSync
  readonly #commits: GroupCommit
  readonly #release: () => void
  readonly #listeners = new Set<(event: StoreEvent) => void>()

  constructor(db: DatabaseSync, release: () => void) {
    this.#db = db
    this.#release = release
    const statements = new Statements(db)
    const counters = new Counters(statements)
    this.#commits = new GroupCommit(db, counters, (event) => this.#tell(event))
    let position = Number(statements.find('select max(position) as newest from jobs', {})?.['newest'] ?? 0)
    const context: Context = {
      db,
      statements,
      counters,
      commits: this.#commits,
      nextPosition: () => (position += 1),
    }
    this.jobs = makeJobs(context)
    this.endpoints = new SqliteEndpoints(context)
    this.keys = new SqliteKeys(context)
    this.webhooks = new SqliteWebhooks(context)
    this.fleet = makeFleet(context)
  }

  watch(listener: (event: StoreEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async ping(): Promise<void> {
    await this.#commits.submit(() => undefined)
  }

  /** A file is never silent. */
  async leave(): Promise<void> {}

  async close(): Promise<void> {
    this.#commits.close()
    this.#db.close()
    this.#release()
  }

  #tell(event: StoreEvent): void {
    for (const listener of this.#listeners) listener(event)
  }
}

function makeJobs(context: Context): JobStore {
  const client = new SqliteClientVerbs(context)
  const servedTime = new ServedTime(context)
  const worker = new SqliteWorkerVerbs(context, servedTime)
  const reads = new SqliteReads(context)
  const sweep = new SqliteSweep(context, servedTime)
  return composeJobs({ client, worker, reads, sweep })
}
