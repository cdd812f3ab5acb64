import { createHmac } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { limits } from '../../src/job/limits.ts'
import type { TestServiceOptions } from '../support/service.ts'
import { happens, startRig, turns, type Json, type Rig } from '../support/interface-rig.ts'
import { startReceiver, type Answer, type Call, type Receiver } from '../support/receiver.ts'

interface Told {
  rig: Rig
  receiver: Receiver
  webhook: string
  /** Until the receiver has had so many calls, and the service has noted how they went. */
  calls: (count: number) => Promise<Call[]>
}

async function start(
  answer: (call: Call, number: number) => Answer = () => ({ status: 200 }),
  options: TestServiceOptions = {},
): Promise<Told> {
  const receiver = await startReceiver(answer)
  const rig = await startRig({ allowPrivateWebhooks: true, ...options })
  return {
    rig,
    receiver,
    webhook: `${receiver.url}/done?token=1`,
    async calls(count) {
      await happens(() => noted(rig) >= count)
      expect(receiver.calls.all).toHaveLength(count)
      return receiver.calls.all
    },
  }
}

/** How many tries the service has noted the result of. */
function noted({ service }: Rig): number {
  return service.logged.filter((line) => /"webhook (delivered|failed|given up)/.test(line)).length
}

const bodyOf = (call: Call | undefined): Json => JSON.parse(call?.body ?? '') as Json

describe('a webhook', () => {
  it('[EVT-1, EVT-9] is sent a POST of JSON when its job completes: the record, the input and its URL', async () => {
    const { rig, webhook, calls } = await start()
    const id = await rig.completed({ made: 1 }, { input: { n: 1 }, webhook })
    const record = await rig.record(id)
    const [call] = await calls(1)
    expect(call).toMatchObject({ method: 'POST', path: '/done?token=1' })
    expect(call?.headers['content-type']).toBe('application/json')
    expect(bodyOf(call)).toEqual({ ...record, input: { n: 1 }, webhook })
  })

  it('[EVT-2] is not called again once its receiver has answered 200', async () => {
    const { rig, webhook, calls } = await start()
    await rig.completed(1, { webhook })
    await calls(1)
    await rig.pass(60_000)
    await calls(1)
  })

  it('[EVT-3, EVT-4, EVT-5, LIM-8] is called 3 times in all, 10 seconds apart, when every call fails', async () => {
    const { rig, webhook, calls } = await start(() => ({ status: 500 }))
    await rig.completed(1, { webhook })
    for (const tries of [1, 2]) {
      await calls(tries)
      await rig.jump(9_999)
      await calls(tries)
      await rig.jump(1)
    }
    await calls(3)
    await rig.pass(120_000)
    await calls(3)
    expect(limits.webhook).toMatchObject({ attempts: 3, pauseMs: 10_000 })
  })

  it('[EVT-3] is settled by the first repeat that succeeds', async () => {
    const { rig, webhook, calls } = await start((_, number) => ({ status: number === 1 ? 404 : 200 }))
    await rig.completed(1, { webhook })
    await calls(1)
    await rig.jump(10_000)
    await calls(2)
    await rig.pass(60_000)
    await calls(2)
  })

  it.each([200, 201, 202, 204, 299])('[EVT-10] is settled by any 2xx: %i', async (status) => {
    const { rig, webhook, calls } = await start(() => ({ status }))
    await rig.completed(1, { webhook })
    await calls(1)
    await rig.jump(10_000)
    await calls(1)
  })

  const ends: [how: string, status: string, end: (rig: Rig, webhook: string) => Promise<unknown>][] = [
    ['a failure', 'FAILED', (rig, webhook) => rig.failed({ webhook })],
    ['a time-out', 'TIMED_OUT', (rig, webhook) => rig.timedOut({ webhook })],
    ['a cancel', 'CANCELLED', async (rig, webhook) => rig.post(`/cancel/${await rig.running({ webhook })}`)],
    [
      'a purge',
      'CANCELLED',
      async (rig, webhook) => {
        await rig.submit({ webhook })
        await rig.post('/purge-queue')
      },
    ],
  ]
  for (const [how, status, end] of ends) {
    it(`[EVT-11] is told of every end: ${how}`, async () => {
      const { rig, webhook, calls } = await start()
      await end(rig, webhook)
      expect(bodyOf((await calls(1))[0])).toMatchObject({ status, webhook })
    })
  }

  it('[EVT-11] is not told of a job that its ttl deletes', async () => {
    const { rig, webhook, calls } = await start()
    const id = await rig.submit({ webhook, policy: { ttl: 10_000 } })
    await rig.pass(12_000)
    expect((await rig.get(`/status/${id}`)).statusCode).toBe(404)
    await rig.completed(1, { webhook })
    expect(bodyOf((await calls(1))[0])['id']).not.toBe(id)
  })

  it('[EVT-8] is told of nothing but the end', async () => {
    const { rig, webhook, calls } = await start()
    const id = await rig.submit({ webhook })
    await rig.worker.take()
    await rig.worker.progress(id, 0.5)
    await rig.worker.stream(id, 'a')
    await rig.pass(20_000, () => rig.worker.ping(id))
    await calls(0)
    await rig.worker.done(id, { output: 1 })
    await calls(1)
    await rig.jump(3_600_000)
    await calls(1)
  })

  it('[EVT-12] is signed when the service has a secret for it, and else not', async () => {
    const { rig, webhook, calls } = await start(undefined, { webhookSecret: 'whsec' })
    await rig.completed('é', { webhook })
    const [call] = await calls(1)
    const seconds = Math.floor(rig.clock.now() / 1000)
    const mac = createHmac('sha256', 'whsec').update(`${seconds}.${call?.body}`).digest('hex')
    expect(call?.headers['x-longshore-signature']).toBe(`t=${seconds},v1=${mac}`)
    const plain = await start()
    await plain.rig.completed(1, { webhook: plain.webhook })
    expect((await plain.calls(1))[0]?.headers).not.toHaveProperty('x-longshore-signature')
  })

  it.each([
    'http://127.0.0.1/x',
    'http://localhost:9/',
    'https://10.1.2.3',
    'http://[::1]/',
    'http://169.254.1.1/',
  ])('[EVT-13] is refused at a private address: %s', async (webhook) => {
    const rig = await startRig()
    const reply = await rig.post('/run', { input: {}, webhook })
    expect([reply.statusCode, reply.json().code]).toEqual([400, 'FIELD_INVALID'])
    expect(reply.json().error).toMatch(/^webhook must not be at an address/)
  })

  it('[EVT-14] is followed where 307 and 308 lead, and fails at any other redirect', async () => {
    const { rig, receiver, webhook } = await start(({ path }) => {
      if (path.startsWith('/done')) return { status: 307, headers: { location: '/second' } }
      return path === '/second' ? { status: 308, headers: { location: '/third' } } : { status: 200 }
    })
    await rig.completed('x', { webhook })
    await happens(() => noted(rig) === 1)
    expect(rig.service.logged.join('\n')).toContain('webhook delivered')
    expect(receiver.calls.all.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /done?token=1',
      'POST /second',
      'POST /third',
    ])
    expect(bodyOf(receiver.calls.all[2])).toMatchObject({ output: 'x' })
    const other = await start(() => ({ status: 302, headers: { location: '/elsewhere' } }))
    await other.rig.completed(1, { webhook: other.webhook })
    await other.calls(1)
    expect(other.rig.service.logged.join('\n')).toContain('webhook failed')
  })

  it('[EVT-15] is owed over the deletion of its job and a restart, and not repeated once delivered', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'longshore-test-'))
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
    const file = join(directory, 'queue.db')
    let isUp = false
    const first = await start(() => ({ status: isUp ? 200 : 503 }), { file })
    const id = await first.rig.completed('made', { webhook: first.webhook })
    await first.calls(1)
    await first.rig.service.close()
    isUp = true
    first.rig.clock.advance(31 * 60_000)
    const second = await startRig({ file, clock: first.rig.clock, allowPrivateWebhooks: true })
    await happens(() => noted(second) === 1)
    expect((await second.get(`/status/${id}`)).statusCode).toBe(404)
    expect(bodyOf(first.receiver.calls.all[1])).toMatchObject({ id, status: 'COMPLETED', output: 'made' })
    await second.service.close()
    const third = await startRig({ file, clock: first.rig.clock, allowPrivateWebhooks: true })
    await third.pass(30_000)
    expect(first.receiver.calls.all).toHaveLength(2)
  })

  it('[EVT-16] is not told any more of an end that a retry undid, and anew of the next', async () => {
    const { rig, webhook, calls } = await start((_, number) => ({ status: number === 1 ? 500 : 200 }))
    const id = await rig.failed({ webhook })
    await calls(1)
    await rig.post(`/retry/${id}`)
    await rig.pass(15_000)
    await calls(1)
    await rig.worker.take()
    await rig.worker.done(id, { output: 'second' })
    const told = await calls(2)
    expect(told.map((call) => bodyOf(call)['status'])).toEqual(['FAILED', 'COMPLETED'])
  })
})

describe('streaming', () => {
  it('[EVT-6, EVT-7] gives by /stream what the handler has made so far, as an array each time it is asked', async () => {
    const rig = await startRig()
    const id = await rig.running()
    for (const word of ['one', 'two', 'three']) {
      await rig.worker.stream(id, word)
      const reply = await rig.get(`/stream/${id}`)
      await turns()
      expect(reply.headers['content-type']).toBe('application/json; charset=utf-8')
      expect(reply.headers['x-job-status']).toBe('IN_PROGRESS')
      expect(reply.json()).toMatchObject([{ output: word }])
    }
  })
})
