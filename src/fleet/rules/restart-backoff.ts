// How long to wait before a worker that died is replaced. One record per version, for what kills one version may spare another.

import { backoffMs } from '../../lib/backoff.ts'
import { fleetRules } from './fleet-rules.ts'
import { isReady, type FleetWorker } from './fleet-worker.ts'
import { seconds } from './fleet-words.ts'

const { backoffBaseMs, backoffMaxMs, steadyMs, deathsUntilProbing } = fleetRules

export interface RestartBackoff {
  version: number
  /** Deaths in a row. */
  deaths: number
  /** The last of them, epoch ms. */
  at: number
  /** No worker of the version is started before, epoch ms. */
  until: number
  reason: string
}

export interface Death {
  version: number
  at: number
  startedAt: number
  /** Undefined where it never made a lease poll. */
  readyAt?: number | undefined
  reason: string
}

/**
 * The record after a death. `jitter` is from 0 up to 1. What dies while a wait is on had the same cause and is not counted again, so
 * that a machine lost with its hundred workers is one death; what lived long before it died begins anew.
 */
export function afterDeath(before: RestartBackoff | undefined, death: Death, jitter: number): RestartBackoff {
  const { version, at, readyAt } = death
  if (before && at < before.until) return { ...before, reason: wordsOf(death) }
  const isSteady = readyAt !== undefined && at - readyAt >= steadyMs
  const deaths = isSteady ? 1 : (before?.deaths ?? 0) + 1
  const wait = backoffMs(deaths, { baseMs: backoffBaseMs, maxMs: backoffMaxMs, random: () => jitter })
  return { version, deaths, at, until: at + wait, reason: wordsOf(death) }
}

/** Undefined once a worker has been ready for long since the last wait was over, and none has died: whatever it was is past. */
export function stillCounting(
  backoff: RestartBackoff | undefined,
  workers: readonly FleetWorker[],
  now: number,
): RestartBackoff | undefined {
  if (!backoff) return undefined
  const { version, until } = backoff
  const isOver = workers.some(
    (worker) =>
      worker.version === version && isReady(worker) && now - Math.max(until, worker.readyAt) >= steadyMs,
  )
  return isOver ? undefined : backoff
}

/** How many workers of its version may be started now, and why no more. */
export function startsAllowed(
  backoff: RestartBackoff | undefined,
  workers: readonly FleetWorker[],
  now: number,
): { most: number; reason: string } {
  const counted = stillCounting(backoff, workers, now)
  if (!counted) return { most: Infinity, reason: '' }
  const { version, deaths, until, reason } = counted
  if (now < until) {
    const wait = seconds(until - now)
    return { most: 0, reason: `the next start of version ${version} waits ${wait} more: ${reason}` }
  }
  if (deaths < deathsUntilProbing) return { most: Infinity, reason: '' }
  const starting = workers.filter((worker) => worker.version === version && worker.state === 'starting')
  return {
    most: Math.max(0, 1 - starting.length),
    reason: `version ${version} is tried with one worker at a time after ${deaths} deaths in a row: ${reason}`,
  }
}

function wordsOf({ at, startedAt, readyAt, reason }: Death): string {
  const when = readyAt === undefined ? 'before it was ready' : `${seconds(at - readyAt)} after it was ready`
  return `a worker died ${seconds(at - startedAt)} after its start, ${when}: ${reason}`
}
