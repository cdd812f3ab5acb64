// How an endpoint's workers come to be of one version: what is started, what is drained, and how a release ends. Pure.

import type { ReleaseState } from '../../resource/release.ts'
import { fleetRules } from './fleet-rules.ts'
import {
  isIdle,
  isReady,
  unheardWords,
  type FleetWorker,
  type Order,
  type ReadyWorker,
} from './fleet-worker.ts'
import { counted, seconds } from './fleet-words.ts'
import { startsAllowed, stillCounting, type RestartBackoff } from './restart-backoff.ts'
import { capacity, isHopeless, surplus, type ScalingView, type Wanted } from './scaler.ts'

export interface ReleaseView extends ScalingView {
  /** The version that workers come to be of. */
  version: number
  /** The version that was completed last: it serves until the new one has proved ready, and when that fails. */
  serving: number
  /** The endpoint's newest version; one above `version` supersedes it. */
  newest: number
  /** Of each version that has had a death. */
  backoffs: readonly RestartBackoff[]
}

export interface Start {
  version: number
  count: number
  reason: string
}

export interface Moves {
  starts: Start[]
  drains: Order[]
  /** Why not more is started, where something holds it up. */
  held: string[]
}

export interface ReleasePlan extends Moves {
  state: ReleaseState
  reason: string
  /** Workers of the version that have proved ready, and those of others that are left. */
  ready: number
  older: number
}

/** Workers that a release may go beyond workersMax. */
export function surgeOf(workersMax: number): number {
  return Math.max(1, Math.floor(workersMax * fleetRules.surgeShare))
}

/** One step of a release. Once its state is no longer ROLLING, nothing is moved for it any more. */
export function planRelease(view: ReleaseView, wanted: Pick<Wanted, 'workers' | 'kept'>): ReleasePlan {
  const { workers, version, settings } = view
  const ready = readyOf(workers, version).length
  const older = workers.filter((worker) => worker.version !== version)
  const counts = { ready, older: older.length }
  const end = endOf(view, counts)
  if (end) return { ...end, ...counts, starts: [], drains: [], held: [] }
  const proved = provedOf(view).length
  const isProven = proved > 0 && deathsOf(view) <= ready * fleetRules.releaseFailureShare
  const most = proved * (1 + fleetRules.releaseGrowth)
  const target = Math.max(1, wanted.kept)
  const moves = isProven
    ? replaceOlder(view, { target, wanted: wanted.workers, most })
    : tryVersion(view, wanted)
  const draining = older.filter(({ state }) => state === 'draining').length
  const reason = isProven
    ? `${counted(ready, 'worker')} of version ${version} ready, ${older.length} older left, ${draining} of them ending after their last job`
    : `one worker at a time tries version ${version}; version ${view.serving} serves meanwhile`
  const noted = settings.workersMax === 0 ? 'no worker may be started, for workersMax is 0' : reason
  return { state: 'ROLLING', reason: [noted, ...moves.held].join('; '), ...counts, ...moves }
}

/**
 * Towards one version that has proved ready. Up to `most` of it are started as far as the surge has room, the version that serves
 * fills up to `wanted`, and others are drained as far as those that have proved ready exceed `target`. Also clears away what a stopped
 * release left.
 */
export function replaceOlder(
  view: ReleaseView,
  { target, wanted, most }: { target: number; wanted: number; most: number },
): Moves {
  const { now, queue, workers, version, serving } = view
  const own = workers.filter((worker) => worker.version === version)
  const present = capacity(own, now, queue.startMs).length
  const missing = Math.min(target, most) - present
  const allowed = startsAllowed(backoffOf(view, version), workers, now)
  const count = Math.max(0, Math.min(missing, roomOf(view), allowed.most))
  const beside = besideOf(view, wanted - count)
  const isHeld = missing > count && allowed.most <= count
  const others = workers.filter((worker) => worker.version !== version)
  const isNeeded = (worker: FleetWorker): boolean => worker.version === serving && present < target
  const unready = others.filter((worker) => worker.state === 'starting' && !isNeeded(worker))
  const ready = others.filter(isReady)
  const spare = ready.length + provedOf(view).length - target
  return {
    starts: [
      ...startsOf({ version, count, reason: `version ${version} replaces older workers` }),
      ...startsOf({
        version: serving,
        count: Math.min(beside, roomOf(view) - count),
        reason: `version ${serving} serves while version ${version} is on its way`,
      }),
    ],
    held: isHeld ? [allowed.reason] : [],
    drains: [
      ...unready.map(({ id }) => ({ id, reason: `version ${version} has proved ready before it` })),
      ...inOrderOfDrain(ready)
        .slice(0, Math.max(0, spare))
        .map((worker) => ({ id: worker.id, reason: `of version ${worker.version}, replaced by ${version}` })),
      ...(ready.length === 0 ? surplus({ ...view, workers: own }, target) : []),
    ],
  }
}

/** Workers of the version that serves which the load asks for while too few of the new one may be started. */
function besideOf(view: ReleaseView, wanted: number): number {
  const { now, queue, settings, workers, version, serving } = view
  if (serving === version) return 0
  const missing = wanted - capacity(workers, now, queue.startMs).length
  const allowed = startsAllowed(backoffOf(view, serving), workers, now)
  return Math.max(0, Math.min(missing, settings.workersMax - workers.length, allowed.most))
}

/** Until one has proved ready, and while those that do die: one worker of the version, and whatever the load asks for of the version that serves. */
function tryVersion(view: ReleaseView, wanted: Pick<Wanted, 'workers' | 'kept'>): Moves {
  const { now, queue, settings, workers, version, serving } = view
  const isOwn = (worker: FleetWorker): boolean => worker.version === version
  const others = workers.filter((worker) => !isOwn(worker))
  const room = roomOf(view)
  const tryAllowed = startsAllowed(backoffOf(view, version), workers, now)
  const starting = workers.filter((worker) => isOwn(worker) && worker.state === 'starting').length
  const unproved = readyOf(workers, version).length - provedOf(view).length
  const canMake = settings.workersMax === 0 ? 0 : fleetRules.canaries - starting - unproved
  const tries = Math.max(0, Math.min(canMake, room, tryAllowed.most))
  const allowed = startsAllowed(backoffOf(view, serving), workers, now)
  const missing = wanted.workers - capacity(others, now, queue.startMs).length
  const more = Math.min(missing, settings.workersMax - others.length, room - tries, allowed.most)
  const count = Math.max(0, more)
  return {
    starts: [
      ...startsOf({
        version,
        count: tries,
        reason: `version ${version} is tried before others are replaced`,
      }),
      ...startsOf({
        version: serving,
        count,
        reason: `version ${serving} serves while version ${version} is tried`,
      }),
    ],
    held: [
      ...(canMake > tries && tryAllowed.most <= tries ? [tryAllowed.reason] : []),
      ...(missing > count && allowed.most <= count ? [allowed.reason] : []),
    ],
    drains: [
      ...others
        .filter((worker) => worker.state === 'starting' && worker.version !== serving)
        .map(({ id }) => ({ id, reason: `its release was superseded by version ${version}` })),
      ...surplus({ ...view, workers: others }, wanted.kept),
    ],
  }
}

function endOf(
  view: ReleaseView,
  { ready, older }: { ready: number; older: number },
): { state: ReleaseState; reason: string } | undefined {
  const { now, version, serving, newest, settings, workers } = view
  if (newest > version)
    return { state: 'SUPERSEDED', reason: `version ${newest} began before this one was done` }
  const failure = failureOf(view, ready)
  if (failure) return { state: 'STOPPED', reason: `${failure}. Version ${serving} goes on serving` }
  const hung = workers.find((worker) => worker.version === version && isHopeless(worker, now))
  if (hung && ready === 0) {
    const since = seconds(now - hung.startedAt)
    return {
      state: 'STOPPED',
      reason: `worker ${hung.id} was ${unheardWords(hung, since)}. Version ${serving} goes on serving`,
    }
  }
  if (older > 0) return undefined
  if (settings.workersMax === 0)
    return { state: 'COMPLETED', reason: 'workersMax is 0: no worker to replace' }
  if (ready < Math.max(1, settings.workersMin)) return undefined
  return { state: 'COMPLETED', reason: `${counted(ready, 'worker')} of version ${version} ready, none older` }
}

function failureOf(view: ReleaseView, ready: number): string | undefined {
  const { releaseFailures, releaseFailureShare } = fleetRules
  const deaths = deathsOf(view)
  if (deaths < Math.max(releaseFailures, ready * releaseFailureShare)) return undefined
  const last = backoffOf(view, view.version)?.reason.replace(/\.$/, '') ?? ''
  return `${deaths} workers of version ${view.version} failed in a row; the last: ${last}`
}

function deathsOf(view: ReleaseView): number {
  const { workers, version, now } = view
  return stillCounting(backoffOf(view, version), workers, now)?.deaths ?? 0
}

/** Draining workers fill the room too, for they are there. */
function roomOf({ settings, workers }: ReleaseView): number {
  return settings.workersMax + surgeOf(settings.workersMax) - workers.length
}

/** Idle ones cost nothing; after them those with the fewest jobs to wait for. */
function inOrderOfDrain(workers: readonly ReadyWorker[]): ReadyWorker[] {
  const jobsOf = (worker: ReadyWorker): number => (isIdle(worker) ? 0 : worker.jobs)
  return workers.toSorted((a, b) => jobsOf(a) - jobsOf(b) || a.version - b.version || a.readyAt - b.readyAt)
}

/** Those of its version that have been ready for a while. */
function provedOf({ now, version, workers }: ReleaseView): ReadyWorker[] {
  return readyOf(workers, version).filter(({ readyAt }) => now - readyAt >= fleetRules.proveMs)
}

function readyOf(workers: readonly FleetWorker[], version: number): ReadyWorker[] {
  return workers.filter(isReady).filter((worker) => worker.version === version)
}

function backoffOf({ backoffs }: ReleaseView, version: number): RestartBackoff | undefined {
  return backoffs.find((backoff) => backoff.version === version)
}

function startsOf(start: Start): Start[] {
  return start.count > 0 ? [start] : []
}
