// What clients do to jobs in a queue file: submit, cancel, retry, purge, move the ttl.

import { isAllowed, transitions, type JobStatus } from '../../job/lifecycle.ts'
import type { Enqueued, JobStore, NewJob } from '../job-store.ts'
import type { JobParts } from '../compose-jobs.ts'
import {
  deleteChunks,
  endsJob,
  endsRun,
  integer,
  IS_PRESENT,
  text,
  weightOf,
  type Context,
  type Row,
} from './context.ts'
import type { Transaction } from './group-commit.ts'
import { emitStop } from './emit-stop.ts'
import { oweWebhook } from './owe-webhook.ts'
import { removeJob } from './remove-job.ts'
import { inStatuses } from './schema.ts'

type ClientVerbs = JobParts['client']

export class SqliteClientVerbs implements ClientVerbs {
  readonly #context: Context

  constructor(context: Context) {
    this.#context = context
  }

  enqueue(job: NewJob): Promise<Enqueued> {
    const { statements, counters, commits } = this.#context
    return commits.submit((transaction) => {
      // It was let in before the endpoint was removed, and is gone with all the others.
      if (this.#isRemoved(job.endpoint)) return { kind: 'created', id: job.id, status: 'IN_QUEUE' }
      const earlier = job.idempotency && this.#findByKey(job, job.idempotency, transaction)
      if (earlier) return earlier
      const position = this.#context.nextPosition()
      const inserted = statements.find(
        `insert into jobs (id, endpoint, status, position, submitted_at, counted_from, gone_at, retention_ms,
           execution_timeout_ms, low_priority, ttl_ms, webhook, dialect, s3_config, trace, idempotency_key, body_hash)
         values ($id, $endpoint, 'IN_QUEUE', $position, $now, $now, $now + $ttl, $retention,
           $timeout, $low, $ttl, $webhook, $dialect, $s3, $trace, $key, $hash) returning seq`,
        {
          id: job.id,
          endpoint: job.endpoint,
          position,
          now: job.now,
          ttl: job.policy.ttl,
          retention: job.retentionMs,
          timeout: job.policy.executionTimeout ?? null,
          low: job.policy.lowPriority ? 1 : 0,
          webhook: job.webhook ?? null,
          dialect: job.dialect ?? null,
          s3: job.sealedS3Config ?? null,
          trace: job.trace ? JSON.stringify(job.trace) : null,
          key: job.idempotency?.key ?? null,
          hash: job.idempotency?.bodyHash ?? null,
        },
      )
      statements.run('insert into inputs (job, body) values ($seq, $body)', {
        seq: integer(inserted?.['seq']),
        body: job.input,
      })
      counters.submitted(job.endpoint, { low: job.policy.lowPriority ? 1 : 0 })
      transaction.emit({ kind: 'queued', endpoint: job.endpoint })
      return { kind: 'created', id: job.id, status: 'IN_QUEUE' }
    })
  }

  cancel(endpoint: string, id: string, now: number): ReturnType<JobStore['cancel']> {
    const { statements, counters, commits } = this.#context
    return commits.submit((transaction) => {
      const row = this.#findPresent(endpoint, id, now)
      if (!row) return { kind: 'not-found' as const }
      const status = text(row['status']) as JobStatus
      if (!isAllowed('cancel', status)) return { kind: 'done' as const, status }
      // One that waits has no run to end, and keeps the time of its last one.
      const run = row['lease'] === null ? '' : `, ${endsRun()}`
      statements.run(
        `update jobs set ${endsJob('cancel')}, reason = '${transitions.cancel.reason}'${run} where seq = $seq`,
        { seq: integer(row['seq']), now },
      )
      counters.moved(endpoint, 'cancel', status, weightOf(row))
      if (row['lease'] !== null) emitStop(transaction, row, 'cancelled')
      oweWebhook(this.#context, transaction, row, now)
      transaction.emit({ kind: 'changed', endpoint, id, status: transitions.cancel.to })
      return { kind: 'done' as const, status: transitions.cancel.to }
    })
  }

  retry(endpoint: string, id: string, now: number): ReturnType<JobStore['retry']> {
    const { statements, counters, commits } = this.#context
    return commits.submit((transaction) => {
      const row = this.#findPresent(endpoint, id, now)
      if (!row) return { kind: 'not-found' as const }
      const status = text(row['status']) as JobStatus
      if (!isAllowed('retry', status)) return { kind: 'wrong-status' as const, status }
      const expiresAt = integer(row['submitted_at']) + integer(row['ttl_ms'])
      if (expiresAt <= now) return { kind: 'ttl-passed' as const }
      deleteChunks(statements, row['seq'] ?? null)
      if (row['webhook'] !== null) statements.run('delete from deliveries where id = $id', { id })
      statements.run(
        `update jobs set status = '${transitions.retry.to}', reason = '${transitions.retry.reason}',
           position = $position, attempt = 1, runs_alone = 0, counted_from = $now, ran_ms = 0, execution_ms = null, worker = null,
           ended_at = null, gone_at = $expiresAt, output = null, error = null, error_text = null where seq = $seq`,
        { seq: integer(row['seq']), position: this.#context.nextPosition(), expiresAt, now },
      )
      counters.moved(endpoint, 'retry', status, weightOf(row))
      transaction.emit({ kind: 'changed', endpoint, id, status: transitions.retry.to })
      transaction.emit({ kind: 'queued', endpoint })
      return { kind: 'done' as const, status: transitions.retry.to }
    })
  }

  purge(endpoint: string, now: number): Promise<number> {
    const { statements, counters, commits } = this.#context
    return commits.submit((transaction) => {
      // Each line by its own index.
      const [counting, low] = [0, 1].map((isLow) =>
        statements.all(
          `update jobs set ${endsJob('purge')}, reason = '${transitions.purge.reason}'
           where endpoint = $endpoint and ${inStatuses(transitions.purge.from)} and low_priority = ${isLow} and ${IS_PRESENT}
           returning seq, id, webhook`,
          { endpoint, now },
        ),
      ) as [Row[], Row[]]
      const purged = [...counting, ...low]
      counters.moved(endpoint, 'purge', 'IN_QUEUE', { jobs: purged.length, low: low.length })
      for (const row of purged) {
        transaction.emit({ kind: 'changed', endpoint, id: text(row['id']), status: transitions.purge.to })
        oweWebhook(this.#context, transaction, row, now)
      }
      return purged.length
    })
  }

  setTtl(endpoint: string, id: string, ttlMs: number, now: number): Promise<void> {
    const { statements, commits } = this.#context
    return commits.submit((transaction) => {
      const row = this.#findPresent(endpoint, id, now)
      if (!row || !isAllowed('expire', text(row['status']) as JobStatus)) return
      const expiresAt = integer(row['submitted_at']) + ttlMs
      statements.run('update jobs set gone_at = $expiresAt, ttl_ms = $ttlMs where seq = $seq', {
        seq: integer(row['seq']),
        expiresAt,
        ttlMs,
      })
      if (expiresAt <= now) removeJob(this.#context, transaction, row, 'expire')
    })
  }

  #isRemoved(endpoint: string): boolean {
    const sql = 'select 1 from endpoints where id = $endpoint and is_removed = 1'
    return this.#context.statements.find(sql, { endpoint }) !== undefined
  }

  #findPresent(endpoint: string, id: string, now: number): Row | undefined {
    return this.#context.statements.find(
      `select seq, id, endpoint, status, worker, lease, submitted_at, ttl_ms, last_index, low_priority, webhook from jobs
       where id = $id and endpoint = $endpoint and ${IS_PRESENT}`,
      { id, endpoint, now },
    )
  }

  #findByKey(
    job: NewJob,
    { key, bodyHash }: { key: string; bodyHash: string },
    transaction: Transaction,
  ): Enqueued | undefined {
    const row = this.#context.statements.find(
      `select seq, id, endpoint, status, worker, lease, last_index, low_priority, body_hash, ${IS_PRESENT} as is_present from jobs
       where endpoint = $endpoint and idempotency_key = $key`,
      { endpoint: job.endpoint, key, now: job.now },
    )
    if (!row) return undefined
    const id = text(row['id'])
    const status = text(row['status']) as JobStatus
    if (row['is_present'] === 0) {
      removeJob(this.#context, transaction, row, isAllowed('expire', status) ? 'expire' : 'forget')
      return undefined
    }
    return row['body_hash'] === bodyHash ? { kind: 'duplicate', id, status } : { kind: 'conflict', id }
  }
}
