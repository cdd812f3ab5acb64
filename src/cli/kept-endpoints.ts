// The endpoints of a service: made at start, and again in a store that has come back without them.

import { pause } from '../lib/clock.ts'
import type { Store } from '../store/store.ts'
import type { createLogger } from './logger.ts'

/** Makes those that are asked for, or `default` in a store that has none; answers all that there are. */
export async function ensureEndpoints(store: Store, names: readonly string[]): Promise<string[]> {
  const stored = await store.endpoints.listEndpoints()
  const wanted = names.length === 0 && stored.length === 0 ? ['default'] : names
  for (const name of wanted) await store.endpoints.ensureEndpoint(name)
  return (await store.endpoints.listEndpoints()).map(({ id }) => id)
}

export interface KeptEndpoints {
  store: Pick<Store, 'endpoints' | 'clock'>
  endpoints: readonly string[]
  logger: Awaited<ReturnType<typeof createLogger>>
  onError: (cause: unknown) => void
}

/** What is missing then, in part or as a whole, is refused in the meantime. */
const LOOK_MS = 1_000

/**
 * Until the signal aborts. A store that has come back may refuse the first writes, and one of its nodes may come back
 * later than another: only looking again and again finds all of it.
 */
export async function keepEndpoints(options: KeptEndpoints, stopping: AbortSignal): Promise<void> {
  const { store, endpoints, logger, onError } = options
  const keep = async (endpoint: string): Promise<void> => {
    if (!(await store.endpoints.keepEndpoint(endpoint))) return
    logger.error(
      { endpoint },
      'the store came back without all of this endpoint; what was missing is made anew, and jobs may be lost',
    )
  }
  await pause(store.clock, LOOK_MS, stopping)
  while (!stopping.aborted) {
    const kept = await Promise.allSettled(endpoints.map(keep))
    for (const one of kept) if (one.status === 'rejected' && !stopping.aborted) onError(one.reason)
    await pause(store.clock, LOOK_MS, stopping)
  }
}
