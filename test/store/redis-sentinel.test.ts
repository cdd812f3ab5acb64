// Sentinels that name another master while its clients ask them for it.

import { expect, it, onTestFinished } from 'vitest'
import { openStore } from '../../src/store/open-store.ts'
import { madeUpSentinel } from '../support/made-up-sentinel.ts'
import { longshore } from '../support/processes.ts'
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

  // Seen: it waited for the first for ever, and could neither fail nor end.
  it('passes over one that says nothing', async () => {
    const server = await redis()
    const [silent, speaks] = [await madeUpSentinel(server.port), await madeUpSentinel(server.port)]
    silent.hold()
    const store = await openStore(`redis+sentinel://127.0.0.1:${silent.port},127.0.0.1:${speaks.port}/queue`)
    onTestFinished(() => store.close())
    expect(await store.endpoints.ensureEndpoint('ep').then(() => 'made', String)).toBe('made')
    expect(silent.asked.all.length).toBeGreaterThan(0)
  })

  it('is told to be out of reach where none says who is master, and its program ends', async () => {
    const silent = await madeUpSentinel(1)
    silent.hold()
    const doctor = longshore(['doctor', '--store', `redis+sentinel://127.0.0.1:${silent.port}/queue`])
    expect(await doctor.exit).toBe(1)
    expect(doctor.stdout + doctor.stderr).toContain('no sentinel tells its master: Command timed out')
  })
})
