// One worker of the hosted kind as this server sees it: whether it lives, what it holds, what it must be told.

import { Latch } from '../lib/latch.ts'

/** How often such a worker pings unless it is set otherwise. */
const PING_MS = 10_000
/** A process polls again within a second; a pause longer than this, without any poll, is between two processes. */
const PROCESS_PAUSE_MS = 1_500
/** Who still polls so long after it asked to be recycled is not going to be. */
const RETIRED_MS = 30_000
/** A job that waits for so long has nobody else to run it. */
const WITHHELD_MS = 600_000
/** Longer gaps are breaks, not intervals. */
const LONGEST_PING_MS = 120_000

export interface HeldTake {
  /** Answers it with what there is. */
  end(): void
  /** Whether it may get jobs. */
  isInLine: boolean
}

export class ForeignWorker {
  /** Set when there is something to stop, or when it should go. */
  readonly news = new Latch()
  /** Ids it should stop, each with the number of the order; ordered anew by each ping that still lists them. */
  readonly #stops = new Map<string, number>()
  #orders = 0
  /** The latest order that an answer carried. */
  told = 0
  /** Those that are held for it. */
  readonly takes = new Set<HeldTake>()
  /** Jobs it holds, with the monotonic time at which it took them; those it had before this server do not count. */
  readonly holds = new Map<string, number>()
  /** Of what it took here, the jobs of low priority. */
  readonly low = new Set<string>()
  heardAt: number
  isUnhealthy = false
  /** Whether it has asked for a job, or had one: it may ping from its first moment on, and never come to ask. */
  hasBegun = false
  #openPolls = 0
  #polledUntil = 0
  #retiredAt: number | undefined
  #pingedAt: number | undefined
  #pingEveryMs = PING_MS
  #cutAt: number | undefined
  #lostAt: number | undefined
  /** Whether its last ping listed jobs that it has lost: it still runs them. */
  #runsLost = true

  constructor(now: number) {
    this.heardAt = now
    // It may have lost jobs while nobody here knew of it.
    this.#lostAt = now
  }

  /** Three of its ping intervals: the first ping that lists a job may come a whole interval after its lease. */
  get leaseMs(): number {
    return 3 * this.#pingEveryMs
  }

  order(id: string): void {
    this.#orders += 1
    this.#stops.set(id, this.#orders)
  }

  /** Ids ordered to stop after this order. */
  stopsAfter(told: number): string[] {
    return [...this.#stops].filter(([, number]) => number > told).map(([id]) => id)
  }

  get orders(): number {
    return this.#orders
  }

  get holdsLowPriority(): number {
    for (const id of this.low) if (!this.holds.has(id)) this.low.delete(id)
    return this.low.size
  }

  pollBegins(now: number): void {
    this.#cutAt = undefined
    const pausedMs = this.#openPolls === 0 ? now - this.#polledUntil : 0
    const retiredMs = this.#retiredAt === undefined ? 0 : now - this.#retiredAt
    if (pausedMs > PROCESS_PAUSE_MS || retiredMs > RETIRED_MS) this.#retiredAt = undefined
    this.#openPolls += 1
  }

  /** `isCut`: its connection broke. When no other poll follows, its process is gone, whoever still pings in its name. */
  pollEnds(now: number, isCut: boolean): void {
    this.#openPolls -= 1
    this.#polledUntil = now
    if (!isCut) return
    this.#cutAt ??= now
    this.#retiredAt = undefined
  }

  /** It asked to be recycled: it gets no more jobs until another process polls in its place, or nobody recycles it. */
  get isRetired(): boolean {
    return this.#retiredAt !== undefined
  }

  retire(now: number): void {
    this.#retiredAt = now
    this.#polledUntil = now
  }

  isGone(now: number): boolean {
    return this.#cutAt !== undefined && now - this.#cutAt > this.leaseMs
  }

  pinged(now: number): void {
    const gap = this.#pingedAt === undefined ? PING_MS : now - this.#pingedAt
    this.#pingedAt = now
    this.#pingEveryMs = gap > LONGEST_PING_MS ? PING_MS : Math.max(PING_MS, gap)
  }

  listed(ids: readonly string[], lost: ReadonlySet<string>): void {
    this.#runsLost = lost.size > 0
    for (const id of this.holds.keys()) if (!ids.includes(id)) this.holds.delete(id)
    for (const id of this.#stops.keys()) if (!ids.includes(id)) this.#stops.delete(id)
    for (const id of lost) this.order(id)
  }

  lost(now: number): void {
    this.#lostAt = now
    this.#runsLost = true
  }

  /**
   * Jobs that it let lapse after this wall time are not for it; nothing when it has lost none. They are not, as long as it
   * lives and may still run them: it would run them twice, and its reports could not be told apart. Alone on its endpoint
   * it gets them all the same, a lease later, if its pings show that it no longer runs them.
   */
  withheldSince(
    { monotonic, wall }: { monotonic: number; wall: number },
    isAlone: boolean,
  ): number | undefined {
    if (this.#lostAt === undefined || monotonic - this.#lostAt > WITHHELD_MS) return undefined
    return isAlone && !this.#runsLost ? wall - this.leaseMs : 0
  }
}
