// What workers of the hosted platform ask: take, stop, done, stream, ping. They know no lease tokens.

import { splitJson } from '../job/chunk.ts'
import type { JobError } from '../job/job.ts'
import { limits } from '../job/limits.ts'
import { Latch } from '../lib/latch.ts'
import type { Clock } from '../lib/clock.ts'
import type { Fence, NewChunk, Store, StoreEvent } from '../store/store.ts'
import { readForeignChunk, readForeignResult } from './foreign-result.ts'
import type { LeaseLine, OpenedJob } from './lease-line.ts'
import type { Workers } from './workers.ts'

export interface ForeignOptions {
  store: Store
  line: LeaseLine
  workers: Workers
  clock: Clock
  stopping: AbortSignal
  onError: (cause: unknown) => void
}

/** Three of their ping intervals: the first ping that lists a job may come a whole interval after its lease. */
const LEASE_MS = 30_000
/** Their client gives up at 90 s and asks again at once after an empty answer: often enough to be known alive. */
const HOLD_MS = 25_000

const FORGET_MS = 600_000

interface ForeignWorker {
  latch: Latch
  /** Ids it should stop; repeated until a ping no longer lists them. */
  stops: Set<string>
  holds: Set<string>
  heardAt: number
}

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
    const { line, clock, stopping } = this.#options
    const known = this.#heard(endpoint, worker)
    const latch = new Latch()
    let leases: OpenedJob[] = []
    let isOver = false
    const leave = line.join(endpoint, {
      ask: { worker, count, leaseMs: LEASE_MS, startsAtLease: { graceMs: 0 } },
      take: (given) => {
        if (isOver || gone.aborted) return this.giveBack(endpoint, worker, given)
        leases = given
        latch.set()
      },
    })
    await latch.wait(clock, HOLD_MS, [gone, stopping])
    isOver = true
    leave()
    if (gone.aborted) this.giveBack(endpoint, worker, leases)
    for (const { id } of leases) known.holds.add(id)
    this.#heard(endpoint, worker)
    return leases
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
    const known = this.#heard(endpoint, worker)
    if (known.stops.size === 0) await known.latch.wait(clock, HOLD_MS, [gone, stopping])
    const ids = [...known.stops]
    known.stops.clear()
    return ids
  }

  /** A result or progress. One that comes too late changes nothing, and the worker could do nothing about it. */
  async done(endpoint: string, worker: string, id: string, body: Uint8Array): Promise<void> {
    const { store, clock } = this.#options
    const known = this.#heard(endpoint, worker)
    const fence: Fence = { endpoint, id, worker }
    const result = readForeignResult(body)
    if (result.kind === 'progress') {
      await store.jobs.setProgress(fence, result.progress)
      await this.#keep(endpoint, worker, [id])
      return
    }
    known.holds.delete(id)
    await store.jobs.settle(fence, result.end, { now: clock.now() })
  }

  /** One streamed piece; one that is too large for a chunk is split. */
  async stream(endpoint: string, worker: string, id: string, body: Uint8Array): Promise<void> {
    const { store, clock } = this.#options
    this.#heard(endpoint, worker)
    const fence: Fence = { endpoint, id, worker }
    const piece = readForeignChunk(body)
    if (piece.kind === 'unreadable') {
      await store.jobs.settle(fence, { event: 'fail', error: piece.error }, { now: clock.now() })
      return
    }
    const pieces = splitJson(piece.output, Buffer.byteLength(piece.metrics ?? ''))
    const chunks = pieces.map(({ output, part }, at): NewChunk => {
      const chunk: NewChunk = { output: Buffer.from(output) }
      if (at === 0 && piece.metrics !== undefined) chunk.metrics = piece.metrics
      if (part) chunk.part = part
      return chunk
    })
    await store.jobs.appendChunks(fence, { chunks, now: clock.now() })
    await this.#keep(endpoint, worker, [id])
  }

  /** A post of more bytes than are read: the worker will not send it again, so its job fails. */
  async tooLarge(endpoint: string, worker: string, id: string): Promise<void> {
    const { store, clock } = this.#options
    this.#heard(endpoint, worker).holds.delete(id)
    const message = `The worker posted more than the ${limits.reportBodyBytes} bytes that are read. Upload the output and return its address.`
    const error: JobError = { type: 'OutputError', message, code: 'OUTPUT_TOO_LARGE' }
    await store.jobs.settle({ endpoint, id, worker }, { event: 'fail', error }, { now: clock.now() })
  }

  /** The heartbeat: keeps the leases of the ids it lists, and sends stops for those that are over. */
  async ping(endpoint: string, worker: string, ids: readonly string[]): Promise<void> {
    const known = this.#heard(endpoint, worker)
    known.holds = new Set(ids)
    for (const id of known.stops) if (!known.holds.has(id)) known.stops.delete(id)
    for (const id of await this.#keep(endpoint, worker, ids)) known.stops.add(id)
    if (known.stops.size > 0) known.latch.set()
  }

  close(): void {
    this.#stopWatching()
  }

  #keep(endpoint: string, worker: string, ids: readonly string[]): Promise<Set<string>> {
    const { store, clock } = this.#options
    if (ids.length === 0) return Promise.resolve(new Set())
    return store.jobs.extendHeldBy(endpoint, worker, ids, clock.now() + LEASE_MS)
  }

  #heard(endpoint: string, worker: string): ForeignWorker {
    const key = `${endpoint}/${worker}`
    const now = this.#options.clock.monotonic()
    const known = this.#workers.get(key) ?? {
      latch: new Latch(),
      stops: new Set<string>(),
      holds: new Set<string>(),
      heardAt: now,
    }
    known.heardAt = now
    // Kept in the order in which they were heard, so that the silent ones stand first.
    this.#workers.delete(key)
    this.#workers.set(key, known)
    for (const [silent, { heardAt }] of this.#workers) {
      if (now - heardAt < FORGET_MS) break
      this.#workers.delete(silent)
    }
    this.#options.workers.heard(endpoint, worker, { holds: known.holds.size, aliveMs: LEASE_MS })
    return known
  }

  #onStoreEvent(event: StoreEvent): void {
    if (event.kind !== 'stop') return
    const known = this.#workers.get(`${event.endpoint}/${event.worker}`)
    if (!known) return
    known.stops.add(event.id)
    known.latch.set()
  }
}
