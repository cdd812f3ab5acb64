// The tables of a queue file, as migrations that only go forward.

import type { DatabaseSync } from 'node:sqlite'
import { finalStatuses, transitions, type JobStatus } from '../../job/lifecycle.ts'
import { StoreError } from '../store-error.ts'

/** A status list for SQL. The words come from the lifecycle table, never from a caller. */
export function inStatuses(statuses: readonly JobStatus[]): string {
  return `status in (${statuses.map((status) => `'${status}'`).join(', ')})`
}

const waiting = inStatuses(transitions.lease.from)
const running = inStatuses(transitions.complete.from)

/** Jobs that have ended and may be retried with the secrets they came with. */
export const KEEPS_SECRETS = `s3_config is not null and ${inStatuses(transitions.retry.from)}`

// The input stands apart, so that moving a job through its life does not rewrite it.
const migrations: readonly string[] = [
  `
  create table endpoints (
    id text primary key,
    execution_timeout_ms integer not null,
    max_attempts integer not null,
    completed integer not null default 0,
    failed integer not null default 0,
    retried integer not null default 0,
    in_queue integer not null default 0,
    in_progress integer not null default 0
  ) without rowid;

  create table keys (
    hash text primary key,
    name text not null,
    created_at integer not null
  ) without rowid;

  create table jobs (
    seq integer primary key,
    id text not null unique,
    endpoint text not null,
    status text not null,
    reason text,
    position integer not null,
    attempt integer not null default 1,
    lease text,
    worker text,
    lease_expires_at integer,
    is_confirmed integer not null default 0,
    submitted_at integer not null,
    /** Submission or the last retry: where delayTime counts from. */
    counted_from integer not null,
    /** ms run in attempts that came to nothing since then. */
    ran_ms integer not null default 0,
    started_at integer,
    /** When the server ends a job whose worker has gone silent about it. */
    deadline_at integer,
    ended_at integer,
    execution_ms integer,
    /** When the job is deleted: at its ttl while it has not ended, after its retention once it has. */
    gone_at integer not null,
    retention_ms integer not null,
    execution_timeout_ms integer,
    low_priority integer not null,
    ttl_ms integer not null,
    webhook text,
    s3_config blob,
    idempotency_key text,
    body_hash text,
    /** Index of the newest chunk there ever was, of the last one before this lease, of the last one read. */
    last_index integer not null default 0,
    lease_index integer not null default 0,
    read_index integer not null default 0,
    progress blob,
    error text,
    output blob
  );
  create index jobs_waiting on jobs (endpoint, position) where ${waiting};
  create index jobs_leased on jobs (lease_expires_at) where ${running};
  create index jobs_deadline on jobs (deadline_at) where deadline_at is not null;
  create index jobs_gone on jobs (gone_at);
  create unique index jobs_idempotency on jobs (endpoint, idempotency_key) where idempotency_key is not null;

  create table inputs (
    job integer primary key,
    body blob not null
  );

  create table chunks (
    job integer not null,
    idx integer not null,
    attempt integer not null,
    output blob not null,
    metrics text,
    part_as text,
    part_first integer,
    part_last integer,
    primary key (job, idx)
  );
  `,
  `
  /** Whether no other job may share its process. */
  alter table jobs add column runs_alone integer not null default 0;
  /** W3C trace context of the submission, as JSON. */
  alter table jobs add column trace text;
  `,
  `
  /** What a key may do: a JSON array. Keys from before this were the owner's. */
  alter table keys add column permissions text not null default '["read","write","worker","fleet"]';
  /** A JSON array of endpoint ids; null for all of them. */
  alter table keys add column endpoints text;
  alter table keys add column id text;
  update keys set id = 'key_' || lower(hex(randomblob(8)));
  create unique index keys_id on keys (id);
  `,
  `
  /** Lists an endpoint's jobs in the order of their submission: an index ends with the row's own number. */
  create index jobs_endpoint on jobs (endpoint);
  /** When a lease of it last lapsed, and whose that was. */
  alter table jobs add column lapsed_at integer;
  alter table jobs add column lost_by text;
  alter table jobs add column dialect text;
  /** A foreign worker's own words. */
  alter table jobs add column error_text text;
  /** What webhooks are owed: a copy of the job as it ended, which its deletion does not touch. */
  create table deliveries (
    /** Never used twice: a try may still be under way when its delivery is dropped. */
    seq integer primary key autoincrement,
    url text not null,
    origin text not null,
    due_at integer not null,
    attempts integer not null default 0,
    id text not null,
    endpoint text not null,
    dialect text,
    status text not null,
    reason text,
    attempt integer not null,
    worker text,
    submitted_at integer not null,
    counted_from integer not null,
    ran_ms integer not null,
    ended_at integer not null,
    execution_ms integer,
    trace text,
    error text,
    error_text text,
    output blob,
    input blob not null
  );
  create index deliveries_due on deliveries (due_at);
  create index deliveries_origin on deliveries (origin, due_at);
  create index deliveries_job on deliveries (id);
  `,
  `
  update jobs set s3_config = null where s3_config is not null and ${inStatuses(finalStatuses)};
  /** When a job can no longer be retried, and what it was sealed with is to go. */
  create index jobs_secrets on jobs (submitted_at + ttl_ms) where ${KEEPS_SECRETS};
  `,
  `
  /** Templates, endpoints, pods and what else the fleet keeps, as JSON. */
  create table records (
    kind text not null,
    id text not null,
    /** Where names of the kind are unique. */
    name text,
    revision integer not null default 1,
    body text not null,
    primary key (kind, id)
  ) without rowid;
  create unique index records_name on records (kind, name) where name is not null;
  create table duties (
    duty text primary key,
    holder text not null,
    until integer not null
  ) without rowid;
  `,
  `
  /** Jobs of low priority that wait, and submissions of others. */
  alter table endpoints add column in_queue_low integer not null default 0;
  alter table endpoints add column arrived integer not null default 0;
  /** A job waits in one of two lines, so that the first of either is found at once, at the price of one index. */
  drop index jobs_waiting;
  create index jobs_waiting on jobs (endpoint, position) where ${waiting} and low_priority = 0;
  create index jobs_waiting_low on jobs (endpoint, position) where ${waiting} and low_priority = 1;
  update endpoints set in_queue_low =
    (select count(*) from jobs where endpoint = endpoints.id and ${waiting} and low_priority = 1);
  `,
  `
  /** What is left of an endpoint that was removed is its name, so that nobody makes it anew who only keeps it. */
  alter table endpoints add column is_removed integer not null default 0;
  create index deliveries_endpoint on deliveries (endpoint);
  `,
]

export const SCHEMA_VERSION = migrations.length

/** How long to wait for another process that writes to the file, ms. */
export const BUSY_MS = 5_000

/** Refuses a file of any other version than this, without touching it. */
export function checkVersion(db: DatabaseSync, file: string): void {
  const version = Number(db.prepare('pragma user_version').get()?.['user_version'])
  if (version === SCHEMA_VERSION) return
  throw new StoreError(
    'STORE_IN_USE',
    `The store ${file} has schema version ${version}, this longshore writes version ${SCHEMA_VERSION}, and a service of that other version is running on it. Use the longshore that serves it, or stop it first.`,
  )
}

/** Brings a file to this version in one transaction; refuses one that a newer longshore has written. */
export function migrate(db: DatabaseSync, file: string): void {
  const row = db.prepare('pragma user_version').get()
  const version = Number(row?.['user_version'])
  if (version > SCHEMA_VERSION) {
    throw new StoreError(
      'STORE_TOO_NEW',
      `The store ${file} has schema version ${version}, and this longshore knows versions up to ${SCHEMA_VERSION}. Start the newer longshore that wrote it, or name another file with --store.`,
    )
  }
  const tables = db
    .prepare("select name from sqlite_schema where type = 'table'")
    .all()
    .map(({ name }) => name)
  if (version === 0 ? tables.length > 0 : !tables.includes('jobs') || !tables.includes('endpoints')) {
    throw new StoreError(
      'STORE_UNREADABLE',
      `The file ${file} is a SQLite database of another program. Name a queue file, or a new one, with --store sqlite:<file>.`,
    )
  }
  if (version === SCHEMA_VERSION) return
  // Only a file that has no pages yet takes this setting.
  if (version === 0) db.exec('pragma auto_vacuum = incremental')
  db.exec('begin immediate')
  try {
    for (const migration of migrations.slice(version)) db.exec(migration)
    db.exec(`pragma user_version = ${SCHEMA_VERSION}`)
    db.exec('commit')
  } catch (cause) {
    if (db.isTransaction) db.exec('rollback')
    throw cause
  }
}
