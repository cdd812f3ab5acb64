// Which workers are alive and what they hold, as far as this server has heard.

import type { Clock } from '../lib/clock.ts'

interface Heard {
  endpoint: string
  aliveUntil: number
  holds: number
  isUnhealthy: boolean
}

export interface WorkerCounts {
  /** Hold no job. */
  idle: number
  /** Hold one at least. */
  running: number
  /** Both of them. */
  ready: number
  /** Started and not heard of yet, and held back by the fleet: whoever starts workers knows of these. */
  initializing: number
  throttled: number
  /** Say so themselves. */
  unhealthy: number
}

export class Workers {
  readonly #clock: Clock
  readonly #heard = new Map<string, Heard>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  heard(
    endpoint: string,
    worker: string,
    report: { holds: number; aliveMs: number; isUnhealthy?: boolean },
  ): void {
    const { holds, aliveMs, isUnhealthy = false } = report
    const aliveUntil = this.#clock.monotonic() + aliveMs
    this.#heard.set(`${endpoint}/${worker}`, { endpoint, aliveUntil, holds, isUnhealthy })
  }

  count(endpoint: string): WorkerCounts {
    const counts = { idle: 0, running: 0, ready: 0, initializing: 0, throttled: 0, unhealthy: 0 }
    const now = this.#clock.monotonic()
    for (const [key, worker] of this.#heard) {
      if (worker.aliveUntil <= now) this.#heard.delete(key)
      else if (worker.endpoint === endpoint) counts[kindOf(worker)] += 1
    }
    counts.ready = counts.idle + counts.running
    return counts
  }
}

function kindOf({ holds, isUnhealthy }: Heard): 'unhealthy' | 'running' | 'idle' {
  if (isUnhealthy) return 'unhealthy'
  return holds > 0 ? 'running' : 'idle'
}
