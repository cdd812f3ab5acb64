// What a decision about an endpoint's workers has to know of those before it. Whoever takes the endpoint over begins with none of it.

import type { EndpointResource } from '../../resource/endpoint.ts'
import type { StoredPod } from '../../resource/pod.ts'
import type { QueueLoad } from '../../store/job-store.ts'
import type { FleetWorker } from '../rules/fleet-worker.ts'
import { afterDeath, stillCounting, type Death, type RestartBackoff } from '../rules/restart-backoff.ts'
import type { Demand, QueueView } from '../rules/scaler.ts'
import { estimateOf, observe, trafficWindowMs, type Traffic } from '../rules/traffic.ts'
import { deathOf, isEnding, workerOf, type Seen } from './worker-pod.ts'

export class ScalingMemory {
  /** From the decision before. */
  demand: Demand | undefined
  readonly #random: () => number
  readonly #idleSince = new Map<string, number>()
  readonly #silentSince = new Map<string, number>()
  /** Pods whose death was counted when it was ordered. */
  readonly #counted = new Set<string>()
  readonly #backoffs = new Map<number, RestartBackoff>()
  #known = new Set<string>()
  #traffic: Traffic | undefined
  #load: QueueLoad | undefined
  #startMs: number | undefined

  /** `random` gives numbers from 0 up to 1. */
  constructor(random: () => number) {
    this.#random = random
  }

  /** A pod was recorded: should it be gone by the next look, it was there. */
  made(pod: StoredPod): void {
    this.#known.add(pod.id)
  }

  /** The pods as they are now; answers the ids of those that are gone since. */
  look(pods: readonly StoredPod[]): string[] {
    const before = this.#known
    this.#known = new Set(pods.map(({ id }) => id))
    return [...before].filter((id) => !this.#known.has(id))
  }

  /** Counts it unless it was counted, or told to end; answers the death that was counted. */
  died(pod: StoredPod, { version, now }: { version: number; now: number }): Death | undefined {
    const death = deathOf(pod, { version, now })
    if (!death || this.#counted.has(pod.id)) return undefined
    this.#counted.add(pod.id)
    this.#backoffs.set(version, afterDeath(this.#backoffs.get(version), death, this.#random()))
    return death
  }

  forget(podId: string): void {
    this.#idleSince.delete(podId)
    this.#silentSince.delete(podId)
    this.#counted.delete(podId)
  }

  /** A worker made its first poll. */
  becameReady({ startedAt }: StoredPod, now: number): void {
    if (startedAt === undefined) return
    const took = Math.max(0, now - startedAt)
    this.#startMs = this.#startMs === undefined ? took : this.#startMs * 0.8 + took * 0.2
  }

  /** A pod as the rules see it. */
  worker(pod: StoredPod, seen: Pick<Seen, 'version' | 'presence' | 'now' | 'hearingSince'>): FleetWorker {
    const { presence, now } = seen
    const isSilent = !presence && pod.readyAt !== undefined
    const isIdle = presence?.holds === 0 && !isEnding(pod)
    return workerOf(pod, {
      ...seen,
      idleSince: since(this.#idleSince, { id: pod.id, isSo: isIdle, now }),
      silentSince: since(this.#silentSince, { id: pod.id, isSo: isSilent, now }),
    })
  }

  /** `running`: jobs that all heard workers hold. */
  queue(
    load: QueueLoad,
    now: { now: number; running: number; settings: EndpointResource; slotsPerWorker: number },
  ): QueueView {
    const { running, settings, slotsPerWorker } = now
    const { waiting, waitingLowPriority, oldestWaitMs, arrived, ended } = load
    const before = this.#load
    this.#load = load
    const sample = { now: now.now, arrived, ended, running }
    this.#traffic = observe(this.#traffic, sample, trafficWindowMs(settings))
    return {
      waiting,
      waitingLowPriority,
      oldestWaitMs,
      ...estimateOf(this.#traffic),
      ...(this.#startMs !== undefined && { startMs: this.#startMs }),
      hadJobs: before !== undefined && (before.arrived !== arrived || before.ended !== ended),
      slotsPerWorker,
    }
  }

  /** Those that still count; what is past is forgotten, so that the next death is the first again. */
  backoffs(workers: readonly FleetWorker[], now: number): RestartBackoff[] {
    for (const [version, backoff] of this.#backoffs)
      if (!stillCounting(backoff, workers, now)) this.#backoffs.delete(version)
    return [...this.#backoffs.values()]
  }
}

/** Since when it is so; the first time that it is seen counts as the beginning. */
function since(
  times: Map<string, number>,
  { id, isSo, now }: { id: string; isSo: boolean; now: number },
): number {
  const at = isSo ? (times.get(id) ?? now) : now
  if (isSo) times.set(id, at)
  else times.delete(id)
  return at
}
