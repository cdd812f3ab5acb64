// Requests of an outbox in short words, in the order in which a server reads them.

import { expect } from 'vitest'
import type { Ended, LeaseRef } from '../../src/protocol/exchange.ts'
import type { Composed, OutboxEntry } from '../../src/worker/outbox.ts'

export function ref(name: string): LeaseRef {
  return { id: `job-${name}`, lease: `lease-${name}` }
}

export function completed(entry: OutboxEntry, bytes?: number): Ended {
  return { ...entry.ref, outcome: 'completed', executionMs: 3, ...(bytes !== undefined && { bytes }) }
}

function text(payload: Uint8Array | undefined): string {
  return Buffer.from(payload ?? []).toString()
}

/** A request as short words in the order in which a server reads it: its chunks, progress and ends with payloads. */
export function told({ reports, payloads }: Composed): string[] {
  let at = 0
  const next = (bytes: number | undefined): string => {
    if (bytes === undefined) return ''
    const payload = payloads[at]
    at += 1
    expect(payload?.byteLength).toBe(bytes)
    return ` ${text(payload).slice(0, 12)}`
  }
  const words = [
    ...reports.chunks.map(({ id, ordinal, bytes }) => `${id} chunk ${ordinal}${next(bytes)}`),
    ...reports.progress.map(({ id, bytes }) => `${id} progress${next(bytes)}`),
    ...reports.ended.map(
      (ended) => `${ended.id} ${ended.outcome}${'bytes' in ended ? next(ended.bytes) : ''}`,
    ),
  ]
  expect(at, 'payloads that no head counts').toBe(payloads.length)
  return words
}
