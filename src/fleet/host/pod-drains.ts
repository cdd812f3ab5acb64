// Workers that are to end after their jobs: which of them have none left.

import type { Clock } from '../../lib/clock.ts'
import type { StoredPod } from '../../resource/pod.ts'
import type { Presence } from '../../store/traffic.ts'
import type { FleetLog } from '../service/host-settings.ts'
import { isDraining } from './pod-duty.ts'
import type { PodRuns } from './pod-runs.ts'
import type { Workforce } from '../service/workforce.ts'

/** A worker that holds nothing for this long has had its answer to what it asked before the drain. */
const EMPTY_MS = 2_000
/** One that nobody hears may come back with its jobs; after this long they are others'. */
const SILENT_MS = 60_000

interface Draining {
  pod: StoredPod
  /** It may have had jobs before this service could hear of it. */
  isOfBefore: boolean
}

export class PodDrains {
  readonly #clock: Clock
  readonly #workforce: Workforce
  readonly #log: FleetLog
  /** Since when, on the monotonic clock. */
  readonly #empty = new Map<string, number>()
  readonly #silent = new Map<string, number>()
  readonly #wereHeard = new Set<string>()

  constructor({ clock, workforce, log }: { clock: Clock; workforce: Workforce; log: FleetLog }) {
    this.#clock = clock
    this.#workforce = workforce
    this.#log = log
  }

  /** Tells them all, once more, and answers those that may be stopped. Where one endpoint cannot be asked, the others are. */
  async empty(records: readonly StoredPod[], runs: PodRuns): Promise<string[]> {
    const byEndpoint = Map.groupBy(
      records.flatMap((pod) => {
        const run = runs.of(pod.id)
        return isDraining(pod, run) && run.state === 'running' ? [{ pod, isOfBefore: run.isOfBefore }] : []
      }),
      ({ pod }) => pod.endpointId ?? '',
    )
    const found: string[] = []
    for (const [endpointId, workers] of byEndpoint) {
      try {
        found.push(...(await this.#emptyOf(endpointId, workers)))
      } catch (error) {
        const message = `It cannot be told which workers of endpoint ${endpointId} have ended their jobs; that is asked again.`
        this.#log.error({ err: error, endpoint: endpointId }, message)
      }
    }
    return found
  }

  forget(podId: string): void {
    this.#empty.delete(podId)
    this.#silent.delete(podId)
    this.#wereHeard.delete(podId)
  }

  async #emptyOf(endpointId: string, workers: readonly Draining[]): Promise<string[]> {
    for (const { pod } of workers) this.#workforce.drain(endpointId, pod.id)
    const heard = await this.#workforce.heard(endpointId)
    return workers.flatMap((worker) => {
      const { id } = worker.pod
      const presence = heard.find((one) => one.worker === id)
      return this.#isEmpty(worker, presence) ? [id] : []
    })
  }

  #isEmpty({ pod, isOfBefore }: Draining, presence: Presence | undefined): boolean {
    const now = this.#clock.monotonic()
    if (presence) {
      this.#wereHeard.add(pod.id)
      this.#silent.delete(pod.id)
      if (presence.holds === 0) return now - since(this.#empty, pod.id, now) >= EMPTY_MS
      this.#empty.delete(pod.id)
      return false
    }
    this.#empty.delete(pod.id)
    // One that never asked for a job has none.
    const wasHeard = isOfBefore || pod.readyAt !== undefined || this.#wereHeard.has(pod.id)
    return now - since(this.#silent, pod.id, now) >= (wasHeard ? SILENT_MS : EMPTY_MS)
  }
}

function since(times: Map<string, number>, id: string, now: number): number {
  const at = times.get(id) ?? now
  times.set(id, at)
  return at
}
