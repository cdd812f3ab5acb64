// What is wrong with a store, or will be: looked at from outside, without changing anything.

import { systemClock, type Clock } from '../lib/clock.ts'
import { freeBytes } from '../lib/disk.ts'
import { problem, type Finding } from '../lib/finding.ts'
import { isRedis, sqlitePath, waitProblem } from './open-store.ts'
import { StoreError } from './store-error.ts'

export interface Instruments {
  clock: Clock
  freeBytes: (folder: string) => number
}

interface Settings extends Instruments {
  /** Replicas that every write is to wait for; 0 by default. */
  replicas: number
}

/** What is found, each with its mend; nothing when all is well. */
export async function examineStore(url: string, settings: Partial<Settings> = {}): Promise<Finding[]> {
  const given = { clock: systemClock, freeBytes, replicas: 0, ...settings }
  const refusal = waitProblem(url, given.replicas)
  if (refusal !== undefined) return [problem(refusal)]
  try {
    if (isRedis(url)) {
      const { examineRedis } = await import('./redis/examine.ts')
      return await examineRedis(url, given)
    }
    const { examineFile } = await import('./sqlite/examine.ts')
    return examineFile(sqlitePath(url), given)
  } catch (cause) {
    if (cause instanceof StoreError) return [problem(cause.message)]
    throw cause
  }
}
