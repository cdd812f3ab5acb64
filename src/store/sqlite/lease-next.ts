// The jobs of a queue file that are leased next, in the order in which they wait.

import { randomBytes } from 'node:crypto'
import type { TraceContext } from '../../job/job.ts'
import { transitions } from '../../job/lifecycle.ts'
import { limits } from '../../job/limits.ts'
import type { LeaseAsk, LeasedJob } from '../job-store.ts'
import { blob, integer, IS_PRESENT, optional, text, weightOf, type Context, type Row } from './context.ts'
import { inStatuses } from './schema.ts'

/** Of a row of jobs: how long it may run, ms. */
export const LIMIT_IN_FORCE = `coalesce(execution_timeout_ms, (select execution_timeout_ms from endpoints where endpoints.id = jobs.endpoint))`

/** Of one of the two lines: the first that may be leased. */
function firstInLine(isLow: 0 | 1): string {
  return `select * from (
    select seq, position from jobs
    where endpoint = $endpoint and ${inStatuses(transitions.lease.from)} and low_priority = ${isLow} and ${IS_PRESENT}
      and not (lost_by is $worker and lapsed_at > $lostSince)
    order by position limit $count)`
}

/** To be asked inside a transaction. */
export function leaseNext({ statements, counters }: Context, ask: LeaseAsk): LeasedJob[] {
  const rows = statements.all(
    // Both lines have their index; what is merged of them is no more than is asked for of each.
    `update jobs set status = '${transitions.lease.to}', reason = null, lease = $token || seq, worker = $worker,
       lease_expires_at = $until, is_confirmed = 0, lease_index = last_index, execution_ms = null,
       started_at = iif($startsNow, $now, null),
       deadline_at = iif($startsNow, $now + $graceMs + ${LIMIT_IN_FORCE}, null)
     where seq in (
       select seq from (${firstInLine(0)} union all ${firstInLine(1)}) order by position limit $count)
     returning id, position, lease, attempt, ${LIMIT_IN_FORCE} as limit_ms, execution_timeout_ms, low_priority, ttl_ms,
       webhook, s3_config, trace, runs_alone,
       max(0, $now - counted_from - ran_ms) as waited_ms, (select body from inputs where job = jobs.seq) as input`,
    {
      token: `${randomBytes(9).toString('base64url')}.`,
      worker: ask.worker,
      until: ask.now + ask.leaseMs,
      startsNow: ask.startsAtLease ? 1 : 0,
      graceMs: (ask.startsAtLease?.graceMs ?? 0) + limits.silentTimeoutMs,
      endpoint: ask.endpoint,
      now: ask.now,
      count: ask.count,
      lostSince: ask.notLostSince ?? Number.MAX_SAFE_INTEGER,
    },
  )
  const low = rows.reduce((sum, row) => sum + weightOf(row).low, 0)
  if (rows.length > 0) counters.moved(ask.endpoint, 'lease', 'IN_QUEUE', { jobs: rows.length, low })
  // RETURNING promises no order.
  return rows.toSorted((a, b) => integer(a['position']) - integer(b['position'])).map(readLease)
}

function readLease(row: Row): LeasedJob {
  return {
    id: text(row['id']),
    lease: text(row['lease']),
    attempt: integer(row['attempt']),
    executionTimeoutMs: integer(row['limit_ms']),
    policy: {
      ...optional('executionTimeout', row['execution_timeout_ms'], integer),
      lowPriority: row['low_priority'] === 1,
      ttl: integer(row['ttl_ms']),
    },
    input: blob(row['input']),
    ...optional('webhook', row['webhook'], text),
    ...optional('sealedS3Config', row['s3_config'], blob),
    ...optional('trace', row['trace'], (value) => JSON.parse(text(value)) as TraceContext),
    waitedMs: integer(row['waited_ms']),
    isAlone: row['runs_alone'] === 1,
  }
}
