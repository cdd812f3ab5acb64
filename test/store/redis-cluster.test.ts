import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import { startRedisCluster } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'
import { describeStore } from './conformance.ts'

describeWithRedis('On three real masters', () => {
  let cluster: Awaited<ReturnType<typeof startRedisCluster>>
  beforeAll(async () => {
    cluster = await startRedisCluster()
  })
  afterAll(() => cluster.stop())

  it('are told to be a cluster where one of them is taken for a server of its own', async () => {
    const refusals = cluster.nodes.map(({ url }) =>
      openRedisStore({ url }).then(
        (store) => store.close().then(() => 'open'),
        ({ message }: Error) => message,
      ),
    )
    expect(await Promise.all(refusals)).toContainEqual(
      expect.stringMatching(/is a node of a cluster.*Name the cluster: redis\+cluster:\/\//),
    )
  })

  describeStore('Redis cluster', async () => {
    for (const { url } of cluster.nodes) {
      const admin = new Redis(url)
      await admin.flushall()
      admin.disconnect()
    }
    let store = await openRedisStore({ url: cluster.url })
    return {
      store,
      async reopen() {
        await store.close()
        store = await openRedisStore({ url: cluster.url })
        return store
      },
      dispose: () => store.close(),
    }
  })
})
