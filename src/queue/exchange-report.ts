// What a worker reports in an exchange: read with its payloads, then written to the store in its order.

import type { Ack, Ended, ExchangeRequest, LeaseRef, PayloadReader } from '../protocol/exchange.ts'
import type { End, Fence, FencedAnswer, NewChunk } from '../store/job-store.ts'
import type { Store } from '../store/store.ts'
import { fenceOf, type Session } from './session.ts'
import type { Telemetry } from './telemetry.ts'

export interface Reports {
  started: ExchangeRequest['started']
  chunks: { ref: LeaseRef; firstOrdinal: number; chunks: NewChunk[] }[]
  progress: { ref: LeaseRef; progress: Uint8Array }[]
  ended: { ended: Ended; output: Uint8Array | undefined }[]
}

/** Pairs each report with its payload; consecutive chunks of one lease become one write. */
export function readReports(request: ExchangeRequest, payloads: PayloadReader): Reports {
  const chunks: Reports['chunks'] = []
  for (const { id, lease, ordinal, bytes, metrics, part } of request.chunks) {
    const chunk: NewChunk = {
      output: payloads.take(bytes),
      ...(metrics !== undefined && { metrics }),
      ...(part && { part }),
    }
    const run = chunks.at(-1)
    if (run?.ref.lease === lease && run.firstOrdinal + run.chunks.length === ordinal) run.chunks.push(chunk)
    else chunks.push({ ref: { id, lease }, firstOrdinal: ordinal, chunks: [chunk] })
  }
  return {
    started: request.started,
    chunks,
    progress: request.progress.map(({ bytes, ...ref }) => ({ ref, progress: payloads.take(bytes) })),
    ended: request.ended.map((ended) => ({
      ended,
      output:
        ended.outcome === 'completed' && ended.bytes !== undefined ? payloads.take(ended.bytes) : undefined,
    })),
  }
}

function endOf(ended: Exclude<Ended, { outcome: 'released' | 'lost' }>, output: Uint8Array | undefined): End {
  switch (ended.outcome) {
    case 'completed':
      return { event: 'complete', ...(output && { output }) }
    case 'failed':
      return { event: 'fail', error: ended.error }
    case 'timedOut':
      return { event: 'timeOut', error: ended.error }
    default:
      return ended satisfies never
  }
}

/** Writes everything the worker reports, in its order, into one commit; answers what it may forget. */
export async function writeReports(
  { store, telemetry }: { store: Store; telemetry: Telemetry },
  session: Session,
  reports: Reports,
  { leaseMs, now }: { leaseMs: number; now: number },
): Promise<Ack[]> {
  const acks = new Map<string, Ack>()
  const note = (ref: LeaseRef, state: FencedAnswer): Ack => {
    const ack = acks.get(ref.lease) ?? { id: ref.id, lease: ref.lease, state }
    if (state === 'stale') ack.state = 'stale'
    acks.set(ref.lease, ack)
    return ack
  }
  const noteEnd = (ended: Ended, state: FencedAnswer): void => {
    note(ended, state).ended = true
    const { outcome, executionMs } = ended
    if (state === 'accepted' && outcome !== 'released' && outcome !== 'lost')
      telemetry.ran(session.endpoint, outcome, executionMs)
  }
  const writes: Promise<unknown>[] = []
  for (const { agoMs, graceMs, ...ref } of reports.started) {
    const write = store.jobs.start(fenceOf(session, ref), { agoMs, graceMs, leaseMs, now })
    writes.push(write.then((state) => state === 'stale' && note(ref, state)))
  }
  for (const { ref, firstOrdinal, chunks } of reports.chunks) {
    const write = store.jobs.appendChunks(fenceOf(session, ref), { firstOrdinal, chunks, now })
    writes.push(
      write.then((answer) => {
        const ack = note(ref, answer.state)
        if (answer.state === 'accepted') ack.chunks = answer.stored
        return ack
      }),
    )
  }
  for (const { ref, progress } of reports.progress) {
    const write = store.jobs.setProgress(fenceOf(session, ref), progress)
    writes.push(write.then((state) => state === 'stale' && note(ref, state)))
  }
  for (const { ended, output } of reports.ended) {
    const write = writeEnd(store, fenceOf(session, ended), { ended, output, now })
    writes.push(write.then((state) => state !== 'behind' && noteEnd(ended, state)))
  }
  await Promise.all(writes)
  return [...acks.values()]
}

function writeEnd(
  store: Store,
  fence: Fence,
  { ended, output, now }: { ended: Ended; output: Uint8Array | undefined; now: number },
): Promise<FencedAnswer | 'behind'> {
  const { executionMs, chunks } = ended
  switch (ended.outcome) {
    case 'released':
      return store.jobs.release(fence, now)
    case 'lost':
      return store.jobs.lose(fence, { error: ended.error, executionMs, now })
    default:
      return store.jobs.settle(fence, endOf(ended, output), {
        executionMs,
        now,
        ...(chunks !== undefined && { chunks }),
      })
  }
}
