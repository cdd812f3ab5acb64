// A lease is of one worker.

import { all, type Event } from './told.ts'

/** A token is given once: to one worker, for one job. */
export function sharedLeases(told: readonly Event[]): string[] {
  const given = new Map<string, Event<'leased'>>()
  return all(told, 'leased').flatMap((leased) => {
    const { lease, id, worker } = leased
    const first = given.get(lease)
    if (!first) given.set(lease, leased)
    return first
      ? [`${lease} was given to ${first.worker} for ${first.id}, and again to ${worker} for ${id}.`]
      : []
  })
}
