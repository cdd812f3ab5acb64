import { pino } from 'pino'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client } from '../../src/client/client.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { buildApp } from '../../src/server/app.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { fixture, KEY, serve, startWorker } from '../support/processes.ts'

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

describe('an idle worker', () => {
  it('starts a job within 20 ms of its submission, by the median', async () => {
    const { endpointUrl, client } = await serve()
    await startWorker(endpointUrl, fixture('echo.ts'))
    const delays: number[] = []
    const trips: number[] = []
    for (let n = 0; n < 25; n += 1) {
      const from = performance.now()
      const record = await client.runsync({ input: { n } })
      trips.push(performance.now() - from)
      delays.push(record.delayTime)
    }
    console.log(`delayTime median ${median(delays)} ms, runsync median ${median(trips).toFixed(1)} ms`)
    expect(median(delays)).toBeLessThanOrEqual(20)
    // The answer comes the moment the result is there: nothing on the way waits for a poll.
    expect(median(trips)).toBeLessThanOrEqual(40)
  })

  // Seen: a job as long as the worker waits before it tells of a start made the next one wait out a hold.
  it('starts each of many jobs in a row within a second, whatever their length', async () => {
    const { endpointUrl, client } = await serve()
    await startWorker(endpointUrl, fixture('takes-a-while.ts'))
    const delays: number[] = []
    for (const ms of [8, 9, 10, 11, 12]) {
      for (let n = 0; n < 20; n += 1) delays.push((await client.runsync({ input: { ms } })).delayTime)
    }
    expect(Math.max(...delays)).toBeLessThan(1_000)
  })

  it('asks no more often than the server lets it wait', async () => {
    const store = openSqliteStore({ file: ':memory:' })
    await store.endpoints.ensureEndpoint('default')
    const app = buildApp({
      store,
      clock: systemClock,
      logger: pino({ level: 'silent' }),
      ownerKey: KEY,
      secret: 'x',
      leaseMs: 1_000,
    })
    const asked: number[] = []
    let heard = (): void => undefined
    app.http.addHook('onRequest', async () => {
      asked.push(performance.now())
      heard()
    })
    await app.http.listen({ port: 0, host: '127.0.0.1' })
    onTestFinished(async () => {
      await app.close()
      await store.close()
    })
    const { port } = app.http.server.address() as AddressInfo
    await startWorker(`http://127.0.0.1:${port}/v2/default`, fixture('echo.ts'))
    while (asked.length < 7) await new Promise<void>((resolve) => (heard = resolve))
    // The first poll has a moment before it is held; from then on each is held for half a lease.
    const gaps = asked.slice(1).map((at, n) => at - (asked[n] ?? 0))
    expect(median(gaps)).toBeGreaterThan(450)
  })
})

describe('a client that waits', () => {
  it('does not hear of a job that nobody runs before its wait is over', async () => {
    const { endpointUrl } = await serve()
    const client = new Client({ endpointUrl, apiKey: KEY })
    onTestFinished(() => client.close())
    const from = performance.now()
    expect((await client.runsync({ input: {} }, { waitMs: 1_000 })).status).toBe('IN_QUEUE')
    expect(performance.now() - from).toBeGreaterThanOrEqual(990)
  })
})
