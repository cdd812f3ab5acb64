// What the verbs of the SQLite engine share: the connection, its statements, the counters and the next place in line.

import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite'
import {
  finalStatuses,
  transitions,
  type EndedStatus,
  type JobEvent,
  type JobStatus,
} from '../../job/lifecycle.ts'
import type { Fence } from '../job-store.ts'
import type { CommitCounters, GroupCommit } from './group-commit.ts'
import { inStatuses } from './schema.ts'

export type Row = Record<string, SQLOutputValue>
export type Bind = Record<string, SQLInputValue>

/** A job that is past its ttl or retention is not there, swept or not. Binds $now. */
export const IS_PRESENT = 'gone_at > $now'

export interface Context {
  readonly db: DatabaseSync
  readonly statements: Statements
  readonly counters: Counters
  readonly commits: GroupCommit
  /** The next place at the back of a queue. */
  nextPosition(): number
}

/** Prepared statements by their text, so that each is compiled once. */
export class Statements {
  readonly #db: DatabaseSync
  readonly #prepared = new Map<string, StatementSync>()

  constructor(db: DatabaseSync) {
    this.#db = db
  }

  run(sql: string, bind: Bind): number {
    return Number(this.#get(sql).run(bind).changes)
  }

  find(sql: string, bind: Bind): Row | undefined {
    return this.#get(sql).get(bind)
  }

  all(sql: string, bind: Bind): Row[] {
    return this.#get(sql).all(bind)
  }

  #get(sql: string): StatementSync {
    let statement = this.#prepared.get(sql)
    if (!statement) {
      statement = this.#db.prepare(sql)
      this.#prepared.set(sql, statement)
    }
    return statement
  }
}

interface Sums {
  completed: number
  failed: number
  retried: number
  in_queue: number
  in_queue_low: number
  in_progress: number
  arrived: number
}

/** Job counts per endpoint, kept by every transition and written once per commit. */
export class Counters implements CommitCounters {
  readonly #statements: Statements
  readonly #sums = new Map<string, Sums>()

  constructor(statements: Statements) {
    this.#statements = statements
  }

  submitted(endpoint: string, { low }: { low: number }): void {
    const sums = this.#of(endpoint)
    sums.in_queue += 1
    sums.in_queue_low += low
    sums.arrived += 1 - low
  }

  /** `low`: how many of the jobs are of low priority. */
  moved(
    endpoint: string,
    event: JobEvent,
    from: JobStatus,
    { jobs = 1, low }: { jobs?: number; low: number },
  ): void {
    const to = transitions[event].to
    const sums = this.#of(endpoint)
    if (from === 'IN_QUEUE') {
      sums.in_queue -= jobs
      sums.in_queue_low -= low
    }
    if (from === 'IN_PROGRESS') sums.in_progress -= jobs
    if (to === 'IN_QUEUE') {
      sums.in_queue += jobs
      sums.in_queue_low += low
    }
    if (to === 'IN_PROGRESS') sums.in_progress += jobs
    if (to === 'COMPLETED') sums.completed += jobs
    if (to === 'FAILED' || to === 'TIMED_OUT') sums.failed += jobs
    if (event === 'lapse' || event === 'lose' || event === 'retry') sums.retried += jobs
  }

  write(): void {
    for (const [endpoint, sums] of this.#sums) {
      this.#statements.run(
        `update endpoints set completed = completed + $completed, failed = failed + $failed, retried = retried + $retried,
           in_queue = in_queue + $in_queue, in_queue_low = in_queue_low + $in_queue_low, arrived = arrived + $arrived,
           in_progress = in_progress + $in_progress where id = $endpoint`,
        { endpoint, ...sums },
      )
    }
    this.#sums.clear()
  }

  drop(): void {
    this.#sums.clear()
  }

  #of(endpoint: string): Sums {
    let sums = this.#sums.get(endpoint)
    if (!sums) {
      sums = { completed: 0, failed: 0, retried: 0, in_queue: 0, in_queue_low: 0, in_progress: 0, arrived: 0 }
      this.#sums.set(endpoint, sums)
    }
    return sums
  }
}

/** For the counters. `row` has low_priority. */
export function weightOf(row: Row): { low: number } {
  return { low: integer(row['low_priority']) }
}

/** The guard of a transition that only a lease holder may cause, and what it binds. */
export function fenceGuard(fence: Fence, event: JobEvent): { guard: string; bind: Bind } {
  const statuses = inStatuses(transitions[event].from)
  return 'lease' in fence
    ? {
        guard: `id = $id and endpoint = $endpoint and lease = $lease and ${statuses}`,
        bind: { id: fence.id, endpoint: fence.endpoint, lease: fence.lease },
      }
    : {
        guard: `id = $id and endpoint = $endpoint and worker = $worker and ${statuses}`,
        bind: { id: fence.id, endpoint: fence.endpoint, worker: fence.worker },
      }
}

/** Sets that the job is over by this event; what may run again keeps its sealed secrets. Binds $now. */
export function endsJob(event: EndingEvent): string {
  const { to } = transitions[event]
  const drops = finalStatuses.includes(to) ? ', s3_config = null' : ''
  return `status = '${to}', ended_at = $now, gone_at = $now + retention_ms${drops}`
}

type EndingEvent = {
  [E in JobEvent]: (typeof transitions)[E]['to'] extends EndedStatus ? E : never
}[JobEvent]

/**
 * Sets that a run is over: its time is added up, its lease and all that hung on it is gone. Binds $now. The worker's
 * monotonic measure is the truth; the wall clock stands in where there is none.
 */
export function endsRun(measuredMs: '$executionMs' | 'null' = 'null'): string {
  const ran = `coalesce(${measuredMs}, max(0, $now - started_at), 0)`
  return `ran_ms = ran_ms + ${ran}, execution_ms = ${ran},
    started_at = null, deadline_at = null, lease = null, lease_expires_at = null, is_confirmed = 0, progress = null`
}

export function deleteChunks(statements: Statements, seq: SQLOutputValue): void {
  statements.run('delete from chunks where job = $seq', { seq })
}

export function text(value: SQLOutputValue | undefined): string {
  if (typeof value !== 'string') throw new TypeError(`Expected text in the store, found ${typeof value}.`)
  return value
}

export function integer(value: SQLOutputValue | undefined): number {
  if (typeof value !== 'number')
    throw new TypeError(`Expected an integer in the store, found ${typeof value}.`)
  return value
}

export function blob(value: SQLOutputValue | undefined): Uint8Array {
  if (!(value instanceof Uint8Array))
    throw new TypeError(`Expected bytes in the store, found ${typeof value}.`)
  return value
}

/** `{ [name]: read(value) }`, or `{}` for null, so that optional fields are left out rather than undefined. */
export function optional<K extends string, T>(
  name: K,
  value: SQLOutputValue | undefined,
  read: (value: SQLOutputValue) => T,
): { [name in K]?: T } {
  if (value === null || value === undefined) return {}
  return { [name]: read(value) } as { [name in K]?: T }
}
