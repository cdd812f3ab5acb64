// The periodic tidying: what time alone does to jobs, done in small rounds.

import type { Clock } from '../lib/clock.ts'
import { pause } from '../lib/clock.ts'
import type { Store } from '../store/store.ts'

export interface SweeperOptions {
  store: Store
  clock: Clock
  leaseMs: number
  /** Time between rounds, ms. */
  everyMs?: number
  onError: (cause: unknown) => void
}

/** Sweeps until the signal aborts. Resolves once the last round is over. */
export async function runSweeper(options: SweeperOptions, stopping: AbortSignal): Promise<void> {
  const { store, clock, leaseMs, everyMs = 500, onError } = options
  // A round that comes later than this was held up, and so may the workers' requests have been.
  const served = { leaseMs, servedMs: 3 * everyMs }
  while (!stopping.aborted) {
    try {
      // A full round means there is more: go on at once, after a turn for whoever waits.
      while ((await store.jobs.sweep(clock.now(), served)) >= 500 && !stopping.aborted)
        await pause(clock, 0, stopping)
    } catch (cause) {
      onError(cause)
    }
    await pause(clock, everyMs, stopping)
  }
}
