// How many workers an endpoint is to have, and which idle ones may go. Pure: the time and all that is known are given.

import type { EndpointResource } from '../../resource/endpoint.ts'
import { fleetRules } from './fleet-rules.ts'
import { counted, seconds } from './fleet-words.ts'
import { startsAllowed, type RestartBackoff } from './restart-backoff.ts'
import { isIdle, isReady, unheardWords, type FleetWorker, type Order } from './fleet-worker.ts'

export type ScalingSettings = Pick<
  EndpointResource,
  'workersMin' | 'workersMax' | 'idleTimeout' | 'scalerType' | 'scalerValue'
>

export interface QueueView {
  /** Jobs in line that count, and those of low priority, which do not. */
  waiting: number
  waitingLowPriority: number
  /** How long the oldest in line that counts has waited; 0 without one. */
  oldestWaitMs: number
  /** Of jobs that count, lately. */
  arrivalsPerSecond?: number
  /** How long a job runs. */
  jobMs?: number
  /** How long a worker takes from its start to its first lease poll. */
  startMs?: number
  /** Whether one came or ended since the decision before: short jobs are over before anybody looks. */
  hadJobs?: boolean
  /** Jobs that one worker runs at a time. */
  slotsPerWorker: number
}

/** What a decision has to know of those before it: the most workers that there was use for, a falling list. */
export type Demand = readonly { at: number; workers: number }[]

export interface ScalingView {
  now: number
  settings: ScalingSettings
  queue: QueueView
  workers: readonly FleetWorker[]
  /** From the decision before; undefined at the first. */
  demand?: Demand | undefined
}

export interface Wanted {
  /** What is started up to. */
  workers: number
  /** What is drained down to: the most that there was use for within idleTimeout. */
  kept: number
  reason: string
  demand: Demand
}

export interface Scaling {
  wanted: Wanted
  start: number
  /** Why they are started, or why not as many as are missing. */
  startReason: string
  drains: Order[]
}

/** Starts and drains where all workers are of one version; planRelease decides while there are several. */
export function scale(
  view: ScalingView & { version: number; backoff?: RestartBackoff | undefined },
): Scaling {
  const { now, settings, queue, workers, version, backoff } = view
  const wanted = wantedWorkers(view)
  const missing = wanted.workers - capacity(workers, now, queue.startMs).length
  const room = settings.workersMax - workers.length
  const allowed = startsAllowed(
    backoff,
    workers.filter((worker) => worker.version === version),
    now,
  )
  const start = Math.max(0, Math.min(missing, room, allowed.most))
  return {
    wanted,
    start,
    startReason: missing > start && allowed.most <= start ? allowed.reason : wanted.reason,
    drains: surplus(view, wanted.kept),
  }
}

/** What an endpoint is to have now. `kept` is never below `workers`, so nothing that was drained is started at once again. */
export function wantedWorkers(view: ScalingView): Wanted {
  const { now, settings, queue, workers, demand } = view
  const { workersMin, workersMax, idleTimeout } = settings
  const need = settings.scalerType === 'REQUEST_COUNT' ? needByCount(view) : needByDelay(view)
  const bounded = Math.min(workersMax, Math.max(workersMin, need.workers))
  const busy = workers.filter(({ state }) => state === 'running').length
  const present = workers.filter(({ state }) => state !== 'draining').length
  // Nothing is known of what was before: all that there are count as used until now.
  const before = demand ?? [{ at: now, workers: present }]
  const used = Math.max(bounded, busy, queue.hadJobs ? 1 : 0)
  const next = withDemand(before, { at: now, workers: used }, now - idleTimeout * 1000)
  const kept = Math.min(workersMax, Math.max(bounded, next[0]?.workers ?? 0))
  return {
    workers: bounded,
    kept,
    reason: boundedReason(need, { workersMin, workersMax }),
    demand: next,
  }
}

/**
 * Idle workers beyond what is kept, the longest idle first. One that just became ready gets its idleTimeout too; one that is
 * starting takes nobody's place yet.
 */
export function surplus(view: ScalingView, kept: number): Order[] {
  const { now, settings, queue, workers } = view
  const ready = workers.filter(isReady).length
  const isOverMax = ready > settings.workersMax
  // What looks idle is about to take one of them.
  if (queue.waiting + queue.waitingLowPriority > 0 && !isOverMax) return []
  const idleMs = settings.idleTimeout * 1000
  return workers
    .filter(isIdle)
    .filter(({ readyAt }) => isOverMax || now - readyAt >= idleMs)
    .toSorted((a, b) => a.idleSince - b.idleSince || a.id.localeCompare(b.id))
    .slice(0, Math.max(0, ready - kept))
    .map(({ id, idleSince }) => ({
      id,
      reason: isOverMax
        ? `idle, and ${ready} workers are more than workersMax ${settings.workersMax}`
        : `idle for ${seconds(now - idleSince)}; for ${settings.idleTimeout} s no more than ${kept} of ${ready} workers had use`,
    }))
}

/** Workers that never became ready, or fell silent for as long: each is a failed start. */
export function hopelessStarts(workers: readonly FleetWorker[], now: number): Order[] {
  return workers
    .filter((worker) => isHopeless(worker, now))
    .map((worker) => ({ id: worker.id, reason: unheardWords(worker, seconds(now - worker.startedAt)) }))
}

export function isHopeless(worker: FleetWorker, now: number): boolean {
  return worker.state === 'starting' && now - worker.startedAt >= fleetRules.startDeadlineMs
}

/** Workers that take jobs or are about to. One whose start takes far longer than usual is no longer counted on. */
export function capacity(
  workers: readonly FleetWorker[],
  now: number,
  startMs: number | undefined,
): FleetWorker[] {
  const { slowStartFactor, slowStartMs, assumedStartMs } = fleetRules
  const patience = Math.max(slowStartMs, slowStartFactor * (startMs ?? assumedStartMs))
  return workers.filter(
    (worker) => isReady(worker) || (worker.state === 'starting' && now - worker.startedAt < patience),
  )
}

interface Need {
  workers: number
  reason: string
}

/** What runs on workers that go on; a draining worker's jobs need no other. */
function held(workers: readonly FleetWorker[]): { counting: number; lowPriority: number } {
  const sums = { counting: 0, lowPriority: 0 }
  for (const worker of workers) {
    if (worker.state !== 'running') continue
    sums.lowPriority += worker.lowPriorityJobs
    sums.counting += worker.jobs - worker.lowPriorityJobs
  }
  return sums
}

function needByCount({ queue, settings, workers }: ScalingView): Need {
  const { counting, lowPriority } = held(workers)
  const jobs = queue.waiting + counting
  if (jobs === 0) return { workers: 0, reason: 'no job that counts waits or runs' }
  // A worker that is full of low-priority jobs takes none of these.
  const taken = Math.floor(lowPriority / queue.slotsPerWorker)
  const beside = taken === 0 ? '' : `, beside ${taken} that low-priority jobs fill`
  return {
    workers: Math.ceil(jobs / settings.scalerValue) + taken,
    reason: `${counted(queue.waiting, 'job')} in line and ${counting} running, ${settings.scalerValue} per worker${beside}`,
  }
}

function needByDelay(view: ScalingView): Need {
  const { now, queue, settings, workers } = view
  const { waiting } = queue
  const { counting, lowPriority } = held(workers)
  const running = counting + lowPriority
  if (waiting + counting === 0) return { workers: 0, reason: 'no job that counts waits or runs' }
  const present = capacity(workers, now, queue.startMs)
  const steady = steadyNeed(view, running, present.length)
  const said = `${counted(waiting, 'job')} in line and ${running} running, ${seconds(queue.jobMs ?? fleetRules.assumedJobMs)} each`
  const late = lateNeed(view, running)
  if (late <= steady || present.some(({ state }) => state === 'starting')) {
    return { workers: steady, reason: `${said}: for a delay of ${settings.scalerValue} s at most` }
  }
  return {
    workers: late,
    reason: `${said}, one has waited ${seconds(queue.oldestWaitMs)} of ${settings.scalerValue} s: twice as many`,
  }
}

/** Those that are there are given the whole delay; further ones have their start to make up for. */
function steadyNeed({ queue, settings }: ScalingView, running: number, present: number): number {
  const { assumedStartMs, leastDelayShare, unknownMost } = fleetRules
  const delay = settings.scalerValue
  const start = (queue.startMs ?? assumedStartMs) / 1000
  const need = (time: number): number =>
    Math.max(1, Math.ceil(slotsFor(queue, running, time) / queue.slotsPerWorker - 1e-9))
  const withStart = need(Math.max(delay - start, delay * leastDelayShare))
  if (need(delay) <= present) return Math.min(withStart, present)
  return queue.jobMs === undefined ? Math.min(withStart, unknownMost) : withStart
}

/**
 * Slots with which what waits, and what comes meanwhile, begins within that time. `running` slots free up at running / length; each
 * further one takes a job at once and one more per length.
 */
function slotsFor(queue: QueueView, running: number, time: number): number {
  const length = Math.max(1, queue.jobMs ?? fleetRules.assumedJobMs) / 1000
  const arrivals = queue.arrivalsPerSecond ?? running / length
  const turns = time / length
  return running + (queue.waiting + arrivals * time - running * turns) / (1 + turns)
}

/** The estimate was wrong, for jobs are late: twice the workers, and no more than one slot per job. */
function lateNeed({ queue, settings, workers }: ScalingView, running: number): number {
  if (queue.waiting === 0 || queue.oldestWaitMs <= settings.scalerValue * 1000) return 0
  const ready = workers.filter(isReady).length
  return Math.min(Math.max(1, 2 * ready), Math.ceil((running + queue.waiting) / queue.slotsPerWorker))
}

function boundedReason(need: Need, { workersMin, workersMax }: { workersMin: number; workersMax: number }) {
  const { workers, reason } = need
  if (workers > workersMax)
    return `${counted(workersMax, 'worker')}, which is workersMax, where ${workers} had use: ${reason}`
  if (workers < workersMin) return `${counted(workersMin, 'worker')}, which is workersMin: ${reason}`
  return `${counted(workers, 'worker')}: ${reason}`
}

/** Keeps those that no later one exceeds; the first is the most. What is older than `since` goes, bar the present one. */
function withDemand(before: Demand, next: { at: number; workers: number }, since: number): Demand {
  const kept = before.filter(({ at, workers }) => workers > next.workers && at > since)
  return [...kept, next]
}
