// A handler process in its place, and how many of those are wanting.

import type { HandlerProcess } from './handler-process.ts'

/** A handler process in its place: what it runs, and whether it may take more. */
export interface Seat {
  readonly process: HandlerProcess
  state: 'loading' | 'ready' | 'retiring'
  /** Runs that are in it now, by number. */
  readonly runs: Set<number>
  /** How many runs ever began there. */
  begun: number
  /** One of its jobs must have no neighbour. */
  isExclusive: boolean
  /** Whether it was told to go. */
  mayLeave: boolean
  /** When it became ready, monotonic ms. */
  readyAt: number
  /** It was loaded beside a process that may have held what its setup() wanted for itself. */
  wasSpare: boolean
  /** The same, beside one that was on its way out. */
  wasBeside: boolean
  /** It was loaded by a reload, to take the place of those before it. */
  isSuccessor: boolean
  /** A reload has put another in its place. */
  isOutdated: boolean
  /** Of those that were started together. */
  round: number
  /** Its end is near, whatever still runs there: another takes its place without waiting for it. */
  isGoing: boolean
  /** A process that was loaded beside it has failed: the next one waits for its end. */
  isAwaited: boolean
  /** An error that is no job's doing is ending it. */
  isDoomed: boolean
  /** The accident that ends it is known to be this run's doing. */
  culprit?: number
}

/** A place whose process is about to be loaded. */
export function seatOf(
  process: HandlerProcess,
  was: Pick<Seat, 'wasSpare' | 'wasBeside' | 'isSuccessor' | 'round'>,
): Seat {
  return {
    process,
    ...was,
    isOutdated: false,
    isGoing: false,
    isAwaited: false,
    isDoomed: false,
    state: 'loading',
    runs: new Set(),
    begun: 0,
    isExclusive: false,
    mayLeave: false,
    readyAt: 0,
  }
}

export interface Staff {
  /** How many processes share the jobs. */
  executors: number
  /** So many jobs wait that no process can take. */
  needed: number
  /** Every job has a process of its own: then those that wait have one each. */
  isOnePerJob: boolean
}

/** How many processes are to be loaded now. */
export function countMissing(seats: readonly Seat[], { executors, needed, isOnePerJob }: Staff): number {
  let free = executors
  let loading = 0
  let lasting = 0
  let isAwaiting = false
  for (const { state, isDoomed, isGoing, isAwaited, runs } of seats) {
    if (state === 'loading') loading += 1
    isAwaiting ||= isAwaited
    // One that is doomed keeps its place to its end: what comes in it may fare the same.
    if (state !== 'retiring' || isDoomed || isAwaited) free -= 1
    // A model is large, and a port is one process's: what runs on has a successor beside it only for a job that waits.
    else if (!isGoing && runs.size > 0) lasting += 1
  }
  const wanted = needed - loading
  return Math.max(free - lasting, isOnePerJob && !isAwaiting ? wanted : Math.min(free, wanted))
}
