// Servers that make and remove the same endpoint at once: its name and its hash tell the same in the end.

import { expect, it, onTestFinished } from 'vitest'
import { policySchema } from '../../src/job/job.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import { Connection } from '../../src/store/redis/connection.ts'
import { RedisEndpoints } from '../../src/store/redis/endpoints.ts'
import { News } from '../../src/store/redis/news.ts'
import { Scripts } from '../../src/store/redis/scripts.ts'
import type { Store } from '../../src/store/store.ts'
import { startRedis, type RedisServer } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'

interface Servers {
  server: RedisServer
  store: Store
  /** The endpoints of another server, which does something else before it first sends such a command. */
  slow: (command: 'sadd' | 'srem' | 'second round', before: () => Promise<unknown>) => RedisEndpoints
}

async function open(): Promise<Servers> {
  const server = await startRedis()
  onTestFinished(() => server.stop())
  const store = await openStore(server.url)
  onTestFinished(() => store.close())
  const connection = await Connection.open({ url: server.url })
  onTestFinished(() => connection.close())
  const news = new News({ connection, clock: systemClock, endpoints: async () => [], tell: () => undefined })
  const scripts = new Scripts(connection, news)
  const slow: Servers['slow'] = (command, before) => {
    let isFirst = true
    const write: Connection['write'] = async (sent, ...args) => {
      if (isFirst && sent === command) {
        isFirst = false
        await before()
      }
      return connection.write(sent, ...args)
    }
    const held = new Proxy(connection, {
      get: (target, name) => (name === 'write' ? write : (Reflect.get(target, name, target) as unknown)),
    })
    let rounds = 0
    const run: Scripts['run'] = async (...asked) => {
      if (command === 'second round' && (rounds += 1) === 2) await before()
      return scripts.run(...asked)
    }
    const heldScripts = new Proxy(scripts, {
      get: (target, name) => (name === 'run' ? run : (Reflect.get(target, name, target) as unknown)),
    })
    return new RedisEndpoints(held, () => heldScripts)
  }
  return { server, store, slow }
}

const isNamed = (server: RedisServer): Promise<string> => server.cli('sismember', 'longshore:endpoints', 'ep')

describeWithRedis('An endpoint that is made and removed at once', () => {
  it('has no name when it was removed before its name was written', async () => {
    const { server, store, slow } = await open()
    const making = slow('sadd', () => store.endpoints.removeEndpoint('ep'))
    await making.ensureEndpoint('ep')
    expect(await store.endpoints.findEndpoint('ep')).toBeUndefined()
    expect(await isNamed(server)).toBe('0')
  })

  it('has its name when it was made anew before its name was taken away', async () => {
    const { server, store, slow } = await open()
    await store.endpoints.ensureEndpoint('ep')
    const removing = slow('srem', () => store.endpoints.ensureEndpoint('ep'))
    await removing.removeEndpoint('ep')
    expect(await store.endpoints.findEndpoint('ep')).toMatchObject({ id: 'ep' })
    expect(await isNamed(server)).toBe('1')
  })

  it('keeps the jobs that came after it was made anew', async () => {
    const { store, slow } = await open()
    await store.endpoints.ensureEndpoint('ep')
    const submit = (id: string): Promise<unknown> =>
      store.jobs.enqueue({
        endpoint: 'ep',
        id,
        input: Buffer.from('1'),
        policy: policySchema.parse({}),
        retentionMs: 600_000,
        now: store.clock.now(),
      })
    // More than one round removes.
    await Promise.all(Array.from({ length: 600 }, (_one, at) => submit(`old-${at}`)))
    const removing = slow('second round', async () => {
      await store.endpoints.ensureEndpoint('ep')
      await submit('new')
    })
    await removing.removeEndpoint('ep')
    expect(await store.jobs.count('ep')).toMatchObject({ inQueue: 1 })
    expect((await store.jobs.list('ep', { count: 9, now: store.clock.now() })).jobs).toMatchObject([
      { id: 'new' },
    ])
  })
})
