// What the worker has yet to say, in order and until it is acknowledged: chunks, progress and ends of its leases.

import type { JobError } from '../job/job.ts'
import type { Ack, ChunkReport, Ended, ExchangeRequest, LeaseRef } from '../protocol/exchange.ts'
import { EXCHANGE_TARGET_BYTES, EXCHANGE_TARGET_HEAD_BYTES } from '../protocol/exchange.ts'
import { pieceWeight } from '../job/chunk.ts'
import type { RunChunk } from './run.ts'

export interface OutboxEntry {
  readonly ref: LeaseRef
  chunks: { report: ChunkReport; output: Uint8Array }[]
  lastOrdinal: number
  progress?: Uint8Array
  startedAt?: number
  /** A request that tells of it is under way: nothing is told twice unless that fails. */
  isBeingTold: boolean
  /** And it tells the end. */
  isEndTold: boolean
  /** The queue refuses what it had to say: nothing is added to what is said of that. */
  isRefused: boolean
  end?: { ended: Ended; output?: Uint8Array }
  /** Tells the handler's process that chunks are stored. */
  onStored: (bytes: number) => void
}

export type Reports = Pick<ExchangeRequest, 'held' | 'started' | 'chunks' | 'progress' | 'ended'>

export interface Composed {
  reports: Reports
  payloads: Uint8Array[]
  /** Entries whose chunks, progress or end went along. */
  told: OutboxEntry[]
  /** Progress and starts that went along, to be told again when the request fails. */
  progress: { entry: OutboxEntry; value: Uint8Array }[]
  started: OutboxEntry[]
}

export class Outbox {
  readonly #entries = new Map<string, OutboxEntry>()
  readonly #graceMs: number
  /** Leases with a chunk, progress or end to tell that no request under way tells of. */
  readonly #speaking = new Set<OutboxEntry>()
  #unstarted = new Set<OutboxEntry>()

  constructor(options: { graceMs: number }) {
    this.#graceMs = options.graceMs
  }

  get size(): number {
    return this.#entries.size
  }

  /** How many leases have something to tell that no request under way tells. */
  get pending(): number {
    return this.#speaking.size
  }

  get hasStarts(): boolean {
    return this.#unstarted.size > 0
  }

  hold(ref: LeaseRef): OutboxEntry {
    const entry: OutboxEntry = {
      ref,
      chunks: [],
      lastOrdinal: 0,
      isBeingTold: false,
      isEndTold: false,
      isRefused: false,
      onStored: () => undefined,
    }
    this.#entries.set(ref.lease, entry)
    return entry
  }

  find(lease: string): OutboxEntry | undefined {
    return this.#entries.get(lease)
  }

  started(entry: OutboxEntry, now: number): void {
    entry.startedAt = now
    this.#unstarted.add(entry)
  }

  addChunk(entry: OutboxEntry, { output, metrics, part }: RunChunk): void {
    if (!this.#has(entry) || entry.isRefused) return
    entry.lastOrdinal += 1
    const report: ChunkReport = {
      ...entry.ref,
      ordinal: entry.lastOrdinal,
      bytes: output.byteLength,
      ...(metrics !== undefined && { metrics }),
      ...(part && { part }),
    }
    entry.chunks.push({ report, output })
    this.#speak(entry)
  }

  /** The latest progress replaces one that was not sent yet. */
  setProgress(entry: OutboxEntry, progress: Uint8Array): void {
    if (!this.#has(entry) || entry.isRefused) return
    entry.progress = progress
    this.#speak(entry)
  }

  end(entry: OutboxEntry, ended: Ended, output?: Uint8Array): void {
    if (!this.#has(entry) || entry.isRefused) return
    const told = entry.lastOrdinal > 0 ? { ...ended, chunks: entry.lastOrdinal } : ended
    entry.end = output ? { ended: told, output } : { ended: told }
    delete entry.progress
    this.#unstarted.delete(entry)
    this.#speak(entry)
  }

  /** The lease is over for the queue: nothing of it needs to be said any more. */
  drop(lease: string): void {
    const entry = this.#entries.get(lease)
    if (!entry) return
    this.#entries.delete(lease)
    this.#speaking.delete(entry)
    this.#unstarted.delete(entry)
  }

  /**
   * Gives up what the queue refuses of this entry: all that is left to say is that the job has failed with this error.
   * Answers what became of it: `forgotten` when the queue refuses even that, and the lease is left to lapse.
   */
  refuse(entry: OutboxEntry, error: JobError): 'failed' | 'forgotten' {
    if (entry.isRefused) {
      this.drop(entry.ref.lease)
      return 'forgotten'
    }
    const { executionMs = 0 } = entry.end?.ended ?? {}
    entry.isRefused = true
    entry.chunks = []
    delete entry.progress
    const isFit = Number.isSafeInteger(executionMs) && executionMs >= 0
    entry.end = {
      ended: { ...entry.ref, outcome: 'failed', executionMs: isFit ? executionMs : 0, error },
    }
    this.#unstarted.delete(entry)
    this.#speak(entry)
    return 'failed'
  }

  /**
   * Everything there is to say, or what there is of `only`, up to about EXCHANGE_TARGET_BYTES of payload and its share of
   * reports; the rest waits.
   */
  compose(now: number, only?: ReadonlySet<OutboxEntry>): Composed {
    const reports: Reports = { held: [], started: [], chunks: [], progress: [], ended: [] }
    const composed: Composed = { reports, payloads: [], told: [], progress: [], started: [] }
    const outputs: Uint8Array[] = []
    const progress: Uint8Array[] = []
    const room = new Room()
    for (const entry of this.#unstarted) {
      if (only && !only.has(entry)) continue
      const agoMs = Math.max(0, Math.round(now - (entry.startedAt ?? now)))
      reports.started.push({ ...entry.ref, agoMs, graceMs: this.#graceMs })
      composed.started.push(entry)
    }
    if (only) for (const entry of composed.started) this.#unstarted.delete(entry)
    else this.#unstarted = new Set()
    for (const entry of this.#speaking) {
      if (only && !only.has(entry)) continue
      let hasAllChunks = true
      for (const { report, output } of entry.chunks) {
        if (room.isFull) {
          hasAllChunks = false
          break
        }
        room.take(output, report)
        reports.chunks.push(report)
        composed.payloads.push(output)
      }
      if (entry.progress) {
        reports.progress.push({ ...entry.ref, bytes: entry.progress.byteLength })
        progress.push(entry.progress)
        composed.progress.push({ entry, value: entry.progress })
        delete entry.progress
      }
      if (entry.end && hasAllChunks && !room.isFull) {
        const { ended, output } = entry.end
        reports.ended.push(ended)
        entry.isEndTold = true
        if (output) outputs.push(output)
        room.take(output, ended)
      }
      entry.isBeingTold = true
      composed.told.push(entry)
      this.#speaking.delete(entry)
      if (room.isFull) break
    }
    // What a request under way ends is as good as over: listing it would call it lost.
    for (const { ref, isEndTold } of this.#entries.values()) if (!isEndTold) reports.held.push(ref)
    composed.payloads.push(...progress, ...outputs)
    return composed
  }

  /** The request was answered; what its answer did not acknowledge is to be told again. */
  answered(composed: Composed): void {
    for (const entry of composed.told) {
      entry.isBeingTold = false
      entry.isEndTold = false
      if (this.#has(entry) && (entry.end || entry.progress || entry.chunks.length > 0))
        this.#speaking.add(entry)
    }
  }

  /** The request never came through: all of it is to be told again. */
  failed(composed: Composed): void {
    this.answered(composed)
    for (const { entry, value } of composed.progress) {
      if (this.#has(entry) && !entry.end && !entry.progress) this.setProgress(entry, value)
    }
    for (const entry of composed.started) if (this.#has(entry) && !entry.end) this.#unstarted.add(entry)
  }

  /** Takes an acknowledgement. Answers whether the lease is settled, and whether as stale. */
  acknowledge(ack: Ack): 'settled' | 'stale' | 'open' {
    const entry = this.#entries.get(ack.lease)
    if (!entry) return 'open'
    if (ack.state === 'stale') {
      this.drop(ack.lease)
      return 'stale'
    }
    if (ack.chunks !== undefined) this.#stored(entry, ack.chunks)
    if (!ack.ended) return 'open'
    this.drop(ack.lease)
    return 'settled'
  }

  #stored(entry: OutboxEntry, upTo: number): void {
    let bytes = 0
    const left = entry.chunks.findIndex(({ report }) => report.ordinal > upTo)
    for (const { report, output } of entry.chunks.splice(0, left < 0 ? entry.chunks.length : left)) {
      bytes += pieceWeight(output, report.metrics)
    }
    if (bytes > 0) entry.onStored(bytes)
  }

  #speak(entry: OutboxEntry): void {
    if (!entry.isBeingTold) this.#speaking.add(entry)
  }

  #has(entry: OutboxEntry): boolean {
    return this.#entries.get(entry.ref.lease) === entry
  }
}

/** Of whom a request tells anything. */
export function entriesOf({ started, told }: Composed): OutboxEntry[] {
  return [...new Set([...started, ...told])]
}

/** What is left of a request, in payload and in reports. */
class Room {
  #payload = EXCHANGE_TARGET_BYTES
  #head = EXCHANGE_TARGET_HEAD_BYTES

  get isFull(): boolean {
    return this.#payload <= 0 || this.#head <= 0
  }

  take(payload: Uint8Array | undefined, report: ChunkReport | Ended): void {
    this.#payload -= payload?.byteLength ?? 0
    this.#head -= reportBytes(report)
  }
}

const PLAIN_REPORT_BYTES = 200

function reportBytes(report: ChunkReport | Ended): number {
  if ('metrics' in report) return PLAIN_REPORT_BYTES + Buffer.byteLength(report.metrics ?? '')
  return 'error' in report ? PLAIN_REPORT_BYTES + JSON.stringify(report.error).length : PLAIN_REPORT_BYTES
}
