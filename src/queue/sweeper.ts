// The periodic tidying: what time alone does to jobs, done in small rounds.

import type { Clock } from '../lib/clock.ts'
import { pause } from '../lib/clock.ts'
import type { JobStore } from '../store/job-store.ts'

export interface SweeperOptions {
  store: { jobs: Pick<JobStore, 'sweep'> }
  clock: Clock
  leaseMs: number
  /** Time between rounds, ms. */
  everyMs?: number
  onError: (cause: unknown) => void
}

/** Sweeps until the signal aborts. Resolves once the last round is over. */
export async function runSweeper(options: SweeperOptions, stopping: AbortSignal): Promise<void> {
  const { store, clock, leaseMs, everyMs = 500, onError } = options
  let tookMs = 0
  const sweep = async (): Promise<number> => {
    // A round that comes later than this was held up, and so may the workers' requests have been. A store that is slow has
    // answered all the same; what took longer than that may have been this process, held up in the middle of a round.
    const served = { leaseMs, servedMs: 3 * everyMs + Math.min(tookMs, leaseMs / 2) }
    const begin = clock.monotonic()
    tookMs = 0
    const swept = await store.jobs.sweep(clock.now(), served)
    tookMs = clock.monotonic() - begin
    return swept
  }
  while (!stopping.aborted) {
    try {
      // A full round means there is more: go on at once, after a turn for whoever waits.
      while ((await sweep()) >= 500 && !stopping.aborted) await pause(clock, 0, stopping)
    } catch (cause) {
      onError(cause)
    }
    await pause(clock, everyMs, stopping)
  }
}
