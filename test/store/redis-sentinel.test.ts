// Sentinels that name another master while its clients ask them for it.

import { expect, it, onTestFinished } from 'vitest'
import { openStore } from '../../src/store/open-store.ts'
import { madeUpSentinel } from '../support/made-up-sentinel.ts'
import { startRedis, type RedisServer } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'

const LONG = { timeout: 20_000, interval: 20 }

async function redis(): Promise<RedisServer> {
  const server = await startRedis()
  onTestFinished(() => server.stop())
  return server
}

describeWithRedis('A store that sentinels lead to', () => {
  // The library took a switch that it was told of in the middle of a connect for the wish to end.
  it('comes to the new master also when it is told of it while it asks for it', async () => {
    const [first, second] = [await redis(), await redis()]
    const sentinel = await madeUpSentinel(first.port)
    const store = await openStore(`redis+sentinel://127.0.0.1:${sentinel.port}/queue`)
    onTestFinished(() => store.close())
    // What commands go through, and what messages come by.
    await expect.poll(() => sentinel.listeners, LONG).toBe(2)
    sentinel.hold()
    const before = sentinel.asked.all.length
    await first.kill()
    await sentinel.asked.first(() => sentinel.asked.all.length >= before + 2)
    sentinel.tellSwitch()
    await expect.poll(() => sentinel.listeners, LONG).toBe(0)
    sentinel.answer(second.port)
    const make = (): Promise<string> => store.endpoints.ensureEndpoint('ep').then(() => 'made', String)
    await expect.poll(make, LONG).toBe('made')
    await expect.poll(() => second.cli('client', 'list'), LONG).toMatch(/ psub=1 /)
  })
})
