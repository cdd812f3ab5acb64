// A job's lives, each from its submission or a retry to the next retry, and how each of them ended.

import { isDeepStrictEqual } from 'node:util'
import { isEnded } from '../../../src/job/lifecycle.ts'
import { all, type Event, type Result } from './told.ts'

export type Life = readonly Event[]

/**
 * A retry takes effect between its question and its answer: from the question on leases are the new life's, and what a
 * worker says or hears belongs to the life of its lease. A look at the same time may show either, and is left out.
 */
export function livesOf(events: readonly Event[]): Life[] {
  const retries = all(events, 'retried')
  const lives: Event[][] = [[], ...retries.map(() => [])]
  const lifeAt = (at: number): number => retries.filter(({ asked }) => asked <= at).length
  const ofLease = new Map(all(events, 'leased').map(({ lease, at }) => [lease, lifeAt(at)]))
  for (const event of events) {
    const isLook = event.kind === 'seen' || event.kind === 'read'
    if (isLook && retries.some((retry) => retry.at >= event.asked && retry.asked <= event.at)) continue
    const own = 'lease' in event ? ofLease.get(event.lease) : undefined
    lives[own ?? lifeAt(event.at)]?.push(event)
  }
  return lives
}

/** An end, from when on somebody knew of it. */
export interface KnownEnd {
  at: number
  result: Result
}

/** The first that anybody knew of the end: a record that was shown, or a result that was accepted. */
export function knownEnd(life: Life): KnownEnd | undefined {
  return life.flatMap((event) => endIn(event) ?? [])[0]
}

function endIn(event: Event): KnownEnd | undefined {
  if (event.kind === 'settled' && event.answer === 'accepted') return { at: event.at, result: event }
  if (event.kind === 'seen' && event.record && isEnded(event.record.status))
    return { at: event.at, result: event.record }
  return undefined
}

/** The leases that were given before the end was known; the last of them held the job. */
export function leasesOf(life: Life): Event<'leased'>[] {
  const end = knownEnd(life)
  return all(life, 'leased').filter(({ at }) => !end || at < end.at)
}

export function holderOf(life: Life): Event<'leased'> | undefined {
  return leasesOf(life).at(-1)
}

/** The looks that show an end. */
export function shownEnds(life: Life): (Event<'seen'> & { record: Result })[] {
  return all(life, 'seen').filter(
    (seen): seen is Event<'seen'> & { record: Result } =>
      seen.record !== undefined && isEnded(seen.record.status),
  )
}

export function isSameResult(one: Result, other: Result): boolean {
  return (
    one.status === other.status &&
    isDeepStrictEqual(one.output, other.output) &&
    isDeepStrictEqual(one.error, other.error)
  )
}

export function resultText({ status, output, error }: Result): string {
  if (error) return `${status} with ${error.type}: ${error.message}`
  return output === undefined ? status : `${status} with ${JSON.stringify(output)}`
}
