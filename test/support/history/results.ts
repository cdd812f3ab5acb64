// One result at most is accepted, of the lease that held the job, and that is what the record shows.

import { holderOf, isSameResult, livesOf, resultText, shownEnds, type Life } from './life.ts'
import { all, text, type Event, type Result } from './told.ts'

export function secondResults(events: readonly Event[]): string[] {
  return livesOf(events).flatMap((life) => {
    const accepted = acceptedIn(life)
    const [first] = accepted
    // The answer to one report may be heard twice.
    const other = first && accepted.find((one) => one.lease !== first.lease || !isSameResult(one, first))
    if (!first || !other) return []
    return [
      `${resultText(first)} was accepted under ${first.lease}, and ${resultText(other)} under ${other.lease}.`,
    ]
  })
}

export function resultsOfOthers(events: readonly Event[]): string[] {
  return livesOf(events).flatMap((life) => {
    const accepted = acceptedIn(life)
    const findings = accepted.flatMap((settled) => wrongHolder(events, life, settled))
    if (findings.length > 0) return findings
    const [ended] = shownEnds(life)
    if (!ended) return []
    const other = accepted.find((settled) => !isSameResult(settled, ended.record))
    if (other)
      return [
        `${resultText(other)} was accepted under ${other.lease}, and the record is ${resultText(ended.record)}.`,
      ]
    return isOfService(life, ended) ? [] : notOfHolder(life, ended)
  })
}

function wrongHolder(events: readonly Event[], life: Life, settled: Event<'settled'>): string[] {
  const { lease, worker, at } = settled
  const own = all(events, 'leased').find((given) => given.lease === lease)
  if (!own) return [`a result was accepted under ${lease}, which nobody was given.`]
  if (own.worker !== worker) return [`a result of ${worker} was accepted under ${lease} of ${own.worker}.`]
  const holder = all(life, 'leased').findLast((leased) => leased.at < at)
  if (holder && holder.lease !== lease)
    return [`a result was accepted under ${lease} when ${holder.lease} of ${holder.worker} held the job.`]
  const isReported = all(life, 'reported').some(
    (report) => report.lease === lease && report.at < at && isSameResult(report, settled),
  )
  return isReported ? [] : [`${resultText(settled)} was accepted under ${lease}, and nobody had reported it.`]
}

/** An end that the service makes has its own words, which name the worker; it comes only when it may. */
function isOfService(life: Life, { record, at }: { record: Result; at: number }): boolean {
  if (!all(life, 'mayEnd').some((may) => may.status === record.status && may.at < at)) return false
  if (record.status === 'CANCELLED') return record.output === undefined && record.error === undefined
  const holder = holderOf(life)
  const code = record.status === 'FAILED' ? 'WORKER_LOST' : 'TIMED_OUT'
  return (
    holder !== undefined &&
    record.output === undefined &&
    record.error?.code === code &&
    record.error.message.includes(holder.worker)
  )
}

/**
 * A result comes into the record by a report under the newest lease of the life. Its answer may be lost, on the way or
 * with a server that was killed behind its commit; a repeat of it is then told to be stale, the job having ended. But a
 * report that was itself called stale has changed nothing, and no later one of that lease may.
 */
function notOfHolder(
  life: Life,
  { record, at }: { record: Result & { attempt?: unknown }; at: number },
): string[] {
  const holder = holderOf(life)
  if (!holder) return [`the record is ${resultText(record)}, and nobody was given a lease.`]
  const { lease, worker, attempt } = holder
  const owners = new Set(all(life, 'leased').flatMap((one) => (one.lease === lease ? [one.worker] : [])))
  const sent = all(life, 'reported').filter((report) => report.lease === lease && owners.has(report.worker))
  const says = `the record is ${resultText(record)}, and ${worker}, which held it under ${lease},`
  const before = sent.filter((report) => report.at < at)
  if (!before.some((report) => isSameResult(report, record)))
    return [`${says} had reported ${text(before.map(resultText))}.`]
  if (attempt !== undefined && record.attempt !== undefined && attempt !== record.attempt)
    return [`${says} did so in attempt ${attempt}, and the record says ${text(record.attempt)}.`]
  const answers = all(life, 'settled').filter((settled) => settled.lease === lease)
  const refused = answers.find(({ answer }) => answer === 'stale')
  if (!refused || answers.some(({ answer }) => answer === 'accepted')) return []
  const unrefused = sent.filter((report) => report.at < refused.at)
  return unrefused.length > 1 ? [] : [`${says} was told that it is stale.`]
}

function acceptedIn(life: Life): Event<'settled'>[] {
  return all(life, 'settled').filter(({ answer }) => answer === 'accepted')
}
