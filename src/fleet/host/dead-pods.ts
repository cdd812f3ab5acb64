// The workers that died, whose files are kept for whoever wants to know why: a few of each endpoint, for a day
// or as long as the endpoint is there.

import { fleetLimits } from '../../resource/fleet-limits.ts'

/** Of each endpoint. */
const KEPT = 10

export interface DeadPod {
  podId: string
  endpointId: string
  endedAt: number
}

export class DeadPods {
  readonly #pods = new Map<string, DeadPod>()

  add(pod: DeadPod): void {
    this.#pods.set(pod.podId, pod)
  }

  /** Its files are gone. */
  delete(podId: string): void {
    this.#pods.delete(podId)
  }

  get endpointIds(): Set<string> {
    return new Set([...this.#pods.values()].map(({ endpointId }) => endpointId))
  }

  /** Whose files are to go: of an endpoint that is gone, older than may be read, or more than are kept of their endpoint. */
  surplus(now: number, gone: ReadonlySet<string>): string[] {
    const seen = new Map<string, number>()
    return [...this.#pods.values()]
      .toSorted((a, b) => b.endedAt - a.endedAt)
      .filter(({ endpointId, endedAt }) => {
        const newer = seen.get(endpointId) ?? 0
        seen.set(endpointId, newer + 1)
        return gone.has(endpointId) || newer >= KEPT || endedAt + fleetLimits.terminatedMs <= now
      })
      .map(({ podId }) => podId)
  }
}
