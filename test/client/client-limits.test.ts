import { describe, expect, it, onTestFinished } from 'vitest'
import {
  Client,
  ClientClosedError,
  JobNotEndedError,
  QueueUnreachableError,
  type ClientOptions,
} from '../../src/client/client.ts'
import { systemClock, type Clock } from '../../src/lib/clock.ts'
import { startPlatform, type Reply, type ScriptedPlatform } from '../support/scripted-platform.ts'

async function connect(
  replies: Reply[],
  options: Partial<ClientOptions> = {},
): Promise<{ platform: ScriptedPlatform; client: Client }> {
  const platform = await startPlatform()
  platform.next('other', ...replies)
  const endpointUrl = `http://127.0.0.1:${platform.port}/v2/ep`
  const client = new Client({ endpointUrl, apiKey: 'key', ...options })
  onTestFinished(() => client.close())
  return { platform, client }
}

/** What was thrown, and after how long. */
async function thrownBy(call: () => Promise<unknown>): Promise<{ error: unknown; tookMs: number }> {
  const begunAt = performance.now()
  const error = await call().then(
    (value) => expect.fail(`resolved with ${JSON.stringify(value)}`),
    (cause: unknown) => cause,
  )
  return { error, tookMs: performance.now() - begunAt }
}

/** A clock whose timers are over at once, and which says what they were to be. */
function noPauses(pauses: number[]): Clock {
  return {
    ...systemClock,
    after: (ms, callback) => {
      pauses.push(ms)
      return systemClock.after(0, callback)
    },
  }
}

const running: Reply = { json: { id: 'j', status: 'IN_PROGRESS' } }
const busy = (retryAfter: string, more: Record<string, string> = {}): Reply => ({
  status: 429,
  headers: { 'retry-after': retryAfter, ...more },
})

describe('a wait of the client', () => {
  it.each<[string, Reply]>([
    ['asks for a pause of 8 s', busy('8')],
    ['asks for a day', { status: 503, headers: { 'retry-after': '86400' } }],
    ['never answers', 'hold'],
  ])('keeps its limit where the queue %s, and says what was last seen', async (_, reply) => {
    const unseen = await connect([reply, reply])
    const seen = await connect([running, reply, reply])
    const [waited, submitted, looked] = await Promise.all([
      thrownBy(() => unseen.client.wait('j', { waitMs: 300 })),
      thrownBy(() => unseen.client.runsync({ input: {} }, { waitMs: 300 })),
      thrownBy(() => seen.client.wait('j', { waitMs: 1_200 })),
    ])
    expect(waited.error).toBeInstanceOf(QueueUnreachableError)
    expect(submitted.error).toBeInstanceOf(QueueUnreachableError)
    expect(looked.error).toBeInstanceOf(JobNotEndedError)
    expect(looked.error).toMatchObject({ record: { id: 'j', status: 'IN_PROGRESS' } })
    expect(Math.max(waited.tookMs, submitted.tookMs, looked.tookMs)).toBeLessThan(4_000)
  })

  it('answers the record of runsync that it has where the queue falls silent', async () => {
    const { client } = await connect([running, 'hold'])
    expect(await client.runsync({ input: {} }, { waitMs: 1_000 })).toMatchObject({ id: 'j' })
  })

  it.each<[string, Reply]>([
    ['refuses', { status: 404 }],
    ['sends elsewhere', { status: 302, headers: { location: '/' } }],
    ['answers with a page', { status: 200, body: 'Welcome' }],
  ])('answers the record of runsync that it has where the queue %s the next look', async (_, reply) => {
    const { client } = await connect([running, reply])
    expect(await client.runsync({ input: {} })).toMatchObject({ id: 'j', status: 'IN_PROGRESS' })
  })
})

describe('whether a submission may have arrived', () => {
  it.each<[string, Reply, boolean]>([
    ['the queue hung up once', 'hang up', true],
    ['the queue did nothing at all', { status: 503 }, false],
  ])('is told of all tries: %s', async (_, first, mayHaveArrived) => {
    const { client: persistent } = await connect([first, { status: 503 }], { attempts: 2 })
    const { client: hurried } = await connect([first, { status: 503, headers: { 'retry-after': '8' } }])
    const [submitted, waited] = await Promise.all([
      thrownBy(() => persistent.run({ input: {} })),
      thrownBy(() => hurried.runsync({ input: {} }, { waitMs: 1_000 })),
    ])
    for (const { error } of [submitted, waited]) {
      expect(error).toBeInstanceOf(QueueUnreachableError)
      expect(error).toMatchObject({ mayHaveArrived, message: expect.stringContaining('HTTP 503') })
    }
  })
})

describe('a stream', () => {
  it('has no chunk twice from a queue that does not heed where to go on, and asks it later and later', async () => {
    const chunks = (...indexes: number[]): Reply => ({
      status: 200,
      headers: { 'x-job-status': indexes.includes(3) ? 'COMPLETED' : 'IN_PROGRESS' },
      body: JSON.stringify(indexes.map((index) => ({ output: `of ${index}`, metrics: {}, index }))),
    })
    const pauses: number[] = []
    const replies = [chunks(1, 2), chunks(2), chunks(1, 2), chunks(2, 3), chunks(2, 3)]
    const { client } = await connect(replies, { clock: noPauses(pauses) })
    const outputs: unknown[] = []
    for await (const { output } of client.stream('j')) outputs.push(output)
    expect(outputs).toEqual(['of 1', 'of 2', 'of 3'])
    expect(pauses).toHaveLength(2)
  })
})

describe('a pause that is asked for', () => {
  it('may be a date, by the clock of who asks', async () => {
    const dates = { date: 'Wed, 21 Oct 2015 07:28:00 GMT' }
    const health = { json: { jobs: {}, workers: {} } }
    const { client } = await connect([busy('Wed, 21 Oct 2015 07:28:01 GMT', dates), health])
    const begunAt = performance.now()
    await client.health()
    expect(performance.now() - begunAt).toBeGreaterThanOrEqual(990)
    const { client: impatient } = await connect([busy('Wed, 21 Oct 2015 07:28:30 GMT', dates)], {
      attempts: 1,
    })
    await expect(impatient.health()).rejects.toMatchObject({ retryAfterMs: 30_000 })
  })

  it('is no longer than a minute', async () => {
    const pauses: number[] = []
    const { client } = await connect([busy('86400'), { json: { jobs: {}, workers: {} } }], {
      clock: noPauses(pauses),
    })
    await client.health()
    expect(pauses).toEqual([60_000])
  })
})

describe('a client that is closed', () => {
  it('rejects what is under way, what pauses, and what is asked afterwards', async () => {
    const { platform, client } = await connect(['hold', busy('8')])
    const held = thrownBy(() => client.status('j'))
    await platform.heard.first(() => true)
    const paused = thrownBy(() => client.status('j'))
    await expect.poll(() => platform.heard.all.length).toBe(2)
    await client.close()
    const all = [await held, await paused, await thrownBy(() => client.health())]
    for (const { error, tookMs } of all) {
      expect(error).toBeInstanceOf(ClientClosedError)
      expect(error).toMatchObject({ code: 'CLIENT_CLOSED' })
      expect(tookMs).toBeLessThan(2_000)
    }
    await client.close()
    expect(platform.heard.all).toHaveLength(2)
  })

  it('ends its waits and streams between two looks', async () => {
    const nothing = { json: { status: 'IN_PROGRESS', stream: [] } }
    const { platform, client } = await connect([nothing, nothing, nothing, nothing, nothing, nothing])
    const reading = thrownBy(() => client.stream('j').next())
    await expect.poll(() => platform.heard.all.length, { timeout: 5_000 }).toBe(3)
    await client.close()
    expect((await reading).error).toBeInstanceOf(ClientClosedError)
  })
})
