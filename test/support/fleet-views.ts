// Workers and queues for the examples of the fleet's rules: what a test does not name is quiet.

import type { FleetWorker } from '../../src/fleet/rules/fleet-worker.ts'
import type { QueueView, ScalingSettings } from '../../src/fleet/rules/scaler.ts'

/** The time in all examples, well past the beginning. */
export const NOW = 1_000_000

export const byDelay: ScalingSettings = {
  workersMin: 0,
  workersMax: 10,
  idleTimeout: 5,
  scalerType: 'QUEUE_DELAY',
  scalerValue: 4,
}

export const byCount: ScalingSettings = { ...byDelay, scalerType: 'REQUEST_COUNT' }

export function queueWith(known: Partial<QueueView> = {}): QueueView {
  return { waiting: 0, waitingLowPriority: 0, oldestWaitMs: 0, slotsPerWorker: 1, ...known }
}

type Kind = 'starting' | 'idle' | 'running' | 'draining'

/** So many of a kind that have been what they are for a minute and more: `idle-1.0`, `idle-1.1` of version 1. */
export function some(
  count: number,
  state: Kind,
  { version = 1, jobs = 1, lowPriorityJobs = 0, forMs = 100_000 } = {},
): FleetWorker[] {
  return Array.from({ length: count }, (_, n) => {
    const known = { id: `${state}-${version}.${n}`, version, startedAt: NOW - forMs }
    const readyAt = NOW - forMs
    if (state === 'starting') return { ...known, state }
    if (state === 'draining') return { ...known, state, jobs }
    if (state === 'idle') return { ...known, state, readyAt, idleSince: readyAt }
    return { ...known, state, readyAt, jobs, lowPriorityJobs }
  })
}
