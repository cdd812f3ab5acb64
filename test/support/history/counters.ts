// Counters are what happened, at the end and while it happens.

import type { JobStatus } from '../../../src/job/lifecycle.ts'
import { knownEnd, livesOf, type Life } from './life.ts'
import { all, hadBy, type Event, type SeenCounts } from './told.ts'

type Jobs = ReadonlyMap<string, readonly Event[]>
type Bounds = Record<'completed' | 'failed' | 'retried' | 'open', { least: number; most: number }>

const COMPLETED: readonly JobStatus[] = ['COMPLETED']
const FAILED: readonly JobStatus[] = ['FAILED', 'TIMED_OUT']

export function wrongCounters(told: readonly Event[], jobs: Jobs): string[] {
  const looks = all(told, 'counted')
  const last = looks.at(-1)
  if (!last) return jobs.size > 0 ? ['nobody looked at the counters.'] : []
  const expected = countsOf(jobs)
  const exact = (Object.keys(expected) as (keyof SeenCounts)[]).flatMap((name) =>
    last.counts[name] === expected[name]
      ? []
      : [`${name} is ${last.counts[name]}, and ${expected[name]} happened.`],
  )
  return [...looks.slice(0, -1).flatMap((look) => outOfBounds(look, jobs)), ...exact]
}

/** What the counters are when all is quiet. */
export function countsOf(jobs: Jobs): SeenCounts {
  const counts: SeenCounts = { completed: 0, failed: 0, retried: 0, inQueue: 0, inProgress: 0 }
  for (const events of jobs.values()) {
    counts.retried += all(events, 'retried').length
    for (const life of livesOf(events)) {
      const record = all(life, 'seen').findLast((seen) => seen.record)?.record
      if (!record) continue
      counts.retried += (record.attempt ?? 1) - 1
      if (COMPLETED.includes(record.status)) counts.completed += 1
      if (FAILED.includes(record.status)) counts.failed += 1
      if (record.status === 'IN_QUEUE') counts.inQueue += 1
      if (record.status === 'IN_PROGRESS') counts.inProgress += 1
    }
  }
  return counts
}

/** While jobs run, the counters lie between what was known when they were asked for and what may have happened since. */
function outOfBounds(look: Event<'counted'>, jobs: Jobs): string[] {
  const { completed, failed, retried, inQueue, inProgress } = look.counts
  const have = { completed, failed, retried, open: inQueue + inProgress }
  return Object.entries(boundsOf(look, jobs)).flatMap(([name, { least, most }]) => {
    const count = have[name as keyof Bounds]
    const what = name === 'open' ? 'inQueue and inProgress were' : `${name} was`
    if (count < least) return [`${what} ${count}, and ${least} at least had happened.`]
    return count > most ? [`${what} ${count}, and ${most} at most had happened.`] : []
  })
}

function boundsOf({ asked, at }: Event<'counted'>, jobs: Jobs): Bounds {
  const none = { least: 0, most: 0 }
  const bounds: Bounds = {
    completed: { ...none },
    failed: { ...none },
    retried: { ...none },
    open: { ...none },
  }
  const add = (name: keyof Bounds, least: number, most: number): void => {
    bounds[name].least += least
    bounds[name].most += most
  }
  for (const events of jobs.values()) {
    const retries = all(events, 'retried')
    add(
      'retried',
      retries.filter((retry) => retry.at < asked).length,
      retries.filter((retry) => retry.asked <= at).length,
    )
    livesOf(events).forEach((life, nth) => {
      const retry = nth > 0 ? retries[nth - 1] : undefined
      if (retry && retry.asked > at) return
      add('completed', ...endBounds(life, COMPLETED, { asked, at }))
      add('failed', ...endBounds(life, FAILED, { asked, at }))
      add('retried', lostAttempts(life, asked), lostAttempts(life, Number.POSITIVE_INFINITY))
      const known = knownEnd(life)
      const begun = retry ? retry.at < asked : hadBy(events, 'submitted', asked)
      const mayBeOver = hadBy(life, 'reported', at) || hadBy(life, 'mayEnd', at) || hadBy(events, 'mayGo', at)
      add('open', begun && !mayBeOver && !(known && known.at < at) ? 1 : 0, known && known.at < asked ? 0 : 1)
    })
  }
  return bounds
}

function endBounds(
  life: Life,
  statuses: readonly JobStatus[],
  { asked, at }: { asked: number; at: number },
): [least: number, most: number] {
  const known = knownEnd(life)
  if (known && !statuses.includes(known.result.status)) return [0, 0]
  const isPossible =
    (known && known.at < at) ||
    life.some(
      (event) =>
        (event.kind === 'reported' || event.kind === 'mayEnd') &&
        event.at < at &&
        statuses.includes(event.status),
    )
  return [known && known.at < asked ? 1 : 0, isPossible ? 1 : 0]
}

function lostAttempts(life: Life, by: number): number {
  const attempts = life.flatMap((event) => {
    if (event.at >= by) return []
    if (event.kind === 'leased') return [event.attempt ?? 1]
    return event.kind === 'seen' ? [event.record?.attempt ?? 1] : []
  })
  return Math.max(1, ...attempts) - 1
}
