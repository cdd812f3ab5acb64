// What workers of the hosted platform ask: take, stop, done, stream, ping. They know no lease tokens.

import { splitJson } from '../job/chunk.ts'
import type { JobError } from '../job/job.ts'
import { limits } from '../job/limits.ts'
import { Latch } from '../lib/latch.ts'
import type { Clock } from '../lib/clock.ts'
import type { End, Fence, LeaseAsk, NewChunk } from '../store/job-store.ts'
import type { Store } from '../store/store.ts'
import type { StoreEvent } from '../store/store-event.ts'
import type { Drained } from './drained.ts'
import { ForeignWorker } from './foreign-worker.ts'
import { readForeignChunk, readForeignResult, type ForeignPiece } from './foreign-result.ts'
import type { LeaseLine, OpenedJob } from './lease-line.ts'
import type { Telemetry } from './telemetry.ts'
import type { Workers } from './workers.ts'

export interface ForeignOptions {
  store: Store
  line: LeaseLine
  workers: Workers
  drained: Drained
  clock: Clock
  stopping: AbortSignal
  telemetry: Telemetry
  /** A worker asked to be recycled. */
  onRetired: (worker: { endpoint: string; worker: string }) => void
  onError: (cause: unknown) => void
}

export interface ForeignPing {
  ids: readonly string[]
  /** It says of itself that it cannot work. */
  isUnhealthy: boolean
}

/** Their client gives up at 90 s and asks again at once after an empty answer: often enough to be known alive. */
const HOLD_MS = 25_000

const FORGET_MS = 600_000

export class ForeignWorkers {
  readonly #options: ForeignOptions
  readonly #workers = new Map<string, ForeignWorker>()
  readonly #stopWatching: () => void

  constructor(options: ForeignOptions) {
    this.#options = options
    this.#stopWatching = options.store.watch((event) => this.#onStoreEvent(event))
  }

  /** Up to `count` jobs; held while there are none. Empty when the hold ends or the worker has gone. */
  async take(endpoint: string, worker: string, count: number, gone: AbortSignal): Promise<OpenedJob[]> {
    const { line, clock, drained, stopping } = this.#options
    const known = this.#polled(endpoint, worker)
    known.hasBegun = true
    this.#heard(endpoint, worker)
    const latch = new Latch()
    let leases: OpenedJob[] = []
    let isOver = false
    const take = (given: OpenedJob[]): void => {
      if (isOver || gone.aborted) return this.giveBack(endpoint, worker, given)
      leases = given
      latch.set()
    }
    const withheld = await this.#withheld(endpoint, known)
    const ask = { worker, count, leaseMs: known.leaseMs, startsAtLease: { graceMs: 0 }, ...withheld }
    const isInLine = !known.isRetired && !drained.has(endpoint, worker)
    const leave = isInLine ? line.join(endpoint, { ask, take }) : () => undefined
    const held = { end: () => latch.set(), isInLine }
    known.takes.add(held)
    await latch.wait(clock, HOLD_MS, [gone, stopping])
    known.takes.delete(held)
    isOver = true
    leave()
    const now = clock.monotonic()
    known.pollEnds(now, gone.aborted)
    if (gone.aborted) this.giveBack(endpoint, worker, leases)
    for (const { id, policy } of leases) {
      known.holds.set(id, now)
      if (policy.lowPriority) known.low.add(id)
    }
    this.#heard(endpoint, worker)
    return leases
  }

  async #withheld(endpoint: string, known: ForeignWorker): Promise<Pick<LeaseAsk, 'notLostSince'>> {
    const { clock, workers } = this.#options
    const { ready, unhealthy } = await workers.count(endpoint)
    const now = { monotonic: clock.monotonic(), wall: clock.now() }
    const since = known.withheldSince(now, ready + unhealthy <= 1)
    return since === undefined ? {} : { notLostSince: since }
  }

  /** From now on it gets no job: whatever it asks for is answered as when there is none. */
  drain(endpoint: string, worker: string): void {
    this.#options.drained.add(endpoint, worker)
    for (const held of this.#workers.get(`${endpoint}/${worker}`)?.takes ?? []) if (held.isInLine) held.end()
  }

  forget(endpoint: string, worker: string): void {
    this.#options.drained.delete(endpoint, worker)
    this.#workers.delete(`${endpoint}/${worker}`)
  }

  /** For jobs whose answer could not be written. */
  giveBack(endpoint: string, worker: string, leases: readonly OpenedJob[]): void {
    const { store, clock, onError } = this.#options
    for (const { id, lease } of leases) {
      this.#workers.get(`${endpoint}/${worker}`)?.holds.delete(id)
      store.jobs.release({ endpoint, id, lease }, clock.now()).catch(onError)
    }
  }

  /** Ids that the worker should stop; held while there are none. */
  async stops(endpoint: string, worker: string, gone: AbortSignal): Promise<string[]> {
    const { clock, stopping } = this.#options
    const known = this.#polled(endpoint, worker)
    const until = clock.monotonic() + HOLD_MS
    const wasRetired = known.isRetired
    const isOver = (): boolean =>
      gone.aborted || stopping.aborted || clock.monotonic() >= until || known.isRetired !== wasRetired
    // Several polls may be open, one of them on a connection that is dead: each tells what is new since it came.
    const since = known.told
    while (known.stopsAfter(since).length === 0 && !isOver()) {
      await known.news.wait(clock, until - clock.monotonic(), [gone, stopping])
    }
    known.pollEnds(clock.monotonic(), gone.aborted)
    if (gone.aborted) return []
    known.told = known.orders
    return known.stopsAfter(since)
  }

  /** A result or progress. One that comes too late changes nothing, and the worker could do nothing about it. */
  async done(endpoint: string, worker: string, id: string, body: Uint8Array): Promise<void> {
    const { store } = this.#options
    const known = this.#heard(endpoint, worker)
    const fence = { endpoint, id, worker }
    const result = readForeignResult(body)
    if (result.kind !== 'end') {
      if (result.kind === 'progress') await store.jobs.setProgress(fence, result.progress)
      await this.#keep(endpoint, worker, [id])
      return
    }
    if (result.wantsRecycling) this.#retire(endpoint, worker, known)
    await this.#settle(fence, known, result.end)
  }

  async #settle(fence: Fence & { worker: string }, known: ForeignWorker, end: End): Promise<void> {
    const { store, clock, telemetry } = this.#options
    const { endpoint, id, worker } = fence
    const takenAt = known.holds.get(id)
    known.holds.delete(id)
    this.#heard(endpoint, worker)
    const state = await store.jobs.settle(fence, end, { now: clock.now() })
    if (state !== 'accepted' || takenAt === undefined) return
    const outcome = end.event === 'complete' ? 'completed' : 'failed'
    telemetry.ran(endpoint, outcome, clock.monotonic() - takenAt)
  }

  /** It is given no more; whoever started it should start it anew. A process that is leaving waits for its polls to end. */
  #retire(endpoint: string, worker: string, known: ForeignWorker): void {
    known.retire(this.#options.clock.monotonic())
    known.news.set()
    for (const held of known.takes) held.end()
    this.#options.onRetired({ endpoint, worker })
  }

  /** One streamed piece; one that is too large for a chunk is split. */
  async stream(endpoint: string, worker: string, id: string, body: Uint8Array): Promise<void> {
    const { store, clock } = this.#options
    const known = this.#heard(endpoint, worker)
    const fence = { endpoint, id, worker }
    const piece = readForeignChunk(body)
    if (piece.kind === 'unreadable') {
      return this.#settle(fence, known, { event: 'fail', error: piece.error })
    }
    await store.jobs.appendChunks(fence, { chunks: chunksOf(piece), now: clock.now() })
    await this.#keep(endpoint, worker, [id])
  }

  /** A post of more bytes than are read: the worker will not send it again, so its job fails. */
  async tooLarge(endpoint: string, worker: string, id: string): Promise<void> {
    const known = this.#heard(endpoint, worker)
    const message = `The worker posted more than the ${limits.reportBodyBytes} bytes that are read. Upload the output and return its address.`
    const error: JobError = { type: 'OutputError', message, code: 'OUTPUT_TOO_LARGE' }
    await this.#settle({ endpoint, id, worker }, known, { event: 'fail', error })
  }

  /**
   * The heartbeat: keeps the leases of the ids it lists, and sends stops for those that are over. It comes from a process
   * of its own that outlives a killed worker, so it keeps nothing for one whose polls were cut and did not come again.
   */
  async ping(endpoint: string, worker: string, ping: ForeignPing): Promise<void> {
    const now = this.#options.clock.monotonic()
    const known = this.#workers.get(`${endpoint}/${worker}`)
    if (known?.isGone(now)) return
    const alive = this.#heard(endpoint, worker, ping.isUnhealthy)
    alive.pinged(now)
    for (const id of ping.ids) if (!alive.holds.has(id)) alive.holds.set(id, now)
    if (ping.ids.length > 0) alive.hasBegun = true
    alive.listed(ping.ids, await this.#keep(endpoint, worker, ping.ids))
    this.#heard(endpoint, worker)
    if (alive.orders > alive.told) alive.news.set()
  }

  close(): void {
    this.#stopWatching()
  }

  #keep(endpoint: string, worker: string, ids: readonly string[]): Promise<Set<string>> {
    const { store, clock } = this.#options
    if (ids.length === 0) return Promise.resolve(new Set())
    const { leaseMs } = this.#heard(endpoint, worker)
    return store.jobs.extendHeldBy(endpoint, worker, ids, { now: clock.now(), leaseMs })
  }

  #polled(endpoint: string, worker: string): ForeignWorker {
    const known = this.#heard(endpoint, worker)
    known.pollBegins(this.#options.clock.monotonic())
    return known
  }

  #heard(endpoint: string, worker: string, isUnhealthy?: boolean): ForeignWorker {
    const key = `${endpoint}/${worker}`
    const now = this.#options.clock.monotonic()
    const known = this.#workers.get(key) ?? new ForeignWorker(now)
    known.heardAt = now
    if (isUnhealthy !== undefined) known.isUnhealthy = isUnhealthy
    // Kept in the order in which they were heard, so that the silent ones stand first.
    this.#workers.delete(key)
    this.#workers.set(key, known)
    for (const [silent, { heardAt }] of this.#workers) {
      if (now - heardAt < FORGET_MS) break
      this.#workers.delete(silent)
    }
    this.#options.workers.hear(endpoint, worker, {
      holds: known.holds.size,
      lowPriority: known.holdsLowPriority,
      aliveMs: known.leaseMs,
      isUnhealthy: known.isUnhealthy,
      isStarting: !known.hasBegun,
    })
    return known
  }

  /** A stop may have been missed: the store knows which leases hold. */
  #lookForStops(endpoint: string): void {
    for (const [key, known] of this.#workers) {
      const [of, worker = ''] = key.split('/', 2)
      const ids = [...known.holds.keys()]
      if (of !== endpoint || ids.length === 0) continue
      this.#lookForStopsOf(known, { endpoint, worker, ids }).catch(this.#options.onError)
    }
  }

  async #lookForStopsOf(
    known: ForeignWorker,
    { endpoint, worker, ids }: { endpoint: string; worker: string; ids: readonly string[] },
  ): Promise<void> {
    // Asked alone: nobody has said here that it lives.
    const { store, clock } = this.#options
    const stale = await store.jobs.extendHeldBy(endpoint, worker, ids, { now: clock.now(), leaseMs: 0 })
    for (const id of stale) known.order(id)
    if (stale.size > 0) known.news.set()
  }

  #onStoreEvent(event: StoreEvent): void {
    if (event.kind === 'missed') return this.#lookForStops(event.endpoint)
    if (event.kind !== 'stop') return
    const known = this.#workers.get(`${event.endpoint}/${event.worker}`)
    if (!known) return
    known.order(event.id)
    if (event.reason === 'lease-lost') known.lost(this.#options.clock.monotonic())
    known.news.set()
  }
}

/** A piece of a value that its worker has split stays what it is; whatever is too large for one chunk is split here. */
function chunksOf({ output: text, metrics, part: told }: ForeignPiece): NewChunk[] {
  return splitJson(text, Buffer.byteLength(metrics ?? '')).map(({ output, part }, at, { length }) => {
    const chunk: NewChunk = { output: Buffer.from(output) }
    if (at === 0 && metrics !== undefined) chunk.metrics = metrics
    if (part) chunk.part = part
    else if (told && length === 1) chunk.part = told
    return chunk
  })
}
