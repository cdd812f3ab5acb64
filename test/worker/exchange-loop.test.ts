import { describe, expect, it } from 'vitest'
import { QueueUnreachableError } from '../../src/client/http.ts'
import type { ExchangeRequest } from '../../src/protocol/exchange.ts'
import { createWorkerEvents } from '../../src/worker/events.ts'
import { ExchangeLoop } from '../../src/worker/exchange-loop.ts'
import { Outbox } from '../../src/worker/outbox.ts'
import { FakeClock } from '../support/fake-clock.ts'

describe('the exchange loop', () => {
  // Seen: an hour without the queue made the list longer than the queue reads, and no request ever came through again.
  it('names only the latest failed requests, however long the queue was away', async () => {
    const clock = new FakeClock()
    const sent: ExchangeRequest[] = []
    const loop = new ExchangeLoop({
      link: {
        send: (request) => {
          sent.push(request)
          return Promise.reject(new QueueUnreachableError('gone'))
        },
        close: () => Promise.resolve(),
      },
      outbox: new Outbox({ graceMs: 0 }),
      clock,
      events: createWorkerEvents(),
      want: () => 1,
      onLease: () => undefined,
      onStop: () => undefined,
      onSettled: () => undefined,
      onTurn: () => undefined,
      onDrain: () => undefined,
      onRefused: () => undefined,
    })
    loop.nudge()
    for (let round = 1; round <= 200; round += 1) {
      await expect.poll(() => sent.length, { interval: 1 }).toBeGreaterThanOrEqual(round)
      await new Promise((resolve) => setImmediate(resolve))
      clock.advance(10_000)
    }
    loop.close()
    const failed = sent.at(-1)?.failed ?? []
    expect(failed.length).toBeLessThanOrEqual(64)
    expect(failed.at(-1)).toBe((sent.at(-1)?.seq ?? 0) - 1)
  })
})
