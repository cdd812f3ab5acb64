import { describe, expect, it, onTestFinished } from 'vitest'
import { Client, outputOf, StreamBrokenError } from '../../src/client/client.ts'
import { startPlatform, type Reply, type ScriptedPlatform } from '../support/scripted-platform.ts'

/** What is not known to be true of the platform but of its published clients is in `/compat/v2`, and tested there. */
async function connect(...replies: Reply[]): Promise<{ platform: ScriptedPlatform; client: Client }> {
  const platform = await startPlatform()
  platform.next('other', ...replies)
  const client = new Client({ endpointUrl: `http://127.0.0.1:${platform.port}/v2/ep`, apiKey: 'key' })
  onTestFinished(() => client.close())
  return { platform, client }
}

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const got: T[] = []
  for await (const value of values) got.push(value)
  return got
}

const linesOf = (platform: ScriptedPlatform): string[] =>
  platform.all('other').map(({ line }) => line.replace(/\?.*/, ''))

describe('a client of the hosted platform', () => {
  it('goes on waiting where runsync was answered before the end', async () => {
    const { platform, client } = await connect(
      { json: { id: 'sync-1', status: 'IN_QUEUE' } },
      { json: { id: 'sync-1', status: 'IN_PROGRESS', delayTime: 5, workerId: 'w' } },
      { json: { id: 'sync-1', status: 'COMPLETED', delayTime: 5, executionTime: 7, output: [1] } },
      { json: { id: 'sync-1', status: 'COMPLETED', delayTime: 5, executionTime: 7, output: [1] } },
    )
    const record = await client.runsync({ input: {} })
    expect(outputOf(record)).toEqual([1])
    expect(record).toEqual({
      id: 'sync-1',
      status: 'COMPLETED',
      attempt: 1,
      delayTime: 5,
      executionTime: 7,
      output: [1],
    })
    expect(linesOf(platform)).toEqual([
      'POST /v2/ep/runsync',
      'GET /v2/ep/status/sync-1',
      'GET /v2/ep/status-sync/sync-1',
      'GET /v2/ep/status/sync-1',
    ])
    expect(platform.all('other')[0]?.headers).toMatchObject({
      authorization: 'Bearer key',
      'idempotency-key': expect.any(String),
    })
  })

  it('looks again and again where there is no status-sync', async () => {
    const running = { json: { id: 'j', status: 'IN_PROGRESS' } }
    const { platform, client } = await connect(running, { status: 404 }, running, running, {
      json: { id: 'j', status: 'FAILED', error: '{"error_type":"<class \'KeyError\'>","error_message":"x"}' },
    })
    expect(await client.wait('j')).toMatchObject({
      status: 'FAILED',
      error: { type: 'KeyError', message: 'x', code: 'HOSTED_ERROR' },
    })
    expect(linesOf(platform).filter((line) => line.includes('status-sync'))).toHaveLength(1)
  })

  it('answers the record that it has when the platform goes away while it waits', async () => {
    const { client } = await connect(
      { json: { id: 'j', status: 'IN_QUEUE' } },
      ...Array.from({ length: 5 }, () => 'hang up' as const),
    )
    expect(await client.runsync({ input: {} })).toMatchObject({ id: 'j', status: 'IN_QUEUE' })
  })

  it('reads chunks that are handed out once', async () => {
    const { client } = await connect(
      { json: { status: 'IN_PROGRESS', stream: [{ output: 'a' }, { output: 'b', metrics: { n: 1 } }] } },
      { status: 429 },
      { json: { status: 'COMPLETED', stream: [{ output: 'c' }] } },
      { json: { status: 'COMPLETED', stream: [] } },
    )
    expect(await all(client.stream('j'))).toEqual([
      { index: 1, output: 'a', metrics: {} },
      { index: 2, output: 'b', metrics: { n: 1 } },
      { index: 3, output: 'c', metrics: {} },
    ])
  })

  it('says so when some of them may have got lost with an answer', async () => {
    const { client } = await connect(
      { json: { status: 'IN_PROGRESS', stream: [{ output: 'a' }] } },
      'hang up',
      { json: { status: 'COMPLETED', stream: [{ output: 'c' }] } },
    )
    const chunks = client.values('j')
    expect((await chunks.next()).value).toBe('a')
    const broken = await chunks.next().catch((cause: unknown) => cause)
    expect(broken).toBeInstanceOf(StreamBrokenError)
    expect(broken).toMatchObject({ code: 'STREAM_BROKEN', chunks: 1 })
  })

  it('takes a health record that says less', async () => {
    const jobs = { completed: 1, failed: 2, inProgress: 3, inQueue: 4, retried: 5 }
    const { client } = await connect({ json: { jobs, workers: { idle: 1, running: 2 } } })
    const workers = { idle: 1, running: 2, ready: 0, initializing: 0, throttled: 0, unhealthy: 0 }
    expect(await client.health()).toEqual({ jobs, workers })
  })
})
