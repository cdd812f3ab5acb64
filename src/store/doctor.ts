// What is wrong with a store, or will be: looked at from outside, without changing anything.

import { isRedis, sqlitePath } from './open-store.ts'
import { StoreError } from './store.ts'

/** One sentence per problem, each with its mend; none when all is well. */
export async function examineStore(url: string): Promise<string[]> {
  try {
    if (isRedis(url)) {
      const { examineRedis } = await import('./redis/examine.ts')
      return await examineRedis(url)
    }
    const { examineFile } = await import('./sqlite/examine.ts')
    return await examineFile(sqlitePath(url))
  } catch (cause) {
    if (cause instanceof StoreError) return [cause.message]
    throw cause
  }
}
