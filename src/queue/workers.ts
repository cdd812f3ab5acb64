// Which workers are alive and what they hold: those that this server has heard, and those that others say they have.

import type { Clock, Timer } from '../lib/clock.ts'
import type { Presence, PresenceStore } from '../store/traffic.ts'

interface Heard {
  endpoint: string
  worker: string
  aliveUntil: number
  holds: number
  lowPriority: number
  isUnhealthy: boolean
  isStarting: boolean
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

export type FleetCounts = Pick<WorkerCounts, 'initializing' | 'throttled'>

/** How old what servers know of each other's workers may be, beside what it takes to tell. */
const NEWS_MS = 1_000

export class Workers {
  readonly #clock: Clock
  readonly #presence: PresenceStore
  readonly #onError: (cause: unknown) => void
  readonly #heard = new Map<string, Heard>()
  readonly #others = new Map<string, Others>()
  readonly #fleet = new Map<string, FleetCounts>()
  /** Of workers whose news has to wait for its turn. */
  readonly #untold = new Map<string, Timer>()
  #isClosed = false

  constructor(options: { clock: Clock; presence: PresenceStore; onError: (cause: unknown) => void }) {
    this.#clock = options.clock
    this.#presence = options.presence
    this.#onError = options.onError
  }

  /** A worker has spoken: it is alive for a while. */
  hear(
    endpoint: string,
    worker: string,
    report: {
      holds: number
      lowPriority: number
      aliveMs: number
      isUnhealthy?: boolean
      isStarting?: boolean
    },
  ): void {
    const { holds, aliveMs, lowPriority, isUnhealthy = false, isStarting = false } = report
    const now = this.#clock.monotonic()
    const key = `${endpoint}/${worker}`
    const before = this.#heard.get(key)
    const heard = {
      endpoint,
      worker,
      aliveUntil: now + aliveMs,
      holds,
      lowPriority,
      isUnhealthy,
      isStarting,
      toldAt: before?.toldAt ?? -NEWS_MS,
    }
    this.#heard.set(key, heard)
    const wait = heard.toldAt + NEWS_MS - now
    if (wait <= 0) this.#tell(key)
    // Between two short jobs a worker is idle for a moment, which is no news. What it does then may last, and it may be silent meanwhile.
    else if (before && isOther(heard, before)) this.#tellLater(key, wait)
  }

  async count(endpoint: string): Promise<WorkerCounts> {
    const fleet = this.#fleet.get(endpoint) ?? { initializing: 0, throttled: 0 }
    const counts = { idle: 0, running: 0, ready: 0, unhealthy: 0, ...fleet }
    for (const worker of await this.heard(endpoint)) {
      // Whoever started it counts it already.
      if (worker.isStarting && fleet.initializing > 0) continue
      counts[kindOf(worker)] += 1
    }
    counts.ready = counts.idle + counts.running
    return counts
  }

  /** Those that are alive, by what this server has heard, and by what others say of the rest. */
  async heard(endpoint: string): Promise<Presence[]> {
    const told = await this.#elsewhere(endpoint)
    const [now, wall] = [this.#clock.monotonic(), this.#clock.now()]
    const elsewhere = new Map(
      told.filter(({ aliveUntil }) => aliveUntil > wall).map((one) => [one.worker, one]),
    )
    const here = new Map<string, Presence>()
    for (const [key, heard] of this.#heard) {
      if (heard.aliveUntil <= now) this.#drop(key)
      else if (heard.endpoint === endpoint) {
        const other = heard.isStarting ? elsewhere.get(heard.worker) : undefined
        const known = presenceOf(heard, { wall, aliveMs: heard.aliveUntil - now })
        // Its pings may come here, and its polls elsewhere.
        here.set(heard.worker, other ? { ...other, isUnhealthy: heard.isUnhealthy } : known)
      }
    }
    return [...new Map([...elsewhere, ...here]).values()]
  }

  /** Said by whoever starts workers, each time that it changes; both 0 when it has no more to do with the endpoint. */
  setFleetCounts(endpoint: string, { initializing, throttled }: FleetCounts): void {
    if (initializing + throttled === 0) this.#fleet.delete(endpoint)
    else this.#fleet.set(endpoint, { initializing, throttled })
  }

  /** It is gone, and the other servers need not wait to see that. */
  forget(endpoint: string, worker: string): void {
    const key = `${endpoint}/${worker}`
    const heard = this.#heard.get(key)
    if (!heard) return
    this.#drop(key)
    this.#others.delete(endpoint)
    this.#presence.tell(endpoint, [presenceOf(heard, { wall: 0, aliveMs: 0 })]).catch(this.#onError)
  }

  /** Nothing is told any more that was put off. */
  close(): void {
    this.#isClosed = true
    for (const timer of this.#untold.values()) timer.clear()
    this.#untold.clear()
  }

  #tell(key: string): void {
    this.#untold.get(key)?.clear()
    this.#untold.delete(key)
    const heard = this.#heard.get(key)
    const now = this.#clock.monotonic()
    if (!heard || heard.aliveUntil <= now) return
    // Another may know that it has asked for a job.
    if (heard.isStarting && !heard.isUnhealthy) return
    heard.toldAt = now
    const times = { wall: this.#clock.now(), aliveMs: heard.aliveUntil - now }
    this.#presence.tell(heard.endpoint, [presenceOf(heard, times)]).catch(this.#onError)
  }

  #tellLater(key: string, ms: number): void {
    if (this.#isClosed || this.#untold.has(key)) return
    this.#untold.set(
      key,
      this.#clock.after(ms, () => this.#tell(key), { background: true }),
    )
  }

  #drop(key: string): void {
    this.#heard.delete(key)
    this.#untold.get(key)?.clear()
    this.#untold.delete(key)
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

/** `wall`: what is now, epoch ms. */
function presenceOf(
  { worker, holds, lowPriority, isUnhealthy, isStarting }: Heard,
  { wall, aliveMs }: { wall: number; aliveMs: number },
): Presence {
  return { worker, aliveUntil: wall + aliveMs, aliveMs, holds, lowPriority, isUnhealthy, isStarting }
}

function isOther(one: Heard, other: Heard): boolean {
  return (
    one.holds !== other.holds ||
    one.lowPriority !== other.lowPriority ||
    one.isUnhealthy !== other.isUnhealthy ||
    one.isStarting !== other.isStarting
  )
}

function kindOf({
  holds,
  isUnhealthy,
}: Pick<Presence, 'holds' | 'isUnhealthy'>): 'unhealthy' | 'running' | 'idle' {
  if (isUnhealthy) return 'unhealthy'
  return holds > 0 ? 'running' : 'idle'
}
