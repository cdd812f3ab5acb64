// What is to be done for one endpoint now: the scaler says how many workers, the release plan of which version. Pure.

import type { Order } from './fleet-worker.ts'
import { planRelease, replaceOlder, type Moves, type ReleasePlan, type Start } from './release-plan.ts'
import type { RestartBackoff } from './restart-backoff.ts'
import { hopelessStarts, scale, wantedWorkers, type ScalingView, type Wanted } from './scaler.ts'

export interface FleetView extends ScalingView {
  /** The version that was completed last, or the first one. */
  serving: number
  /** The version of the release that is ROLLING. */
  rolling?: number | undefined
  /** The endpoint's newest version. */
  newest: number
  backoffs: readonly RestartBackoff[]
}

export interface FleetPlan {
  wanted: Wanted
  starts: Start[]
  /** To be told to end after their last job. */
  drains: Order[]
  /** To be ended now: they never became ready. Each is a death. */
  ends: Order[]
  /** The release that is rolling, as it is now. */
  release?: Pick<ReleasePlan, 'state' | 'reason' | 'ready' | 'older'>
  /** All of it in words. */
  reason: string
}

/**
 * Carry out all of it, then ask again with `wanted.demand`. A release whose state is not ROLLING is over: record it, and with COMPLETED
 * make its version the one that serves. To drain a worker that took a job meanwhile is safe; it ends after that job.
 */
export function planFleet(view: FleetView): FleetPlan {
  const ends = hopelessStarts(view.workers, view.now)
  const { wanted, moves, release } = movesOf(view)
  const ending = new Set(ends.map(({ id }) => id))
  const said = [wanted.reason, ...moves.held, ...(release ? [`release: ${release.reason}`] : [])]
  return {
    wanted,
    starts: moves.starts,
    drains: moves.drains.filter(({ id }) => !ending.has(id)),
    ends,
    ...(release && { release }),
    reason: said.join('; '),
  }
}

function movesOf(view: FleetView): { wanted: Wanted; moves: Moves; release?: ReleasePlan } {
  const { serving, rolling, newest, workers } = view
  if (rolling !== undefined) {
    const wanted = wantedWorkers(view)
    const release = planRelease({ ...view, version: rolling }, wanted)
    return { wanted, moves: { ...release, held: [] }, release }
  }
  const strays = workers.filter(({ version }) => version !== serving)
  if (strays.length > 0) {
    const wanted = wantedWorkers(view)
    const { kept: target, workers: least } = wanted
    const moves = replaceOlder(
      { ...view, version: serving, newest },
      { target, wanted: least, most: Infinity },
    )
    return { wanted, moves }
  }
  return settled(view, serving)
}

function settled(view: FleetView, version: number): { wanted: Wanted; moves: Moves } {
  const backoff = view.backoffs.find((known) => known.version === version)
  const { wanted, start, startReason, drains } = scale({ ...view, version, backoff })
  const starts = start > 0 ? [{ version, count: start, reason: startReason }] : []
  return {
    wanted,
    moves: { starts, drains, held: start === 0 && startReason !== wanted.reason ? [startReason] : [] },
  }
}
