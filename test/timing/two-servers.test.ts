// Two servers on one Redis: what is asked of one is heard at the other, with and without the messages between them.

import { Redis } from 'ioredis'
import { expect, it, onTestFinished } from 'vitest'
import { Client } from '../../src/client/client.ts'
import { fixture, KEY, longshore, startWorker } from '../support/processes.ts'
import { startRedis } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'

interface Served {
  endpointUrl: string
  client: Client
}

async function twoServers(): Promise<{ a: Served; b: Served; redisUrl: string }> {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const [a, b] = await Promise.all([serveOn(redis.url), serveOn(redis.url)])
  return { a, b, redisUrl: redis.url }
}

async function serveOn(url: string): Promise<Served> {
  const server = longshore(['serve', '--store', url, '--port', '0'])
  const endpointUrl = await server.says(/Serving (\S+)/)
  const client = new Client({ endpointUrl, apiKey: KEY, attempts: 1 })
  onTestFinished(() => client.close())
  return { endpointUrl, client }
}

function median(values: number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN
}

describeWithRedis('two servers on one Redis', () => {
  it('start a job at one within 20 ms of its submission at the other, by the median, and answer who waits there', async () => {
    const { a, b } = await twoServers()
    await startWorker(b.endpointUrl, fixture('echo.ts'))
    const delays: number[] = []
    const trips: number[] = []
    for (let n = 0; n < 25; n += 1) {
      const from = performance.now()
      const record = await a.client.runsync({ input: { n } })
      trips.push(performance.now() - from)
      expect(record.status).toBe('COMPLETED')
      delays.push(record.delayTime)
    }
    console.log(
      `across servers: delayTime median ${median(delays)} ms, runsync median ${median(trips).toFixed(1)} ms`,
    )
    expect(median(delays)).toBeLessThanOrEqual(20)
    expect(median(trips)).toBeLessThanOrEqual(40)
  })

  it('stop a job that runs by the one when it is cancelled at the other', async () => {
    const { a, b } = await twoServers()
    const worker = await startWorker(b.endpointUrl, fixture('ends-on-abort.ts'))
    const { id } = await a.client.run({ input: {} })
    await expect.poll(async () => (await a.client.status(id)).status, { interval: 5 }).toBe('IN_PROGRESS')
    const from = performance.now()
    expect((await a.client.cancel(id)).status).toBe('CANCELLED')
    await worker.says(/(cancelled)/)
    expect(performance.now() - from).toBeLessThan(1_000)
  })

  it('count the workers of both as one service', async () => {
    const { a, b } = await twoServers()
    await startWorker(a.endpointUrl, fixture('echo.ts'))
    await startWorker(b.endpointUrl, fixture('echo.ts'))
    for (const { client } of [a, b])
      await expect
        .poll(async () => (await client.health()).workers, { timeout: 5_000 })
        .toMatchObject({ ready: 2 })
  })

  it('lose at most a second to messages that are lost between them', async () => {
    const { a, b, redisUrl } = await twoServers()
    await startWorker(b.endpointUrl, fixture('echo.ts'))
    await a.client.runsync({ input: {} })
    const admin = new Redis(redisUrl)
    onTestFinished(() => admin.disconnect())
    const delays: number[] = []
    for (let n = 0; n < 5; n += 1) {
      // Whoever listened hears nothing until it has connected anew.
      await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      const { id } = await a.client.run({ input: { n } })
      await expect
        .poll(async () => (await a.client.status(id)).status, { interval: 10, timeout: 5_000 })
        .toBe('COMPLETED')
      delays.push((await a.client.status(id)).delayTime)
    }
    console.log(`with the message lost: delayTime ${delays.join(', ')} ms`)
    expect(Math.max(...delays)).toBeLessThanOrEqual(1_100)
  })
})
