// Time as Redis has it, when that of this machine and that of Redis move apart.

import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import { SharedClock } from '../../src/store/redis/shared-clock.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { MovedClock } from '../support/moved-clock.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { Store } from '../../src/store/store.ts'
import { startRedis, type RedisServer } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'

const FAR_MS = 45_000
const LONG = { timeout: 10_000, interval: 20 }

async function open(): Promise<{
  server: RedisServer
  store: Store
  clock: MovedClock
  offMs: () => number
}> {
  const server = await startRedis()
  onTestFinished(() => server.stop())
  const clock = new MovedClock()
  const store = await openRedisStore({ url: server.url, clock })
  onTestFinished(() => store.close())
  // Redis has the time of this machine.
  return { server, store, clock, offMs: () => Math.abs(store.clock.now() - systemClock.now()) }
}

describeWithRedis('The time of a store in Redis', () => {
  it('is that of the server behind a new connection at once', async () => {
    const { server, clock, offMs } = await open()
    for (const aheadMs of [FAR_MS, -FAR_MS]) {
      clock.aheadMs = aheadMs
      expect(offMs()).toBeGreaterThan(FAR_MS / 2)
      await server.cli('client', 'kill', 'type', 'normal')
      await expect.poll(offMs, LONG).toBeLessThan(1_000)
    }
  })

  it('is asked for every minute', async () => {
    const { clock, offMs } = await open()
    for (const aheadMs of [FAR_MS, -FAR_MS]) {
      clock.aheadMs = aheadMs
      const { minute } = clock
      clock.minute = undefined
      minute?.()
      await expect.poll(offMs, LONG).toBeLessThan(1_000)
      await expect.poll(() => clock.minute, LONG).toBeDefined()
    }
  })

  it('is not made worse by an answer that took long', async () => {
    const clock = new FakeClock()
    let tookMs = 10
    let aheadMs = 0
    const run = async (): Promise<Buffer[]> => {
      clock.advance(tookMs)
      const now = clock.now() + aheadMs
      return [Math.floor(now / 1000), (now % 1000) * 1000].map((part) => Buffer.from(String(part)))
    }
    const shared = new SharedClock(clock, { run, onReady: () => undefined })
    await shared.start()
    onTestFinished(() => shared.stop())
    const offMs = (): number => Math.abs(shared.now() - clock.now())
    const look = async (): Promise<void> => {
      shared.look()
      await new Promise(setImmediate)
    }
    // All of the wait was before Redis told it.
    tookMs = 4_700
    await look()
    expect(offMs()).toBeLessThan(10)
    aheadMs = 60_000
    await look()
    expect(Math.abs(offMs() - aheadMs)).toBeLessThan(tookMs)
  })

  it('does not move when the clock of this machine is set', async () => {
    const { clock, store, offMs } = await open()
    for (const stepMs of [FAR_MS, -FAR_MS, 0]) {
      clock.stepMs = stepMs
      for (let looks = 0; looks < 20; looks += 1) {
        expect(offMs()).toBeLessThan(1_000)
        await store.ping()
      }
    }
  })

  it('is asked for when this machine has slept', async () => {
    const { clock, offMs } = await open()
    clock.sleptMs = FAR_MS
    expect(offMs()).toBeGreaterThan(FAR_MS / 2)
    await expect.poll(offMs, LONG).toBeLessThan(1_000)
  })

  it('stays what it was while Redis does not answer, and is asked for again', async () => {
    const { server, clock, store, offMs } = await open()
    await server.kill()
    clock.minute?.()
    await expect.poll(() => store.ping().then(String, () => 'away'), LONG).toBe('away')
    expect(offMs()).toBeLessThan(1_000)
    clock.aheadMs = FAR_MS
    await server.start()
    await expect.poll(offMs, LONG).toBeLessThan(1_000)
  })
})
