// A queue file as a source: read row by row under its lock, so that nobody serves it meanwhile.

import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { PartKind } from '../../job/chunk.ts'
import type { JobStatus } from '../../job/lifecycle.ts'
import { systemClock } from '../../lib/clock.ts'
import { keySchema } from '../../resource/key.ts'
import type { MovedDelivery, MovedEndpoint, MovedJob, MovedRecord, MovedRun, QueueSource } from '../moved.ts'
import type { RecordKind } from '../fleet-store.ts'
import type { Dialect, StoredChunk } from '../job-store.ts'
import { StoreError } from '../store-error.ts'
import { integer, text, type Row } from './context.ts'
import { realFile } from './real-file.ts'
import { openSqliteStore } from './sqlite-store.ts'

const LEASE_MS = 60_000

/** Throws StoreError when the file is served. Jobs that were leased go back to their places in line, uncounted. */
export async function openSqliteSource(name: string): Promise<QueueSource> {
  const file = realFile(name)
  if (!existsSync(file))
    throw new StoreError('STORE_UNREADABLE', `There is no queue file ${name}. Check the name.`)
  const store = openSqliteStore({ file })
  const db = new DatabaseSync(file, { readOnly: true })
  // What is past its time is not there, and a lease of it could not be given back.
  const served = { leaseMs: LEASE_MS, servedMs: LEASE_MS }
  while ((await store.jobs.sweep(systemClock.now(), served)) > 0) continue
  // What is being removed is not moved.
  for (const { id } of db.prepare('select id from endpoints where is_removed = 1').all())
    await store.endpoints.removeEndpoint(text(id))
  const leased = db.prepare('select endpoint, id, lease from jobs where lease is not null').all()
  for (const { endpoint, id, lease } of leased) {
    const fence = { endpoint: text(endpoint), id: text(id), lease: text(lease) }
    await store.jobs.release(fence, systemClock.now())
  }
  return {
    endpoints: () =>
      db.prepare('select * from endpoints where is_removed = 0 order by id').all().map(readEndpoint),
    keys: () => db.prepare('select * from keys').all().map(readKey),
    jobs: () => readJobs(db),
    deliveries: () => readDeliveries(db),
    records: () => mapped(db.prepare('select * from records order by kind, id').iterate(), readRecord),
    async close() {
      db.close()
      await store.close()
    },
  }
}

function* readJobs(db: DatabaseSync): Generator<MovedJob> {
  const rows = db.prepare('select jobs.*, body as input from jobs join inputs on job = seq order by seq')
  const chunks = db.prepare('select * from chunks where job = ? order by idx')
  for (const row of rows.iterate()) {
    const seq = integer(row['seq'])
    yield {
      ...readRun(row),
      submission: seq,
      position: integer(row['position']),
      goneAt: integer(row['gone_at']),
      retentionMs: integer(row['retention_ms']),
      ...present('executionTimeoutMs', row['execution_timeout_ms'], integer),
      isLowPriority: row['low_priority'] === 1,
      ttlMs: integer(row['ttl_ms']),
      ...present('webhook', row['webhook'], text),
      ...present('sealedS3Config', row['s3_config'], bytes),
      ...(row['idempotency_key'] !== null && {
        idempotency: { key: text(row['idempotency_key']), bodyHash: text(row['body_hash']) },
      }),
      isAlone: row['runs_alone'] === 1,
      ...(row['lapsed_at'] !== null && {
        lapsed: { at: integer(row['lapsed_at']), by: text(row['lost_by']) },
      }),
      lastIndex: integer(row['last_index']),
      leaseIndex: integer(row['lease_index']),
      readIndex: integer(row['read_index']),
      chunks: mapped(chunks.iterate(seq), readChunk),
    }
  }
}

function* readDeliveries(db: DatabaseSync): Generator<MovedDelivery> {
  for (const row of db.prepare('select * from deliveries order by seq').iterate()) {
    yield {
      ...readRun(row),
      url: text(row['url']),
      origin: text(row['origin']),
      dueAt: integer(row['due_at']),
      attempts: integer(row['attempts']),
    }
  }
}

function readRun(row: Row): MovedRun {
  return {
    id: text(row['id']),
    endpoint: text(row['endpoint']),
    status: text(row['status']) as JobStatus,
    ...present('reason', row['reason'], text),
    attempt: integer(row['attempt']),
    ...present('worker', row['worker'], text),
    submittedAt: integer(row['submitted_at']),
    countedFrom: integer(row['counted_from']),
    ranMs: integer(row['ran_ms']),
    ...present('endedAt', row['ended_at'], integer),
    ...present('executionMs', row['execution_ms'], integer),
    ...present('dialect', row['dialect'], (value) => text(value) as Dialect),
    ...present('trace', row['trace'], text),
    ...present('error', row['error'], text),
    ...present('errorText', row['error_text'], text),
    ...present('output', row['output'], bytes),
    input: bytes(row['input']),
  }
}

function readChunk(row: Row): StoredChunk {
  return {
    index: integer(row['idx']),
    attempt: integer(row['attempt']),
    output: bytes(row['output']),
    ...present('metrics', row['metrics'], text),
    ...(row['part_as'] !== null && {
      part: {
        as: text(row['part_as']) as PartKind,
        first: integer(row['part_first']),
        last: row['part_last'] === 1,
      },
    }),
  }
}

function readEndpoint(row: Row): MovedEndpoint {
  return {
    id: text(row['id']),
    executionTimeoutMs: integer(row['execution_timeout_ms']),
    maxAttempts: integer(row['max_attempts']),
    completed: integer(row['completed']),
    failed: integer(row['failed']),
    retried: integer(row['retried']),
    arrived: integer(row['arrived']),
  }
}

function readKey(row: Row): ReturnType<QueueSource['keys']>[number] {
  const key = keySchema.parse({
    id: row['id'],
    name: row['name'],
    permissions: JSON.parse(text(row['permissions'])),
    ...present('endpoints', row['endpoints'], (value) => JSON.parse(text(value)) as unknown),
    createdAt: integer(row['created_at']),
  })
  return { ...key, hash: text(row['hash']) }
}

function readRecord(row: Row): MovedRecord {
  return {
    kind: text(row['kind']) as RecordKind,
    id: text(row['id']),
    ...present('name', row['name'], text),
    revision: integer(row['revision']),
    body: text(row['body']),
  }
}

function* mapped<T>(rows: Iterable<Row>, read: (row: Row) => T): Generator<T> {
  for (const row of rows) yield read(row)
}

type Value = Row[string] | undefined

function bytes(value: Value): Uint8Array {
  if (value instanceof Uint8Array) return value
  throw new TypeError(`Expected bytes in a queue file, got ${typeof value}.`)
}

function present<K extends string, T>(name: K, value: Value, read: (value: Value) => T): { [name in K]?: T } {
  return (value === null || value === undefined ? {} : { [name]: read(value) }) as { [name in K]?: T }
}
