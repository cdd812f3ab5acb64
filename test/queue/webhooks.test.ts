import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { policySchema } from '../../src/job/job.ts'
import type { WebhookRequest } from '../../src/queue/webhook-call.ts'
import { Webhooks, type WebhookAttempt } from '../../src/queue/webhooks.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { NewJob } from '../../src/store/job-store.ts'
import type { Store } from '../../src/store/store.ts'
import { StoreError } from '../../src/store/store-error.ts'
import { Facts } from '../support/facts.ts'
import { FakeClock } from '../support/fake-clock.ts'

interface Sent extends WebhookRequest {
  at: number
}

let store: Store
let clock: FakeClock
let stopping: AbortController
let running: Promise<void>
let sent: Facts<Sent>
let attempts: Facts<WebhookAttempt>
let onError: (cause: unknown) => void
let answer: (request: WebhookRequest, signal: AbortSignal) => Promise<void>

beforeEach(async () => {
  store = openSqliteStore({ file: ':memory:' })
  await store.endpoints.ensureEndpoint('ep')
  clock = new FakeClock()
  answer = async () => undefined
  onError = (cause) => {
    throw cause
  }
  sent = new Facts()
  attempts = new Facts()
  begin()
})
afterEach(async () => {
  await end()
  await store.close()
})

function begin(): void {
  stopping = new AbortController()
  const webhooks = new Webhooks({
    store,
    clock,
    send: (request, signal) => {
      sent.add({ ...request, at: clock.now() })
      return answer(request, signal)
    },
    onAttempt: (attempt) => attempts.add(attempt),
    onError: (cause) => onError(cause),
  })
  running = webhooks.run(stopping.signal)
}

async function end(): Promise<void> {
  stopping.abort()
  let isOver = false
  void running.then(() => (isOver = true))
  await until(() => isOver)
}

async function endJob(id: string, more: Partial<NewJob> = {}): Promise<void> {
  await store.jobs.enqueue({
    endpoint: 'ep',
    id,
    input: Buffer.from('{"n":1}'),
    policy: policySchema.parse({}),
    retentionMs: 60_000,
    webhook: 'https://receiver.example/done',
    now: clock.now(),
    ...more,
  })
  await store.jobs.cancel('ep', id, clock.now())
}

const refuse = async (): Promise<void> => {
  throw new Error('the receiver answered 500')
}

/** Moves the clock in small steps, with turns for what they set off, until it has happened. */
async function until(happened: () => boolean): Promise<void> {
  for (let steps = 0; !happened(); steps += 1) {
    if (steps > 2_000) throw new Error('It did not happen within 200 s.')
    clock.advance(100)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

describe('webhooks', () => {
  it('are sent the record with input and URL', async () => {
    await endJob('job', {
      trace: { traceparent: '00-11111111111111111111111111111111-2222222222222222-01', tracestate: 'a=1' },
    })
    const { body, headers, url, timestamp, at } = await sent.first(() => true)
    expect(JSON.parse(body.toString())).toEqual({
      id: 'job',
      status: 'CANCELLED',
      reason: 'cancelled',
      delayTime: 0,
      executionTime: 0,
      attempt: 1,
      input: { n: 1 },
      webhook: 'https://receiver.example/done',
    })
    expect([url, timestamp]).toEqual(['https://receiver.example/done', Math.floor(at / 1000)])
    expect(headers).toMatchObject({ traceparent: expect.stringMatching(/^00-1{32}/), tracestate: 'a=1' })
    await attempts.first(({ result }) => result === 'delivered')
    expect(await store.webhooks.nextDeliveryAt()).toBeUndefined()
  })

  it('are tried three times, 10 seconds apart, and then given up', async () => {
    answer = refuse
    await endJob('job')
    await until(() => attempts.all.length === 3)
    const at = sent.all.map((one) => one.at)
    expect(at).toHaveLength(3)
    for (const pause of [(at[1] ?? 0) - (at[0] ?? 0), (at[2] ?? 0) - (at[1] ?? 0)]) {
      expect(pause).toBeGreaterThanOrEqual(10_000)
      expect(pause).toBeLessThan(11_100)
    }
    expect(attempts.all.map(({ attempt, result }) => [attempt, result])).toEqual([
      [1, 'failed'],
      [2, 'failed'],
      [3, 'given-up'],
    ])
    expect(attempts.all[2]).toMatchObject({
      endpoint: 'ep',
      id: 'job',
      origin: 'https://receiver.example',
      problem: 'the receiver answered 500',
    })
    expect(await store.webhooks.nextDeliveryAt()).toBeUndefined()
  })

  it('are not sent again once one was delivered', async () => {
    let tries = 0
    answer = async () => {
      tries += 1
      if (tries < 2) await refuse()
    }
    await endJob('job')
    await until(() => attempts.all.length === 2)
    const since = clock.now()
    await until(() => clock.now() > since + 60_000)
    expect(attempts.all.map(({ result }) => result)).toEqual(['failed', 'delivered'])
  })

  it('are not sent again while the store cannot take that they were delivered', async () => {
    const drop = store.webhooks.dropDelivery.bind(store.webhooks)
    let refusals = 0
    store.webhooks.dropDelivery = async (id) => {
      // Longer than a delivery is held for whoever calls.
      if (clock.now() < T0 + 40_000) {
        refusals += 1
        throw new StoreError('STORE_UNAVAILABLE', 'It is away.')
      }
      return drop(id)
    }
    const T0 = clock.now()
    onError = () => undefined
    await endJob('job')
    await until(() => attempts.all.length === 1)
    expect(refusals).toBeGreaterThan(50)
    expect(sent.all).toHaveLength(1)
    expect(await store.webhooks.nextDeliveryAt()).toBeUndefined()
  })

  it('have 10 seconds to answer', async () => {
    answer = (_, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
    await endJob('job')
    const { at } = await sent.first(() => true)
    await until(() => attempts.all.length > 0)
    expect(clock.now() - at).toBeGreaterThanOrEqual(10_000)
    expect(attempts.all[0]?.problem).toBe('there was no answer within 10000 ms')
  })

  it('are kept over a restart between two tries, and what was delivered is not repeated', async () => {
    answer = ({ url }) => (url.includes('other') ? Promise.resolve() : refuse())
    await endJob('job')
    await endJob('other', { webhook: 'https://receiver.example/other' })
    await until(() => attempts.all.length === 2)
    await end()
    answer = async () => undefined
    begin()
    await until(() => attempts.all.length === 3)
    expect(attempts.all[2]).toMatchObject({ id: 'job', attempt: 2, result: 'delivered' })
  })

  it('of one slow receiver leave room for the others', async () => {
    const slow = 'https://slow.example/'
    answer = ({ url }, signal) =>
      url === slow
        ? new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('late'))))
        : Promise.resolve()
    for (let n = 0; n < 100; n += 1) await endJob(`slow-${n}`, { webhook: slow })
    await endJob('quick')
    await attempts.first(({ id }) => id === 'quick')
    expect(sent.all.filter(({ url }) => url === slow).length).toBeLessThanOrEqual(15)
  })

  it('of many receivers that hang leave room for others, and for their tries', async () => {
    answer = ({ url }, signal) =>
      url.includes('hangs')
        ? new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('late'))))
        : Promise.resolve()
    for (let n = 0; n < 400; n += 1)
      await endJob(`hung-${n}`, { webhook: `https://hangs-${n % 20}.example/` })
    const since = clock.now()
    await until(() => sent.all.length >= 64)
    for (let n = 0; n < 50; n += 1) await endJob(`quick-${n}`)
    await until(() => attempts.all.filter(({ result }) => result === 'delivered').length === 50)
    expect(clock.now() - since).toBeLessThan(10_000)
  })

  it('end with the service, and one under way is sent again by the next', async () => {
    answer = (_, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
    await endJob('job')
    await sent.first(() => true)
    stopping.abort()
    await new Promise((resolve) => setImmediate(resolve))
    clock.advance(1_500)
    await running
    expect(attempts.all).toEqual([])
    answer = async () => undefined
    begin()
    await until(() => attempts.all.length === 1)
    expect(attempts.all[0]).toMatchObject({ attempt: 1, result: 'delivered' })
  })
})
