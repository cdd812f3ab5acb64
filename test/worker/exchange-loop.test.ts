import { describe, expect, it } from 'vitest'
import { QueueRefusedError, QueueUnreachableError } from '../../src/client/http.ts'
import type { Ack, ExchangeAnswer, ExchangeRequest } from '../../src/protocol/exchange.ts'
import { createWorkerEvents } from '../../src/worker/events.ts'
import { ExchangeLoop } from '../../src/worker/exchange-loop.ts'
import { Outbox, type OutboxEntry } from '../../src/worker/outbox.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { completed, ref } from '../support/outbox-words.ts'

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
      onUntellable: () => undefined,
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

interface Refusing {
  outbox: Outbox
  loop: ExchangeLoop
  clock: FakeClock
  requests: ExchangeRequest[]
  settled: string[]
  untellable: { id: string; isForgotten: boolean }[]
  stopped: string[]
}

/** A loop to a queue that refuses some requests, and takes the others. */
function refusing(isBad: (request: ExchangeRequest) => boolean): Refusing {
  const clock = new FakeClock()
  const events = createWorkerEvents()
  const outbox = new Outbox({ graceMs: 0 })
  const made = { requests: [], settled: [], untellable: [], stopped: [] } as Omit<
    Refusing,
    'outbox' | 'loop' | 'clock'
  >
  events.on('untellable', ({ id, isForgotten }) => made.untellable.push({ id, isForgotten }))
  const loop = new ExchangeLoop({
    link: {
      send(request) {
        made.requests.push(request)
        if (isBad(request))
          return Promise.reject(new QueueRefusedError(400, 'EXCHANGE_INVALID', 'It is none.'))
        const { ended, chunks, progress, failed = [] } = request
        // As the real one: it is held when there is nothing to say.
        if (ended.length + chunks.length + progress.length + failed.length === 0 && made.requests.length > 1)
          return new Promise(() => undefined)
        return Promise.resolve({ answer: answerTo(request), payloads: { take: () => new Uint8Array(0) } })
      },
      close: () => Promise.resolve(),
    },
    outbox,
    clock,
    events,
    want: () => 0,
    onLease: () => undefined,
    onStop: () => undefined,
    onSettled: (lease) => made.settled.push(lease),
    onTurn: () => undefined,
    onDrain: () => undefined,
    onRefused: () => undefined,
    onUntellable: (lease) => made.stopped.push(lease),
  })
  return { outbox, loop, clock, ...made }
}

function answerTo({ ended }: ExchangeRequest): ExchangeAnswer {
  const acks = ended.map(({ id, lease }): Ack => ({ id, lease, state: 'accepted', ended: true }))
  return { leaseMs: 10_000, acks, stops: [], leases: [], drain: false }
}

async function served(link: Refusing): Promise<void> {
  link.loop.nudge()
  await new Promise((resolve) => setImmediate(resolve))
  link.clock.advance(20)
  await expect.poll(() => link.loop.lastAnswerAt, { interval: 1 }).toBeDefined()
}

function endAll(outbox: Outbox, count: number): OutboxEntry[] {
  const entries = Array.from({ length: count }, (_, n) => outbox.hold(ref(String(n))))
  for (const entry of entries) outbox.end(entry, completed(entry, 4), Buffer.from('null'))
  return entries
}

// Seen: the refused report was sent again unchanged for ever, and the leases of all other jobs lapsed meanwhile.
describe('a report that the queue refuses', () => {
  it('fails its own job, and the others are told as they were', async () => {
    const queue = refusing(({ ended }) =>
      ended.some(({ id, outcome }) => id === 'job-5' && outcome === 'completed'),
    )
    await served(queue)
    endAll(queue.outbox, 12)
    queue.loop.nudge()
    await expect.poll(() => queue.settled.length, { interval: 1 }).toBe(12)
    expect(queue.untellable).toEqual([{ id: 'job-5', isForgotten: false }])
    expect(queue.stopped).toEqual(['lease-5'])
    const ends = queue.requests.flatMap(({ ended }) => ended.filter(({ id }) => id === 'job-5'))
    expect(ends.at(-1)).toMatchObject({ outcome: 'failed', error: { code: 'REPORT_REFUSED' } })
    expect(queue.outbox.size).toBe(0)
    // By halves: not one by one, and with no pause in which leases would lapse.
    expect(queue.requests.length).toBeLessThan(16)
    expect(queue.loop.isReachable).toBe(true)
    queue.loop.close()
  })

  it('leaves a job to lapse of which not even the failure is taken', async () => {
    const queue = refusing(({ ended }) => ended.some(({ id }) => id === 'job-0'))
    await served(queue)
    endAll(queue.outbox, 2)
    queue.loop.nudge()
    await expect.poll(() => queue.settled.length, { interval: 1 }).toBe(2)
    expect(queue.untellable).toEqual([
      { id: 'job-0', isForgotten: false },
      { id: 'job-0', isForgotten: true },
    ])
    queue.loop.close()
  })

  it('fails a job that still runs, whatever it says after that', async () => {
    const queue = refusing(({ progress }) => progress.length > 0)
    await served(queue)
    const entry = queue.outbox.hold(ref('0'))
    queue.outbox.setProgress(entry, Buffer.from('1'))
    queue.loop.nudge()
    await expect.poll(() => queue.settled, { interval: 1 }).toEqual(['lease-0'])
    expect(queue.stopped).toEqual(['lease-0'])
    expect(queue.requests.at(-1)?.ended).toMatchObject([{ outcome: 'failed' }])
    queue.loop.close()
  })

  it("is nobody's when the queue refuses a request without one too: it is tried again later, and health says so", async () => {
    let isBroken = false
    const queue = refusing(() => isBroken)
    await served(queue)
    isBroken = true
    endAll(queue.outbox, 3)
    queue.loop.nudge()
    await expect.poll(() => queue.loop.isRefused, { interval: 1 }).toBe(true)
    expect(queue.loop.isReachable).toBe(false)
    expect(queue.untellable).toEqual([])
    isBroken = false
    queue.clock.advance(60_000)
    await expect.poll(() => queue.settled.length, { interval: 1 }).toBe(3)
    expect(queue.loop.isRefused).toBe(false)
    queue.loop.close()
  })
})
