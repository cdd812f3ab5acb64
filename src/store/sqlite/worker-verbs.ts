// What workers do to jobs in a queue file: lease, start, keep alive, stream, settle, give back.

import { limits } from '../../job/limits.ts'
import type { JobError } from '../../job/job.ts'
import { transitions } from '../../job/lifecycle.ts'
import type {
  End,
  Fence,
  FencedAnswer,
  JobStore,
  LeaseAsk,
  LeaseTerm,
  LeasedJob,
  NewChunk,
} from '../job-store.ts'
import type { JobParts } from '../compose-jobs.ts'
import {
  deleteChunks,
  endsJob,
  endsRun,
  fenceGuard,
  integer,
  weightOf,
  IS_PRESENT,
  type Context,
  type Row,
} from './context.ts'
import type { Transaction } from './group-commit.ts'
import { leaseNext, LIMIT_IN_FORCE } from './lease-next.ts'
import { oweWebhook } from './owe-webhook.ts'
import type { ServedTime } from './served-time.ts'

type WorkerVerbs = JobParts['worker']

export class SqliteWorkerVerbs implements WorkerVerbs {
  readonly #context: Context
  readonly #servedTime: ServedTime

  constructor(context: Context, servedTime: ServedTime) {
    this.#context = context
    this.#servedTime = servedTime
  }

  lease(ask: LeaseAsk): Promise<LeasedJob[]> {
    return this.#context.commits.submit(() => {
      this.#servedTime.catchUp(ask.now)
      return leaseNext(this.#context, ask)
    })
  }

  start(fence: Fence, report: Parameters<JobStore['start']>[1]): Promise<FencedAnswer> {
    const { guard, bind } = fenceGuard(fence, 'start')
    return this.#context.commits.submit(() => {
      this.#servedTime.catchUp(report.now)
      const changed = this.#context.statements.run(
        `update jobs set started_at = coalesce(started_at, $startedAt), is_confirmed = 1,
           lease_expires_at = max(lease_expires_at, $until),
           deadline_at = coalesce(deadline_at, $startedAt + $graceMs + ${LIMIT_IN_FORCE}) where ${guard} and ${IS_PRESENT}`,
        {
          ...bind,
          now: report.now,
          startedAt: report.now - report.agoMs,
          until: report.now + report.leaseMs,
          graceMs: report.graceMs + limits.silentTimeoutMs,
        },
      )
      return answer(changed)
    })
  }

  extend(
    endpoint: string,
    leases: readonly { id: string; lease: string }[],
    term: LeaseTerm,
  ): Promise<Set<string>> {
    return this.#context.commits.submit(() => {
      this.#servedTime.catchUp(term.now)
      const stale = leases.filter(({ id, lease }) => !this.#extend({ endpoint, id, lease }, term))
      return new Set(stale.map(({ lease }) => lease))
    })
  }

  extendHeldBy(
    endpoint: string,
    worker: string,
    ids: readonly string[],
    term: LeaseTerm,
  ): Promise<Set<string>> {
    return this.#context.commits.submit(() => {
      this.#servedTime.catchUp(term.now)
      return new Set(ids.filter((id) => !this.#extend({ endpoint, id, worker }, term)))
    })
  }

  #extend(fence: Fence, { now, leaseMs }: LeaseTerm): boolean {
    const { guard, bind } = fenceGuard(fence, 'start')
    const changed = this.#context.statements.run(
      `update jobs set lease_expires_at = max(lease_expires_at, $until), is_confirmed = 1 where ${guard}`,
      { ...bind, until: now + leaseMs },
    )
    return changed > 0
  }

  appendChunks(
    fence: Fence,
    report: Parameters<JobStore['appendChunks']>[1],
  ): ReturnType<JobStore['appendChunks']> {
    const { statements, commits } = this.#context
    const { guard, bind } = fenceGuard(fence, 'start')
    return commits.submit((transaction) => {
      const row = statements.find(
        `select seq, attempt, last_index, lease_index from jobs where ${guard} and ${IS_PRESENT}`,
        {
          ...bind,
          now: report.now,
        },
      )
      if (!row) return { state: 'stale' as const }
      const base = integer(row['lease_index'])
      const stored = integer(row['last_index']) - base
      const first = report.firstOrdinal ?? stored + 1
      if (first > stored + 1) return { state: 'accepted' as const, stored }
      const fresh = report.chunks.slice(stored + 1 - first)
      fresh.forEach((chunk, at) => this.#insertChunk(row, base, stored + 1 + at, chunk))
      if (fresh.length > 0) {
        statements.run('update jobs set last_index = last_index + $count where seq = $seq', {
          seq: integer(row['seq']),
          count: fresh.length,
        })
        transaction.emit({ kind: 'chunks', endpoint: fence.endpoint, id: fence.id })
      }
      return { state: 'accepted' as const, stored: stored + fresh.length }
    })
  }

  #insertChunk(row: Row, base: number, ordinal: number, chunk: NewChunk): void {
    this.#context.statements.run(
      `insert into chunks (job, idx, attempt, output, metrics, part_as, part_first, part_last)
       values ($seq, $index, $attempt, $output, $metrics, $as, $first, $last)`,
      {
        seq: integer(row['seq']),
        index: base + ordinal,
        attempt: integer(row['attempt']),
        output: chunk.output,
        metrics: chunk.metrics ?? null,
        as: chunk.part?.as ?? null,
        first: chunk.part ? base + ordinal - chunk.part.back : null,
        last: chunk.part ? Number(chunk.part.last) : null,
      },
    )
  }

  setProgress(fence: Fence, progress: Uint8Array): Promise<FencedAnswer> {
    const { guard, bind } = fenceGuard(fence, 'start')
    return this.#context.commits.submit((transaction) => {
      const sql = `update jobs set progress = $progress where ${guard}`
      const said = answer(this.#context.statements.run(sql, { ...bind, progress }))
      if (said === 'accepted') transaction.emit({ kind: 'progress', endpoint: fence.endpoint, id: fence.id })
      return said
    })
  }

  settle(...[fence, end, report]: Parameters<JobStore['settle']>): ReturnType<JobStore['settle']> {
    const { chunks = 0, ...rest } = report
    return this.#context.commits.submit((transaction) =>
      chunks > 0 && this.#isBehind(fence, chunks, rest.now)
        ? 'behind'
        : this.#settle(transaction, fence, end, rest),
    )
  }

  /** Whether the holder of the lease has made more chunks than came here. */
  #isBehind(fence: Fence, chunks: number, now: number): boolean {
    const { guard, bind } = fenceGuard(fence, 'start')
    const row = this.#context.statements.find(
      `select last_index - lease_index as stored from jobs where ${guard} and ${IS_PRESENT}`,
      { ...bind, now },
    )
    return row !== undefined && integer(row['stored']) < chunks
  }

  #settle(
    transaction: Transaction,
    fence: Fence,
    end: End,
    report: { executionMs?: number; now: number },
  ): FencedAnswer {
    const { statements, counters } = this.#context
    const { guard, bind } = fenceGuard(fence, end.event)
    const status = transitions[end.event].to
    // The worker's monotonic measure is the truth; the wall clock stands in where the wire has none.
    const row = statements.find(
      `update jobs set ${endsJob(end.event)}, reason = null,
           output = $output, error = $error, error_text = $errorText,
           ${endsRun('$executionMs')}
         where ${guard} and ${IS_PRESENT} returning seq, low_priority, webhook`,
      {
        ...bind,
        now: report.now,
        executionMs: report.executionMs ?? null,
        output: ('output' in end ? end.output : undefined) ?? null,
        error: 'error' in end ? JSON.stringify(end.error) : null,
        errorText: ('errorText' in end ? end.errorText : undefined) ?? null,
      },
    )
    if (!row) return 'stale'
    counters.moved(fence.endpoint, end.event, 'IN_PROGRESS', weightOf(row))
    oweWebhook(this.#context, transaction, row, report.now)
    transaction.emit({ kind: 'changed', endpoint: fence.endpoint, id: fence.id, status })
    return 'accepted'
  }

  release(fence: Fence, now: number): Promise<FencedAnswer> {
    const { statements, commits } = this.#context
    const { guard, bind } = fenceGuard(fence, 'release')
    return commits.submit((transaction) => {
      const row = statements.find(`select seq, low_priority from jobs where ${guard} and ${IS_PRESENT}`, {
        ...bind,
        now,
      })
      if (!row) return 'stale'
      return this.#handBack(transaction, fence, { event: 'release', row, now })
    })
  }

  lose(
    fence: Fence,
    { error, executionMs, now }: { error: JobError; executionMs: number; now: number },
  ): Promise<FencedAnswer> {
    const { statements, commits } = this.#context
    const { guard, bind } = fenceGuard(fence, 'lose')
    return commits.submit((transaction) => {
      const row = statements.find(
        `select seq, low_priority, attempt < (select max_attempts from endpoints where endpoints.id = jobs.endpoint) as has_attempts
         from jobs where ${guard} and ${IS_PRESENT}`,
        { ...bind, now },
      )
      if (!row) return 'stale'
      if (row['has_attempts'] === 0) {
        return this.#settle(transaction, fence, { event: 'fail', error }, { executionMs, now })
      }
      return this.#handBack(transaction, fence, { event: 'lose', row, executionMs, now })
    })
  }

  #handBack(
    transaction: Transaction,
    { endpoint, id }: Fence,
    back: { event: 'release' | 'lose'; row: Row; executionMs?: number; now: number },
  ): FencedAnswer {
    const { statements, counters } = this.#context
    const { event, row, executionMs = null, now } = back
    const seq = integer(row['seq'])
    const { to, reason } = transitions[event]
    deleteChunks(statements, seq)
    statements.run(
      `update jobs set status = '${to}', reason = '${reason}', worker = null, attempt = attempt + $counted,
         runs_alone = max(runs_alone, $counted), ${endsRun('$executionMs')} where seq = $seq`,
      { seq, counted: event === 'lose' ? 1 : 0, executionMs, now },
    )
    counters.moved(endpoint, event, 'IN_PROGRESS', weightOf(row))
    transaction.emit({ kind: 'changed', endpoint, id, status: to })
    transaction.emit({ kind: 'queued', endpoint })
    return 'accepted'
  }
}

function answer(changedRows: number): FencedAnswer {
  return changedRows > 0 ? 'accepted' : 'stale'
}
