// What can be read of the jobs in a queue file: a record, its chunks, the counts.

import { z } from 'zod'
import { jobErrorSchema } from '../../job/job.ts'
import type { PartKind } from '../../job/chunk.ts'
import { transitions, type JobStatus } from '../../job/lifecycle.ts'
import type { JobCounts, JobPage, JobRecord, QueueLoad, StoredChunk, StreamRead } from '../job-store.ts'
import type { JobParts } from '../compose-jobs.ts'
import { blob, integer, IS_PRESENT, optional, text, type Context, type Row } from './context.ts'
import { inStatuses } from './schema.ts'

type Reads = JobParts['reads']

const storedErrorSchema = z.string().transform((json) => jobErrorSchema.parse(JSON.parse(json)))

/** Bounds the work of one read when chunks are tiny. */
const CHUNKS_A_READ = 10_000

export class SqliteReads implements Reads {
  readonly #context: Context

  constructor(context: Context) {
    this.#context = context
  }

  // Reads need no transaction: between two commits nothing is half done.
  async find(endpoint: string, id: string, now: number): Promise<JobRecord | undefined> {
    const row = this.#context.statements.find(
      `select id, endpoint, status, reason, attempt, worker, submitted_at, counted_from, ran_ms, started_at, ended_at,
         execution_ms, output, error, error_text, progress
       from jobs where id = $id and endpoint = $endpoint and ${IS_PRESENT}`,
      { id, endpoint, now },
    )
    return row && readRecord(row, now)
  }

  async list(
    endpoint: string,
    { count, before, now }: { count: number; before?: string; now: number },
  ): Promise<JobPage> {
    const rows = this.#context.statements.all(
      `select seq, id, endpoint, status, reason, attempt, worker, submitted_at, counted_from, ran_ms, started_at, ended_at,
         execution_ms, error
       from jobs where endpoint = $endpoint and seq < $before and ${IS_PRESENT} order by seq desc limit $count`,
      {
        endpoint,
        before: before === undefined ? Number.MAX_SAFE_INTEGER : Number(before),
        count: count + 1,
        now,
      },
    )
    const jobs = rows
      .slice(0, count)
      .map((row) => ({ ...readRecord(row, now), ...optional('endedAt', row['ended_at'], integer) }))
    const isMore = rows.length > count
    return { jobs, ...(isMore && { next: String(integer(rows[count - 1]?.['seq'])) }) }
  }

  async readChunks(
    endpoint: string,
    id: string,
    read: { after?: number; maxBytes: number; now: number },
  ): Promise<StreamRead> {
    const { statements } = this.#context
    const job = statements.find(
      `select seq, status, last_index, lease_index, read_index from jobs where id = $id and endpoint = $endpoint and ${IS_PRESENT}`,
      { id, endpoint, now: read.now },
    )
    if (!job) return { kind: 'gone' }
    const seq = integer(job['seq'])
    const after = read.after ?? integer(job['read_index'])
    const upTo = this.#lastWithin(seq, after, read.maxBytes)
    const rows = statements.all(
      `select idx, attempt, output, metrics, part_as, part_first, part_last from chunks
       where job = $seq and idx > $after and idx <= $upTo order by idx`,
      { seq, after, upTo },
    )
    return {
      kind: 'read',
      status: text(job['status']) as JobStatus,
      chunks: rows.map(readChunk),
      lastIndex: integer(job['last_index']),
      leaseIndex: integer(job['lease_index']),
    }
  }

  /** The index up to which the chunks after `after` stay within `maxBytes`; the first always does. */
  #lastWithin(seq: number, after: number, maxBytes: number): number {
    const sizes = this.#context.statements.all(
      `select idx, length(output) + coalesce(length(metrics), 0) as size from chunks
       where job = $seq and idx > $after order by idx limit ${CHUNKS_A_READ}`,
      { seq, after },
    )
    let upTo = after
    let sum = 0
    for (const row of sizes) {
      sum += integer(row['size'])
      if (sum > maxBytes && upTo > after) break
      upTo = integer(row['idx'])
    }
    return upTo
  }

  markRead(endpoint: string, id: string, index: number): Promise<void> {
    return this.#context.commits.submit(() => {
      this.#context.statements.run(
        'update jobs set read_index = max(read_index, $index) where id = $id and endpoint = $endpoint',
        { id, endpoint, index },
      )
    })
  }

  async headWaitedMs(endpoint: string, now: number): Promise<number> {
    const heads = [
      this.#firstInLine(endpoint, { isLow: 0, now }),
      this.#firstInLine(endpoint, { isLow: 1, now }),
    ]
    const [head] = heads.filter((row) => row !== undefined).toSorted((a, b) => a.position - b.position)
    return head?.waitedMs ?? 0
  }

  async load(endpoint: string, now: number): Promise<QueueLoad> {
    const row = this.#context.statements.find(
      `select in_queue - in_queue_low as waiting, in_queue_low, arrived, completed + failed as ended
       from endpoints where id = $endpoint`,
      { endpoint },
    )
    return {
      waiting: Number(row?.['waiting'] ?? 0),
      waitingLowPriority: Number(row?.['in_queue_low'] ?? 0),
      oldestWaitMs: this.#firstInLine(endpoint, { isLow: 0, now })?.waitedMs ?? 0,
      arrived: Number(row?.['arrived'] ?? 0),
      ended: Number(row?.['ended'] ?? 0),
    }
  }

  /** Of one of the two lines. */
  #firstInLine(
    endpoint: string,
    { isLow, now }: { isLow: 0 | 1; now: number },
  ): { position: number; waitedMs: number } | undefined {
    const row = this.#context.statements.find(
      `select position, counted_from, ran_ms from jobs
       where endpoint = $endpoint and ${inStatuses(transitions.lease.from)} and low_priority = ${isLow} and ${IS_PRESENT}
       order by position limit 1`,
      { endpoint, now },
    )
    return (
      row && {
        position: integer(row['position']),
        waitedMs: Math.max(0, now - integer(row['counted_from']) - integer(row['ran_ms'])),
      }
    )
  }

  async count(endpoint: string): Promise<JobCounts> {
    const row = this.#context.statements.find(
      'select completed, failed, retried, in_queue, in_progress from endpoints where id = $endpoint',
      { endpoint },
    )
    return {
      completed: Number(row?.['completed'] ?? 0),
      failed: Number(row?.['failed'] ?? 0),
      inProgress: Number(row?.['in_progress'] ?? 0),
      inQueue: Number(row?.['in_queue'] ?? 0),
      retried: Number(row?.['retried'] ?? 0),
    }
  }
}

/** `row` has the columns of a job's record. */
export function readRecord(row: Row, now: number): JobRecord {
  const startedAt = row['started_at']
  const runningMs = typeof startedAt === 'number' ? Math.max(0, now - startedAt) : undefined
  const until = typeof row['ended_at'] === 'number' ? row['ended_at'] : now
  return {
    id: text(row['id']),
    endpoint: text(row['endpoint']),
    status: text(row['status']) as JobStatus,
    ...optional('reason', row['reason'], text),
    attempt: integer(row['attempt']),
    ...optional('workerId', row['worker'], text),
    submittedAt: integer(row['submitted_at']),
    delayTime: Math.max(0, until - integer(row['counted_from']) - integer(row['ran_ms']) - (runningMs ?? 0)),
    executionTime: runningMs ?? Number(row['execution_ms'] ?? 0),
    ...optional('output', row['output'], blob),
    ...optional('error', row['error'], (value) => storedErrorSchema.parse(value)),
    ...optional('errorText', row['error_text'], text),
    ...optional('progress', row['progress'], blob),
  }
}

function readChunk(row: Row): StoredChunk {
  return {
    index: integer(row['idx']),
    attempt: integer(row['attempt']),
    output: blob(row['output']),
    ...optional('metrics', row['metrics'], text),
    ...optional('part', row['part_as'], (as) => ({
      as: text(as) as PartKind,
      first: integer(row['part_first']),
      last: row['part_last'] === 1,
    })),
  }
}
