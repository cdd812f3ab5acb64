// Which workers are alive and what they hold: those that this server has heard, and those that others say they have.

import type { Clock } from '../lib/clock.ts'
import type { Presence, PresenceStore } from '../store/traffic.ts'

interface Heard {
  endpoint: string
  worker: string
  aliveUntil: number
  holds: number
  isUnhealthy: boolean
  /** When the other servers were told last. */
  toldAt: number
}

interface Others {
  askedAt: number
  workers: Promise<Presence[]>
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

/** How old what servers know of each other's workers may be, beside what it takes to tell. */
const NEWS_MS = 1_000

export class Workers {
  readonly #clock: Clock
  readonly #presence: PresenceStore
  readonly #onError: (cause: unknown) => void
  readonly #heard = new Map<string, Heard>()
  readonly #others = new Map<string, Others>()

  constructor(options: { clock: Clock; presence: PresenceStore; onError: (cause: unknown) => void }) {
    this.#clock = options.clock
    this.#presence = options.presence
    this.#onError = options.onError
  }

  heard(
    endpoint: string,
    worker: string,
    report: { holds: number; aliveMs: number; isUnhealthy?: boolean },
  ): void {
    const { holds, aliveMs, isUnhealthy = false } = report
    const now = this.#clock.monotonic()
    const key = `${endpoint}/${worker}`
    const before = this.#heard.get(key)
    const heard = {
      endpoint,
      worker,
      aliveUntil: now + aliveMs,
      holds,
      isUnhealthy,
      toldAt: before?.toldAt ?? -NEWS_MS,
    }
    this.#heard.set(key, heard)
    // Between two short jobs a worker is idle for a moment, which is no news.
    if (now - heard.toldAt < NEWS_MS) return
    heard.toldAt = now
    const told = { worker, aliveUntil: this.#clock.now() + aliveMs, holds, isUnhealthy }
    this.#presence.tell(endpoint, [told]).catch(this.#onError)
  }

  async count(endpoint: string): Promise<WorkerCounts> {
    const counts = { idle: 0, running: 0, ready: 0, initializing: 0, throttled: 0, unhealthy: 0 }
    const now = this.#clock.monotonic()
    const here = new Set<string>()
    for (const [key, worker] of this.#heard) {
      if (worker.aliveUntil <= now) this.#heard.delete(key)
      else if (worker.endpoint === endpoint) {
        here.add(worker.worker)
        counts[kindOf(worker)] += 1
      }
    }
    for (const other of await this.#elsewhere(endpoint)) {
      if (!here.has(other.worker) && other.aliveUntil > this.#clock.now()) counts[kindOf(other)] += 1
    }
    counts.ready = counts.idle + counts.running
    return counts
  }

  #elsewhere(endpoint: string): Promise<Presence[]> {
    const known = this.#others.get(endpoint)
    const now = this.#clock.monotonic()
    if (known && now - known.askedAt < NEWS_MS) return known.workers
    const workers = this.#presence.list(endpoint, this.#clock.now()).catch((cause: unknown) => {
      this.#onError(cause)
      return []
    })
    this.#others.set(endpoint, { askedAt: now, workers })
    return workers
  }
}

function kindOf({
  holds,
  isUnhealthy,
}: Pick<Presence, 'holds' | 'isUnhealthy'>): 'unhealthy' | 'running' | 'idle' {
  if (isUnhealthy) return 'unhealthy'
  return holds > 0 ? 'running' : 'idle'
}
