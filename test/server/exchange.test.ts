import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  decodeExchange,
  encodeExchange,
  exchangeAnswerSchema,
  type ExchangeAnswer,
  type ExchangeRequest,
} from '../../src/protocol/exchange.ts'
import { startTestService, type TestService } from '../support/service.ts'

let service: TestService
beforeEach(async () => {
  service = await startTestService({ leaseMs: 600 })
})
afterEach(() => service.close())

class TestWorker {
  seq = 0
  readonly session: string
  readonly id: string

  constructor(id = 'w1', session = 's1') {
    this.id = id
    this.session = session
  }

  async say(
    message: Partial<ExchangeRequest> = {},
    payloads: Uint8Array[] = [],
  ): Promise<ExchangeAnswer & { inputs: unknown[] }> {
    const head: ExchangeRequest = {
      session: this.session,
      seq: (this.seq += 1),
      want: 0,
      held: [],
      started: [],
      chunks: [],
      progress: [],
      ended: [],
      ...message,
    }
    const answer = await service.ask('POST', `/exchange/${this.id}`, encodeExchange(head, payloads))
    expect(answer.statusCode).toBe(200)
    const { head: said, payloads: received } = decodeExchange(answer.rawPayload, exchangeAnswerSchema)
    return {
      ...said,
      inputs: said.leases.map(({ bytes }) => JSON.parse(Buffer.from(received.take(bytes)).toString())),
    }
  }
}

const submit = async (input: unknown = {}): Promise<string> =>
  (await service.ask('POST', '/run', { input })).json<{ id: string }>().id
const status = async (id: string): Promise<Record<string, unknown>> =>
  (await service.ask('GET', `/status/${id}`)).json()
const ref = ({ id, lease }: { id: string; lease: string }): { id: string; lease: string } => ({ id, lease })
const done = (lease: { id: string; lease: string }): ExchangeRequest['ended'][number] => ({
  ...ref(lease),
  outcome: 'completed',
  executionMs: 3,
  bytes: 4,
})

describe('the exchange', () => {
  it('leases, takes a result and leases the next in one request', async () => {
    const first = await submit({ n: 1 })
    const second = await submit({ n: 2 })
    const worker = new TestWorker()
    const leased = await worker.say({ want: 1 })
    expect([leased.leases.map(({ id }) => id), leased.inputs]).toEqual([[first], [{ n: 1 }]])
    const [lease] = leased.leases
    if (!lease) throw new Error('no lease')
    const answer = await worker.say({ want: 1, ended: [done(lease)] }, [Buffer.from('"ok"')])
    expect(answer.acks).toEqual([{ ...ref(lease), state: 'accepted', ended: true }])
    expect(answer.leases.map(({ id }) => id)).toEqual([second])
    expect(await status(first)).toMatchObject({
      status: 'COMPLETED',
      output: 'ok',
      executionTime: 3,
      workerId: 'w1',
    })
  })

  it('is held while there is nothing to say, half a lease at most, and answered when a job comes', async () => {
    const worker = new TestWorker()
    expect(await worker.say({ want: 1 })).toMatchObject({ leases: [], acks: [], stops: [] })
    const held = worker.say({ want: 1 })
    const id = await submit()
    expect((await held).leases.map((lease) => lease.id)).toEqual([id])
  })

  it('answers the held request empty when a newer one comes', async () => {
    const worker = new TestWorker()
    const held = worker.say({ want: 1 })
    const newer = worker.say({ want: 1 })
    expect((await held).leases).toEqual([])
    const id = await submit()
    expect((await newer).leases.map((lease) => lease.id)).toEqual([id])
  })

  it('never gives more than is wanted while an answer is on its way', async () => {
    const worker = new TestWorker()
    await submit()
    await submit()
    const first = await worker.say({ want: 1 })
    expect(first.leases).toHaveLength(1)
    // The next request was written before that answer came: it still wants one and lists none.
    expect((await worker.say({ want: 1 })).leases).toEqual([])
    const held = first.leases.map(ref)
    expect((await worker.say({ want: 1, held })).leases).toHaveLength(1)
  })

  // Seen: the later of two such requests was held with nothing wanted, and a job waited out its hold.
  it('leases for a request that came while an earlier one was being answered', async () => {
    await submit()
    const worker = new TestWorker()
    const [lease] = (await worker.say({ want: 1 })).leases
    if (!lease) throw new Error('no lease')
    const report = worker.say({ want: 1, ended: [done(lease)] }, [Buffer.from('null')])
    const poll = worker.say({ want: 1 })
    expect((await report).leases).toEqual([])
    const id = await submit()
    expect((await poll).leases.map((given) => given.id)).toEqual([id])
  })

  it('gives back, uncounted, the leases of an answer that never came', async () => {
    const id = await submit()
    const worker = new TestWorker()
    const lost = await worker.say({ want: 1 })
    expect(lost.leases).toHaveLength(1)
    const again = await worker.say({ want: 1, failed: [worker.seq] })
    expect(again.leases).toMatchObject([{ id, attempt: 1 }])
    expect(again.leases[0]?.lease).not.toBe(lost.leases[0]?.lease)
  })

  // Seen: two workers by one id answered each other's held request, as fast as they could.
  it('retires a worker when another one comes by its id, and takes what it still reports', async () => {
    const first = new TestWorker('same', 'before')
    const second = new TestWorker('same', 'after')
    await submit()
    const [lease] = (await first.say({ want: 1 })).leases
    if (!lease) throw new Error('no lease')
    const held = first.say({ want: 1, held: [ref(lease)] })
    const poll = second.say({ want: 1 })
    expect(await held).toMatchObject({ drain: true, leases: [] })
    expect(await first.say({ want: 1, ended: [done(lease)] }, [Buffer.from('null')])).toMatchObject({
      drain: true,
      acks: [{ state: 'accepted', ended: true }],
    })
    const id = await submit()
    expect(await poll).toMatchObject({ drain: false, leases: [{ id }] })
  })

  it('calls a report stale whose lease is over, and changes nothing', async () => {
    const id = await submit()
    const worker = new TestWorker()
    const [lease] = (await worker.say({ want: 1 })).leases
    if (!lease) throw new Error('no lease')
    await service.ask('POST', `/cancel/${id}`)
    const answer = await worker.say({ ended: [done(lease)] }, [Buffer.from('"no"')])
    expect(answer.acks).toEqual([{ ...ref(lease), state: 'stale', ended: true }])
    expect((await status(id)).status).toBe('CANCELLED')
  })

  it('carries a stop to the held request at once, with its reason', async () => {
    const id = await submit()
    const worker = new TestWorker()
    const { leases } = await worker.say({ want: 1 })
    const held = worker.say({
      held: leases.map(ref),
      started: leases.map((lease) => ({ ...ref(lease), agoMs: 0, graceMs: 0 })),
    })
    await expect.poll(async () => (await status(id)).status).toBe('IN_PROGRESS')
    await service.ask('POST', `/cancel/${id}`)
    expect((await held).stops).toEqual(leases.map((lease) => ({ ...ref(lease), reason: 'cancelled' })))
  })

  it('acknowledges chunks by their ordinal, however often they are sent', async () => {
    const id = await submit()
    const worker = new TestWorker()
    const [lease] = (await worker.say({ want: 1 })).leases
    if (!lease) throw new Error('no lease')
    const chunk = (ordinal: number): ExchangeRequest['chunks'][number] => ({
      ...ref(lease),
      ordinal,
      bytes: 1,
    })
    const bytes = [Buffer.from('1'), Buffer.from('2')]
    for (const _ of [1, 2]) {
      const answer = await worker.say({ held: [ref(lease)], chunks: [chunk(1), chunk(2)] }, bytes)
      expect(answer.acks).toEqual([{ ...ref(lease), state: 'accepted', chunks: 2 }])
    }
    const both = await worker.say({ chunks: [chunk(3)], ended: [done(lease)] }, [
      Buffer.from('3'),
      Buffer.from('null'),
    ])
    expect(both.acks).toEqual([{ ...ref(lease), state: 'accepted', chunks: 3, ended: true }])
    expect((await service.ask('GET', `/stream/${id}?after=0`)).json()).toMatchObject([
      { output: 1 },
      { output: 2 },
      { output: 3 },
    ])
  })

  it('keeps a lease that is listed and lapses one that is not', async () => {
    const id = await submit()
    const worker = new TestWorker()
    const { leases } = await worker.say({ want: 1 })
    const held = leases.map(ref)
    const started = leases.map((lease) => ({ ...ref(lease), agoMs: 0, graceMs: 0 }))
    await worker.say({ held, started })
    for (let n = 0; n < 4; n += 1) await worker.say({ held })
    expect((await status(id)).status).toBe('IN_PROGRESS')
    await expect
      .poll(async () => await status(id), { timeout: 5_000 })
      .toMatchObject({ status: 'IN_QUEUE', attempt: 2 })
    expect((await worker.say({ held })).stops).toEqual(
      held.map((lease) => ({ ...lease, reason: 'lease-lost' })),
    )
  })

  it('takes nothing of a request whose payload is short', async () => {
    const id = await submit()
    const worker = new TestWorker()
    const [lease] = (await worker.say({ want: 1 })).leases
    if (!lease) throw new Error('no lease')
    const head = {
      session: 's1',
      seq: 9,
      want: 0,
      held: [],
      started: [],
      chunks: [],
      progress: [],
      ended: [done(lease)],
    }
    const answer = await service.ask('POST', '/exchange/w1', encodeExchange(head, [Buffer.from('"')]))
    expect([answer.statusCode, answer.json().code]).toEqual([400, 'EXCHANGE_INVALID'])
    expect((await status(id)).status).toBe('IN_PROGRESS')
  })
})
