// What no job does, whatever becomes of its servers: each step has to follow from those before.

import { isDeepStrictEqual } from 'node:util'
import { limits } from '../../../src/job/limits.ts'
import { transitions } from '../../../src/job/lifecycle.ts'
import { knownEnd, leasesOf, livesOf, resultText, type Life } from './life.ts'
import { all, hadBy, text, type Event } from './told.ts'

/** A retry begins another life of a job that has failed, and of no other. */
export function wrongRetries(events: readonly Event[]): string[] {
  const lives = livesOf(events)
  const from: readonly string[] = transitions.retry.from
  return all(events, 'retried').flatMap((retry, nth) => {
    const life = lives[nth] ?? []
    const end = knownEnd(life)
    if (end) {
      const isEarlier = end.at < retry.at
      return isEarlier && !from.includes(end.result.status)
        ? [`it had ended as ${resultText(end.result)}, and then was retried.`]
        : []
    }
    const mayHaveEnded = life.some(
      (event) =>
        (event.kind === 'reported' || event.kind === 'mayEnd') &&
        event.at < retry.at &&
        from.includes(event.status),
    )
    return mayHaveEnded ? [] : ['it was retried, and nothing had ended it.']
  })
}

/** What was deleted does not come back, also where it might go. */
export function returned(events: readonly Event[]): string[] {
  const looks = all(events, 'seen')
  const gone = looks.find(({ record, at }) => !record && hadBy(events, 'mayGo', at))
  const back = gone && looks.find(({ record, asked }) => record && asked > gone.at)
  return back ? [`it was gone, and then was ${back.record?.status} again.`] : []
}

/** A lease that was told to be stale holds the job no more. */
export function revived(events: readonly Event[]): string[] {
  const answers = all(events, 'settled')
  return answers.flatMap(({ lease, answer, at }) => {
    if (answer !== 'accepted') return []
    const refused = answers.find((one) => one.lease === lease && one.answer === 'stale' && one.at < at)
    // The answer to a report before may come behind it.
    const before = all(events, 'reported').filter((one) => one.lease === lease && one.at < (refused?.at ?? 0))
    return refused && before.length < 2
      ? [`${lease} was told that it is stale, and then that its result is accepted.`]
      : []
  })
}

/** Attempts are counted one by one, up to so many. Of leases that overlap nobody knows which was given first. */
export function wrongAttempts(events: readonly Event[]): string[] {
  return livesOf(events).flatMap((life) => {
    const leases = all(life, 'leased')
    return leases.flatMap(({ lease, attempt, asked }) => {
      if (attempt === undefined) return []
      const before = Math.max(0, ...leases.flatMap((one) => (one.at < asked ? [one.attempt ?? 0] : [])))
      if (attempt > limits.maxAttempts.default)
        return [`${lease} was given in attempt ${attempt} of ${limits.maxAttempts.default}.`]
      return attempt < before ? [`${lease} was given in attempt ${attempt} behind attempt ${before}.`] : []
    })
  })
}

/** An end names a worker that held the job, also one whose lease is on its way to it when the job ends. */
export function wrongWorkers(events: readonly Event[]): string[] {
  return livesOf(events).flatMap((life) => {
    const ended = knownEnd(life)
    const given = all(life, 'leased').filter(({ asked }) => !ended || asked <= ended.at)
    const workers = new Set(given.map(({ worker }) => worker))
    const end = all(life, 'seen').find(
      ({ record }) => record && !['IN_QUEUE', 'IN_PROGRESS'].includes(record.status),
    )
    const worker = end?.record?.['workerId']
    return typeof worker === 'string' && workers.size > 0 && !workers.has(worker)
      ? [`its record names ${worker}, and ${[...workers].join(', ')} had held it.`]
      : []
  })
}

/** A worker that is lost ends a job in its last attempt only. */
export function earlyLosses(events: readonly Event[]): string[] {
  return livesOf(events).flatMap((life: Life) => {
    const seen = all(life, 'seen').find(({ record }) => record?.error?.code === 'WORKER_LOST')
    const { attempt } = leasesOf(life).at(-1) ?? {}
    const isReported = all(life, 'reported').some(({ error }) =>
      isDeepStrictEqual(error, seen?.record?.error),
    )
    return seen && !isReported && attempt !== undefined && attempt < limits.maxAttempts.default
      ? [`its worker was lost for good in attempt ${attempt} of ${limits.maxAttempts.default}.`]
      : []
  })
}

/** An index is of one chunk of one attempt, whoever reads it and when. */
export function sharedIndexes(events: readonly Event[]): string[] {
  const known = new Map<number, { attempt: unknown; output: unknown }>()
  return livesOf(events).flatMap((life, nth) =>
    all(life, 'read').flatMap(({ chunks, at }) => [
      ...(nth === 0 && chunks.length > 0 && chunks[0]!.index !== 1 && !hasSecond(life, at)
        ? [`its stream begins with chunk ${chunks[0]!.index}.`]
        : []),
      ...chunks.flatMap(({ index, attempt, output }) => {
        const first = known.get(index)
        if (!first || nth > 0) known.set(index, { attempt, output })
        return nth === 0 && first && !isDeepStrictEqual(first, { attempt, output })
          ? [`chunk ${index} was ${text(first)}, and then ${text({ attempt, output })}.`]
          : []
      }),
    ]),
  )
}

/** Whether chunks of an earlier lease may have come before those that are read. */
function hasSecond(life: Life, by: number): boolean {
  return all(life, 'leased').filter(({ at }) => at < by).length > 1
}

/** No total falls from one look to a later one. */
export function fallingCounters(told: readonly Event[]): string[] {
  const looks = all(told, 'counted')
  return looks.flatMap((look, at) =>
    (['completed', 'failed', 'retried'] as const).flatMap((name) => {
      const before = Math.max(
        0,
        ...looks.slice(0, at).flatMap((one) => (one.at < look.asked ? [one.counts[name]] : [])),
      )
      return look.counts[name] < before ? [`${name} was ${before}, and then ${look.counts[name]}.`] : []
    }),
  )
}
