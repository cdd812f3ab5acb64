import { beforeEach, describe, expect, it } from 'vitest'
import { EXCHANGE_TARGET_BYTES } from '../../src/protocol/exchange.ts'
import { Outbox, type OutboxEntry } from '../../src/worker/outbox.ts'
import { completed, ref, told } from '../support/outbox-words.ts'

const NOW = 5000

describe('an outbox with more to say than fits into one request', () => {
  let outbox: Outbox
  let a: OutboxEntry
  let b: OutboxEntry

  beforeEach(() => {
    outbox = new Outbox({ graceMs: 700 })
    a = outbox.hold(ref('a'))
    b = outbox.hold(ref('b'))
  })

  function addChunk(entry: OutboxEntry, output: Uint8Array): void {
    outbox.addChunk(entry, { output })
  }

  function end(entry: OutboxEntry, output: string): void {
    outbox.end(entry, completed(entry, Buffer.byteLength(output)), Buffer.from(output))
  }

  const MB = 1_000_000
  const most = EXCHANGE_TARGET_BYTES + 20 * MB

  /** Sends and acknowledges until there is nothing left; gives each request in words. */
  function sendAll(): string[][] {
    const requests: string[][] = []
    while (outbox.pending > 0 && requests.length < 100) {
      const composed = outbox.compose(NOW)
      const bytes = composed.payloads.reduce((sum, payload) => sum + payload.byteLength, 0)
      expect(bytes).toBeLessThanOrEqual(most)
      requests.push(told(composed))
      const { chunks, ended } = composed.reports
      for (const { id, lease, ordinal } of chunks)
        outbox.acknowledge({ id, lease, state: 'accepted', chunks: ordinal })
      for (const { id, lease } of ended) outbox.acknowledge({ id, lease, state: 'accepted', ended: true })
      outbox.answered(composed)
    }
    return requests
  }

  it('sends a large backlog in several requests, in order, and the end never before the last chunk', () => {
    for (let n = 1; n <= 40; n += 1) addChunk(a, Buffer.alloc(MB, 0x30))
    end(a, '"out"')
    const requests = sendAll()
    expect(requests.length).toBeGreaterThan(2)
    const ordinals = requests.flat().flatMap((words) => / chunk (\d+)/.exec(words)?.[1] ?? [])
    expect(ordinals).toEqual(Array.from({ length: 40 }, (_, at) => String(at + 1)))
    expect(requests.flat().at(-1)).toBe('job-a completed "out"')
    expect(outbox.size).toBe(1)
  })

  it('keeps the lease as held while its end waits for its turn', () => {
    for (let n = 1; n <= 20; n += 1) addChunk(a, Buffer.alloc(MB))
    end(a, '"out"')
    const { reports } = outbox.compose(NOW)
    expect(reports.ended).toEqual([])
    expect(reports.held).toEqual([ref('a'), ref('b')])
  })

  it('holds an end back when the chunks before it fill the request to the byte', () => {
    addChunk(a, Buffer.alloc(EXCHANGE_TARGET_BYTES))
    end(a, '"out"')
    expect(sendAll().map((request) => request.length)).toEqual([1, 1])
  })

  it('sends outputs of many jobs in several requests', () => {
    const entries = Array.from({ length: 10 }, (_, at) => outbox.hold(ref(`many-${at}`)))
    for (const entry of entries) outbox.end(entry, completed(entry, 5 * MB), Buffer.alloc(5 * MB, 0x30))
    const requests = sendAll()
    expect(requests.length).toBeGreaterThan(2)
    expect(requests.flat()).toHaveLength(10)
  })

  it('sends a payload that is larger than a request alone', () => {
    end(a, '1')
    outbox.end(b, completed(b, 20 * MB), Buffer.alloc(20 * MB, 0x30))
    expect(sendAll().flat()).toHaveLength(2)
  })

  it('does not lose progress that found no room', () => {
    addChunk(a, Buffer.alloc(EXCHANGE_TARGET_BYTES))
    outbox.setProgress(b, Buffer.from('50'))
    expect(sendAll().flat()).toContain('job-b progress 50')
  })
})
