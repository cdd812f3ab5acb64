// Moving a stopped queue from a file to Redis.

import { isRedis, sqlitePath } from './open-store.ts'
import { shownStore } from './shown-store.ts'
import { StoreError } from './store-error.ts'

export interface Moved {
  jobs: number
  /** Of these: jobs that came with an s3Config, which is sealed. */
  sealed: number
}

/** Throws StoreError when the file is served or the target has jobs. What is in the file stays there. */
export async function moveQueue(from: string, to: string): Promise<Moved> {
  if (isRedis(from) || !isRedis(to)) {
    throw new StoreError(
      'STORE_UNREADABLE',
      `A queue is moved from a file to Redis, and this is from ${shownStore(from)} to ${shownStore(to)}. Use --from sqlite:<file> --to redis://<host>:<port>.`,
    )
  }
  const { openSqliteSource } = await import('./sqlite/export.ts')
  const { openRedisTarget } = await import('./redis/import.ts')
  const source = await openSqliteSource(sqlitePath(from))
  try {
    const target = await openRedisTarget(to)
    try {
      const moved = { jobs: 0, sealed: 0 }
      for (const key of source.keys()) await target.addKey(key)
      for (const job of source.jobs()) {
        await target.addJob(job)
        moved.jobs += 1
        if (job.sealedS3Config) moved.sealed += 1
      }
      for (const delivery of source.deliveries()) await target.addDelivery(delivery)
      for (const record of source.records()) await target.addRecord(record)
      for (const endpoint of source.endpoints()) await target.addEndpoint(endpoint)
      await target.finish()
      return moved
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}
