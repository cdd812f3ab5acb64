// Histories of one job, written down by hand.

import { History } from '../history.ts'
import type { JobError } from '../../../src/job/job.ts'
import { countsOf } from './counters.ts'
import type { Event, Result, SeenCounts, SeenRecord, Told } from './told.ts'

export const id = 'a'
export const error: JobError = { type: 'Error', message: 'no', code: 'HANDLER_ERROR' }
export const done: SeenRecord = { status: 'COMPLETED', attempt: 1, output: 1 }
export const failed: SeenRecord = { status: 'FAILED', attempt: 1, error }
export const waits: SeenRecord = { status: 'IN_QUEUE', attempt: 1 }
export const submitted: Told = { kind: 'submitted', id }
export const mayGo: Told = { kind: 'mayGo', id }
export const retried: Told = { kind: 'retried', id }

/** `asked`: the place in the history of what was told first after the question. */
export const seen = (record?: SeenRecord, asked?: number): Told => ({
  kind: 'seen',
  id,
  record,
  ...(asked !== undefined && { asked }),
})

export const leased = (
  lease: string,
  worker = 'w1',
  more: { asked?: number; attempt?: number } = {},
): Told => ({
  kind: 'leased',
  id,
  lease,
  worker,
  ...more,
})

interface Report extends Partial<Result> {
  worker?: string
  chunks?: number
}

const reportOf = (lease: string, more: Report): { id: string; lease: string; worker: string } & Result => ({
  id,
  lease,
  worker: 'w1',
  status: 'COMPLETED',
  output: 1,
  ...more,
})

export const reported = (lease: string, more: Report = {}): Told => ({
  kind: 'reported',
  ...reportOf(lease, more),
})

export const settled = (
  lease: string,
  answer: 'accepted' | 'stale' = 'accepted',
  more: Report = {},
): Told => ({
  kind: 'settled',
  answer,
  ...reportOf(lease, more),
})

/** A result that was reported and accepted. */
export const accepted = (lease: string, more: Report = {}): Told[] => [
  reported(lease, more),
  settled(lease, 'accepted', more),
]

export const FAILED: Report = { status: 'FAILED', output: undefined, error }

export const made = (lease: string, ...outputs: unknown[]): Told[] =>
  outputs.map((output, at) => ({ kind: 'made', id, lease, worker: 'w1', ordinal: at + 1, output }))

export const streamed = (lease: string, stored: number): Told => ({
  kind: 'streamed',
  id,
  lease,
  worker: 'w1',
  stored,
})

export const read = (...chunks: [index: number, output: unknown, attempt?: number][]): Told => ({
  kind: 'read',
  id,
  chunks: chunks.map(([index, output, attempt = 1]) => ({ index, output, attempt })),
})

export const counted = (more: Partial<SeenCounts>, asked?: number): Told => ({
  kind: 'counted',
  counts: { completed: 0, failed: 0, retried: 0, inQueue: 0, inProgress: 0, ...more },
  ...(asked !== undefined && { asked }),
})

/** A job that is completed, as far as what its clients see. */
export const ran = [submitted, leased('l1'), ...accepted('l1')]

export const twoChunks = [submitted, leased('l1'), ...made('l1', 'x', 'y')]

export const ofTwo = { chunks: 2 }

export const lost = { code: 'WORKER_LOST', type: 'WorkerLostError', message: 'Worker w1 was not heard of.' }

/** With the right counters at last, unless it has some of its own. */
export function historyOf(told: readonly Told[]): History {
  const history = new History()
  for (const one of told) history.tell(one)
  if (told.length === 0 || history.count('counted') > 0) return history
  const jobs = new Map<string, Event[]>()
  told.forEach((one, at) => {
    if ('id' in one) jobs.set(one.id, [...(jobs.get(one.id) ?? []), { asked: at, ...one, at }])
  })
  history.tell({ kind: 'counted', counts: countsOf(jobs) })
  return history
}
