// A worker as the rules of the fleet see it. Times are epoch ms.

interface Known {
  id: string
  /** The endpoint's version that it was made at. */
  version: number
  /** When its process began, or, until it has, when it was ordered; the time since which it could be heard, where that is later. Of one that is silent: since when. */
  startedAt: number
}

/** Ready is what has made a lease poll. A worker that is gone is not listed: its death is told to the backoff. */
export type FleetWorker = Known &
  /** Not heard yet; or no longer, and it may come back. */
  (
    | { state: 'starting'; isSilent?: boolean }
    | { state: 'idle'; readyAt: number; idleSince: number }
    | { state: 'running'; readyAt: number; jobs: number; lowPriorityJobs: number }
    /** Was told to end: after the jobs that it has, and it takes no others. */
    | { state: 'draining'; jobs: number }
  )

export type ReadyWorker = Extract<FleetWorker, { state: 'idle' | 'running' }>
export type IdleWorker = Extract<FleetWorker, { state: 'idle' }>

/** Takes jobs. */
export function isReady(worker: FleetWorker): worker is ReadyWorker {
  return worker.state === 'idle' || worker.state === 'running'
}

export function isIdle(worker: FleetWorker): worker is IdleWorker {
  return worker.state === 'idle'
}

/** What is wrong with a worker that has not been heard for that long. */
export function unheardWords(worker: FleetWorker, since: string): string {
  return worker.state === 'starting' && worker.isSilent
    ? `not heard for ${since}`
    : `not ready ${since} after its start`
}

/** What is to happen to one worker, and why. */
export interface Order {
  id: string
  reason: string
}
