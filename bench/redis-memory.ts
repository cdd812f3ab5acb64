// How much memory of Redis does a queued job take? Starts a redis-server of its own.

import { randomUUID } from 'node:crypto'
import { policySchema } from '../src/job/job.ts'
import { openStore } from '../src/store/open-store.ts'
import { startRedis } from '../test/support/redis.ts'

const JOBS = 10_000
const INPUT_BYTES = 100

const server = await startRedis()
const store = await openStore(server.url)
await store.endpoints.ensureEndpoint('ep')
const used = async (): Promise<number> =>
  Number(/used_memory:(\d+)/.exec(await server.cli('info', 'memory'))?.[1])
const before = await used()
const input = Buffer.from(JSON.stringify('x'.repeat(INPUT_BYTES - 2)))
for (let at = 0; at < JOBS; at += 100) {
  const now = store.clock.now()
  const jobs = Array.from({ length: 100 }, () =>
    store.jobs.enqueue({
      endpoint: 'ep',
      id: randomUUID(),
      input,
      policy: policySchema.parse({}),
      retentionMs: 60_000,
      now,
    }),
  )
  await Promise.all(jobs)
}
const each = Math.round(((await used()) - before) / JOBS)
console.log(`${JOBS} queued jobs with inputs of ${INPUT_BYTES} bytes: ${each} bytes of Redis each`)
await store.close()
await server.stop()
