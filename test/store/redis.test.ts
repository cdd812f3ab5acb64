import { Redis } from 'ioredis'
import { afterAll, beforeAll } from 'vitest'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import { startRedis, type RedisServer } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'
import { describeStore } from './conformance.ts'

describeWithRedis('On a real server', () => {
  let server: RedisServer
  beforeAll(async () => {
    server = await startRedis()
  })
  afterAll(() => server.stop())

  describeStore('Redis', async () => {
    const admin = new Redis(server.url)
    await admin.flushall()
    admin.disconnect()
    let store = await openRedisStore({ url: server.url })
    return {
      store,
      async reopen() {
        await store.close()
        store = await openRedisStore({ url: server.url })
        return store
      },
      dispose: () => store.close(),
    }
  })
})
