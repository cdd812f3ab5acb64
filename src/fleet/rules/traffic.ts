// How fast jobs come and how long they take, from what the queue counts anyway.

import { fleetRules } from './fleet-rules.ts'

/** Sums that fade: what was a window ago weighs a third of what is now. */
export interface Traffic {
  at: number
  arrived: number
  ended: number
  running: number
  windowMs: number
  /** How long a job ran when that was last well known. */
  knownJobMs?: number
  /** Jobs that arrived and ended since, and the time that jobs ran, faded. */
  faded: { arrivals: number; ends: number; runSeconds: number }
}

export interface TrafficSample {
  /** Epoch ms. */
  now: number
  /** Jobs that count, ever. */
  arrived: number
  /** Jobs that have run to an end, ever. */
  ended: number
  /** Jobs that run now. */
  running: number
}

export interface TrafficEstimate {
  arrivalsPerSecond: number
  /** Undefined until some have ended, or have run for a while. */
  jobMs?: number
}

/** `windowMs`: what is averaged over. A count that fell, as after a change of store, begins anew. */
export function observe(before: Traffic | undefined, sample: TrafficSample, windowMs: number): Traffic {
  const { now, arrived, ended, running } = sample
  const none = { arrivals: 0, ends: 0, runSeconds: 0 }
  if (!before || arrived < before.arrived || ended < before.ended) {
    return { at: now, arrived, ended, running, windowMs, faded: none }
  }
  const seconds = Math.max(0, now - before.at) / 1000
  const keep = Math.exp((-seconds * 1000) / windowMs)
  const faded = {
    arrivals: before.faded.arrivals * keep + arrived - before.arrived,
    ends: before.faded.ends * keep + ended - before.ended,
    runSeconds: before.faded.runSeconds * keep + ((before.running + running) / 2) * seconds,
  }
  const isWellKnown = faded.ends >= Math.max(1, running) && faded.runSeconds > 0
  const knownJobMs = isWellKnown ? (faded.runSeconds / faded.ends) * 1000 : before.knownJobMs
  return {
    at: now,
    arrived,
    ended,
    running,
    windowMs,
    faded,
    ...(knownJobMs !== undefined && { knownJobMs }),
  }
}

export function estimateOf({ faded, running, windowMs, knownJobMs }: Traffic): TrafficEstimate {
  // Jobs that still run take part, so that a job of an hour is not taken for a short one until it ends.
  const jobs = faded.ends + running
  const atLeast = jobs > 0 ? (faded.runSeconds / jobs) * 1000 : 0
  const isKnown = knownJobMs !== undefined || atLeast > fleetRules.assumedJobMs
  return {
    // Over the whole window from the beginning: a burst alone is no rate.
    arrivalsPerSecond: (faded.arrivals / windowMs) * 1000,
    ...(isKnown && { jobMs: Math.max(atLeast, knownJobMs ?? 0) }),
  }
}

/** A longer delay is judged by a longer past. */
export function trafficWindowMs(settings: { scalerType: string; scalerValue: number }): number {
  const delayMs = settings.scalerType === 'QUEUE_DELAY' ? settings.scalerValue * 1000 : 0
  return Math.max(fleetRules.trafficWindowMs, delayMs)
}
