import { Redis } from 'ioredis'
import { afterAll, beforeAll } from 'vitest'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { Store } from '../../src/store/store.ts'
import { startRedis, type RedisServer } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'
import { describeHistories } from './histories.ts'

describeWithRedis('On a real server', () => {
  let redis: RedisServer
  let admin: Redis
  let stores: Store[] = []
  let opened = 0

  beforeAll(async () => {
    redis = await startRedis()
    admin = new Redis(redis.url)
    stores = await Promise.all([1, 2].map(() => openRedisStore({ url: redis.url })))
  })
  afterAll(async () => {
    for (const store of stores) await store.close()
    admin.disconnect()
    await redis.stop()
  })

  describeHistories('Redis', {
    histories: 2_000,
    async open() {
      // The servers live on from history to history; what they remember of an endpoint must not.
      await admin.flushall()
      opened += 1
      return {
        stores,
        endpoints: [`ep-${opened}`, `other-${opened}`],
        async reopen(at, how) {
          const old = stores[at]
          if (how === 'close') await old?.close()
          stores[at] = await openRedisStore({ url: redis.url })
          // Of a server that died nothing is heard any more; its connections must go with the test all the same.
          if (how === 'crash') await old?.close()
        },
        dispose: async () => undefined,
      }
    },
  })
})
