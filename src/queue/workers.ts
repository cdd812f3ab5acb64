// Which workers are alive and what they hold, as far as this server has heard.

import type { Clock } from '../lib/clock.ts'

interface Heard {
  endpoint: string
  aliveUntil: number
  holds: number
}

export class Workers {
  readonly #clock: Clock
  readonly #heard = new Map<string, Heard>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  heard(endpoint: string, worker: string, report: { holds: number; aliveMs: number }): void {
    const aliveUntil = this.#clock.monotonic() + report.aliveMs
    this.#heard.set(`${endpoint}/${worker}`, { endpoint, aliveUntil, holds: report.holds })
  }

  /** `running` hold a job, `idle` hold none. */
  count(endpoint: string): { idle: number; running: number } {
    const counts = { idle: 0, running: 0 }
    const now = this.#clock.monotonic()
    for (const [key, worker] of this.#heard) {
      if (worker.aliveUntil <= now) this.#heard.delete(key)
      else if (worker.endpoint === endpoint) counts[worker.holds > 0 ? 'running' : 'idle'] += 1
    }
    return counts
  }
}
