// Following one job as it goes: chunks, progress and its end, as they come.

import { isEnded } from '../job/lifecycle.ts'
import type { Clock } from '../lib/clock.ts'
import type { JobRecord, StoredChunk } from '../store/job-store.ts'
import type { Store } from '../store/store.ts'
import type { JobWatch } from './job-watch.ts'

export type JobNews =
  | { kind: 'chunk'; chunk: StoredChunk }
  | { kind: 'progress'; progress: Uint8Array }
  /** Chunks up to `after` came from an attempt that is void; what comes now is another's. */
  | { kind: 'restart'; attempt: number; after: number }
  | { kind: 'end'; record: JobRecord }
  /** Its ttl or its retention has passed. */
  | { kind: 'deleted'; endpoint: string; id: string }
  /** Nothing has happened for a while. */
  | { kind: 'idle' }

export interface FollowOptions {
  store: Store
  watch: JobWatch
  clock: Clock
  endpoint: string
  id: string
  /** Chunks with a higher index only. */
  after: number
  /** Whoever follows has gone, or the service stops: there is no more news. */
  signals: readonly AbortSignal[]
}

const IDLE_MS = 15_000
/** What is read ahead of one reader, who may be slow, and may be one of many. */
const READ_BYTES = 500_000

/** How far a reader is. */
interface Place {
  after: number
  restartedAt: number
  progress: Uint8Array | undefined
}

/** News of the job until its end, its deletion, or one of the signals. Moves no read position. */
export async function* followJob(options: FollowOptions): AsyncGenerator<JobNews> {
  const { store, watch, clock, endpoint, id, signals } = options
  const place: Place = { after: options.after, restartedAt: 0, progress: undefined }
  using watched = watch.watch(id)
  while (!signals.some(({ aborted }) => aborted)) {
    // The record first: chunks that are read after it has ended are all that there are.
    const record = await store.jobs.find(endpoint, id, clock.now())
    const { after } = place
    const ask = { after, maxBytes: READ_BYTES, now: clock.now() }
    const read = await store.jobs.readChunks(endpoint, id, ask)
    if (!record || read.kind === 'gone') {
      yield { kind: 'deleted', endpoint, id }
      return
    }
    yield* chunksOf(place, read, record.attempt)
    if (read.chunks.length > 0) continue
    yield* progressOf(place, record)
    if (isEnded(record.status)) {
      yield { kind: 'end', record }
      return
    }
    const since = clock.monotonic()
    await watched.latch.wait(clock, IDLE_MS, signals)
    if (clock.monotonic() - since >= IDLE_MS) yield { kind: 'idle' }
  }
}

function* chunksOf(
  place: Place,
  { chunks, leaseIndex }: { chunks: readonly StoredChunk[]; leaseIndex: number },
  attempt: number,
): Generator<JobNews> {
  if (place.after > 0 && leaseIndex >= place.after && leaseIndex !== place.restartedAt) {
    place.after = leaseIndex
    place.restartedAt = leaseIndex
    yield { kind: 'restart', attempt, after: leaseIndex }
  }
  for (const chunk of chunks) {
    place.after = chunk.index
    yield { kind: 'chunk', chunk }
  }
}

function* progressOf(place: Place, { progress }: JobRecord): Generator<JobNews> {
  const isTold = progress && place.progress && Buffer.compare(progress, place.progress) === 0
  place.progress = progress
  if (progress && !isTold) yield { kind: 'progress', progress }
}
