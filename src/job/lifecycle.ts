// A job's life as data: SQL, scripts, routes, documents and tests all read this table.

export const jobStatuses = [
  'IN_QUEUE',
  'IN_PROGRESS',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
  'TIMED_OUT',
] as const
export type JobStatus = (typeof jobStatuses)[number]

interface Transition {
  readonly from: readonly JobStatus[]
  /** `deleted`: the job is gone and its id answers 404. */
  readonly to: JobStatus | 'deleted'
  /** Whether only the holder of the current lease may cause it. */
  readonly fenced?: true
  readonly reason?: string
}

export const transitions = {
  lease: { from: ['IN_QUEUE'], to: 'IN_PROGRESS' },
  start: { from: ['IN_PROGRESS'], to: 'IN_PROGRESS', fenced: true },
  complete: { from: ['IN_PROGRESS'], to: 'COMPLETED', fenced: true },
  fail: { from: ['IN_PROGRESS'], to: 'FAILED', fenced: true },
  timeOut: { from: ['IN_PROGRESS'], to: 'TIMED_OUT', fenced: true },
  /** The lease ran out and an attempt is left. */
  lapse: { from: ['IN_PROGRESS'], to: 'IN_QUEUE', reason: 'lease-lapsed' },
  /** The lease ran out and no attempt is left. */
  lapseLast: { from: ['IN_PROGRESS'], to: 'FAILED', reason: 'worker-lost' },
  /** Its process died with other jobs in it, and nobody can tell whose doing that was; an attempt is left. */
  lose: { from: ['IN_PROGRESS'], to: 'IN_QUEUE', fenced: true, reason: 'process-lost' },
  release: { from: ['IN_PROGRESS'], to: 'IN_QUEUE', fenced: true, reason: 'released' },
  cancel: { from: ['IN_QUEUE', 'IN_PROGRESS'], to: 'CANCELLED', reason: 'cancelled' },
  purge: { from: ['IN_QUEUE'], to: 'CANCELLED', reason: 'purged' },
  retry: { from: ['FAILED', 'TIMED_OUT'], to: 'IN_QUEUE', reason: 'retried' },
  expire: { from: ['IN_QUEUE', 'IN_PROGRESS'], to: 'deleted' },
  forget: { from: ['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT'], to: 'deleted' },
} as const satisfies Record<string, Transition>

export type JobEvent = keyof typeof transitions

/** The statuses that a job never leaves by itself. */
export const endedStatuses = transitions.forget.from
export type EndedStatus = (typeof endedStatuses)[number]

/** The ended statuses from which no event leads back to the queue: what only a run needs is of no more use there. */
export const finalStatuses: readonly JobStatus[] = endedStatuses.filter(
  (status) => !isAllowed('retry', status),
)

export function isEnded(status: JobStatus): boolean {
  return (endedStatuses as readonly JobStatus[]).includes(status)
}

export function isAllowed(event: JobEvent, status: JobStatus): boolean {
  return (transitions[event].from as readonly JobStatus[]).includes(status)
}
