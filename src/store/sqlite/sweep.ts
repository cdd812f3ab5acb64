// The tidying of a queue file: what time alone does to a job.

import { isAllowed, isEnded, transitions, type JobStatus } from '../../job/lifecycle.ts'
import type { JobError } from '../../job/job.ts'
import type { StopCause } from '../store-event.ts'
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
import { inStatuses, KEEPS_SECRETS } from './schema.ts'
import type { ServedTime } from './served-time.ts'

/** Rows of one kind in one round: about 10 ms of work, so that requests are never kept waiting long. */
const ROUND = 500

const FIELDS =
  'seq, id, endpoint, status, worker, lease, last_index, attempt, is_confirmed, started_at, low_priority, webhook'

export class SqliteSweep {
  readonly #context: Context
  readonly #servedTime: ServedTime

  constructor(context: Context, servedTime: ServedTime) {
    this.#context = context
    this.#servedTime = servedTime
  }

  async sweep(now: number, served: { leaseMs: number; servedMs: number }): Promise<number> {
    const swept = await this.#context.commits.submit((transaction) => {
      this.#servedTime.sweep(now, served)
      return (
        this.#delete(transaction, now) +
        this.#timeOut(transaction, now) +
        this.#lapse(transaction, now) +
        this.#dropSecrets(now)
      )
    })
    // Pages that deletions freed go back to the system a few at a time.
    if (swept > 0) this.#context.db.exec('pragma incremental_vacuum(256)')
    return swept
  }

  #delete(transaction: Transaction, now: number): number {
    const rows = this.#context.statements.all(
      `select ${FIELDS} from jobs where gone_at <= $now limit ${ROUND}`,
      { now },
    )
    for (const row of rows) {
      removeJob(
        this.#context,
        transaction,
        row,
        isEnded(text(row['status']) as JobStatus) ? 'forget' : 'expire',
      )
    }
    return rows.length
  }

  #timeOut(transaction: Transaction, now: number): number {
    const rows = this.#context.statements.all(
      `select ${FIELDS} from jobs where ${inStatuses(transitions.timeOut.from)} and deadline_at is not null and deadline_at <= $now and ${IS_PRESENT} limit ${ROUND}`,
      { now },
    )
    for (const row of rows) {
      const error: JobError = {
        type: 'TimeoutError',
        message: `The job ran longer than its executionTimeout, and worker ${text(row['worker'])} did not report its end. Raise policy.executionTimeout, or look at that worker.`,
        code: 'TIMED_OUT',
      }
      this.#fail(transaction, row, { event: 'timeOut', error, now, stop: 'timeout' })
    }
    return rows.length
  }

  #lapse(transaction: Transaction, now: number): number {
    const rows = this.#context.statements.all(
      `select ${FIELDS}, (select max_attempts from endpoints where endpoints.id = jobs.endpoint) as max_attempts
       from jobs where ${inStatuses(transitions.lapse.from)} and lease_expires_at <= $now and ${IS_PRESENT} limit ${ROUND}`,
      { now },
    )
    for (const row of rows) {
      const attempt = integer(row['attempt'])
      // A lease that its worker never spoke of was lost on the way; the job did not run.
      if (row['is_confirmed'] === 0 && row['started_at'] === null)
        this.#requeue(transaction, row, 'release', now)
      else if (attempt < integer(row['max_attempts'])) this.#requeue(transaction, row, 'lapse', now)
      else {
        const error: JobError = {
          type: 'WorkerLostError',
          message: `Worker ${text(row['worker'])} was not heard of for longer than its lease, in attempt ${attempt} of ${attempt}. Look at why it died, then retry the job.`,
          code: 'WORKER_LOST',
        }
        this.#fail(transaction, row, { event: 'lapseLast', error, now, stop: 'lease-lost' })
      }
    }
    return rows.length
  }

  /** A failed job keeps its secrets for a retry, which its ttl ends. */
  #dropSecrets(now: number): number {
    return this.#context.statements.run(
      `update jobs set s3_config = null where seq in (
         select seq from jobs where ${KEEPS_SECRETS} and submitted_at + ttl_ms <= $now limit ${ROUND})`,
      { now },
    )
  }

  #requeue(transaction: Transaction, row: Row, event: 'release' | 'lapse', now: number): void {
    const { statements, counters } = this.#context
    const endpoint = text(row['endpoint'])
    const id = text(row['id'])
    if (integer(row['last_index']) > 0) deleteChunks(statements, integer(row['seq']))
    statements.run(
      `update jobs set status = '${transitions[event].to}', reason = '${transitions[event].reason}', attempt = attempt + $counted,
         lapsed_at = $now, lost_by = worker, ${endsRun()} where seq = $seq`,
      { seq: integer(row['seq']), counted: event === 'lapse' ? 1 : 0, now },
    )
    counters.moved(endpoint, event, statusOf(row), weightOf(row))
    emitStop(transaction, row, 'lease-lost')
    transaction.emit({ kind: 'changed', endpoint, id, status: transitions[event].to })
    transaction.emit({ kind: 'queued', endpoint })
  }

  #fail(
    transaction: Transaction,
    row: Row,
    end: { event: 'timeOut' | 'lapseLast'; error: JobError; now: number; stop: StopCause },
  ): void {
    const { statements, counters } = this.#context
    const endpoint = text(row['endpoint'])
    const { to } = transitions[end.event]
    // Retried, it must not go back at once to a worker without tokens that may still run it.
    const lapse = end.event === 'lapseLast' ? ', lapsed_at = $now, lost_by = worker' : ''
    statements.run(
      `update jobs set ${endsJob(end.event)}, reason = $reason, error = $error${lapse}, ${endsRun()} where seq = $seq`,
      {
        seq: integer(row['seq']),
        reason: end.event === 'lapseLast' ? transitions.lapseLast.reason : null,
        error: JSON.stringify(end.error),
        now: end.now,
      },
    )
    counters.moved(endpoint, end.event, statusOf(row), weightOf(row))
    emitStop(transaction, row, end.stop)
    oweWebhook(this.#context, transaction, row, end.now)
    transaction.emit({ kind: 'changed', endpoint, id: text(row['id']), status: to })
  }
}

function statusOf(row: Row): JobStatus {
  const status = text(row['status']) as JobStatus
  if (!isAllowed('lapse', status))
    throw new Error(`A sweep found job ${text(row['id'])} ${status} among the running.`)
  return status
}
