import { describe, expect, it } from 'vitest'
import {
  endedStatuses,
  finalStatuses,
  isAllowed,
  isEnded,
  jobStatuses,
  transitions,
  type JobEvent,
} from '../../src/job/lifecycle.ts'

// Written out by hand and on purpose not derived from the table: engines and their suite share that one, so a wrong
// row in it would pass everywhere else.
const rows = [
  ['IN_QUEUE', 'lease', 'IN_PROGRESS'],
  ['IN_PROGRESS', 'start', 'IN_PROGRESS'],
  ['IN_PROGRESS', 'lapse', 'IN_QUEUE'],
  ['IN_PROGRESS', 'lapseLast', 'FAILED'],
  ['IN_PROGRESS', 'complete', 'COMPLETED'],
  ['IN_PROGRESS', 'fail', 'FAILED'],
  ['IN_PROGRESS', 'timeOut', 'TIMED_OUT'],
  ['IN_PROGRESS', 'lose', 'IN_QUEUE'],
  ['IN_PROGRESS', 'release', 'IN_QUEUE'],
  ['IN_QUEUE', 'cancel', 'CANCELLED'],
  ['IN_PROGRESS', 'cancel', 'CANCELLED'],
  ['IN_QUEUE', 'purge', 'CANCELLED'],
  ['FAILED', 'retry', 'IN_QUEUE'],
  ['TIMED_OUT', 'retry', 'IN_QUEUE'],
  ['IN_QUEUE', 'expire', 'deleted'],
  ['IN_PROGRESS', 'expire', 'deleted'],
  ['COMPLETED', 'forget', 'deleted'],
  ['FAILED', 'forget', 'deleted'],
  ['CANCELLED', 'forget', 'deleted'],
  ['TIMED_OUT', 'forget', 'deleted'],
] as const

const events = [
  'lease',
  'start',
  'complete',
  'fail',
  'timeOut',
  'lapse',
  'lapseLast',
  'lose',
  'release',
  'cancel',
  'purge',
  'retry',
  'expire',
  'forget',
] as const

const statuses = ['IN_QUEUE', 'IN_PROGRESS', 'COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'] as const

describe('transitions', () => {
  it('has the rows of the interface and no others', () => {
    const written = Object.entries(transitions).flatMap(([event, { from, to }]) =>
      from.map((status) => `${status} ${event} ${to}`),
    )
    expect(written.toSorted()).toEqual(rows.map((row) => row.join(' ')).toSorted())
  })

  it('knows the statuses and the events of the interface and no others', () => {
    expect([...jobStatuses].toSorted()).toEqual([...statuses].toSorted())
    expect(Object.keys(transitions).toSorted()).toEqual([...events].toSorted())
  })

  it('asks the worker that reports for its lease, and nobody else', () => {
    const fenced = Object.entries(transitions).filter(([, transition]) => 'fenced' in transition)
    expect(fenced.map(([event]) => event).toSorted()).toEqual([
      'complete',
      'fail',
      'lose',
      'release',
      'start',
      'timeOut',
    ])
  })

  it('keeps roads to the same status apart by their reason', () => {
    const roads = Object.values(transitions).filter(
      ({ to }) => to === 'IN_QUEUE' || to === 'CANCELLED',
    ) as readonly { to: string; reason?: string }[]
    const reasons = roads.map(({ reason }) => reason)
    expect(reasons.every((reason) => reason !== undefined && reason !== '')).toBe(true)
    expect(new Set(reasons).size).toBe(reasons.length)
    expect(transitions.purge.reason).toBe('purged')
    expect(transitions.lapseLast.reason).not.toBe(
      ('reason' in transitions.fail && transitions.fail.reason) || undefined,
    )
  })
})

describe('isAllowed', () => {
  const cases = events.flatMap((event) => statuses.map((status) => [event, status] as const))

  it.each(cases)('answers for %s of a job that is %s as the interface does', (event: JobEvent, status) => {
    expect(isAllowed(event, status)).toBe(rows.some(([from, name]) => from === status && name === event))
  })
})

describe('isEnded', () => {
  it('is true for the statuses that a job never leaves by itself', () => {
    expect([...endedStatuses].toSorted()).toEqual(['CANCELLED', 'COMPLETED', 'FAILED', 'TIMED_OUT'])
    expect(statuses.filter(isEnded)).toEqual(['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'])
  })
})

describe('finalStatuses', () => {
  it('are those that have ended and cannot be retried', () => {
    expect([...finalStatuses].toSorted()).toEqual(['CANCELLED', 'COMPLETED'])
  })
})
