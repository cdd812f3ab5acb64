// The watch over one running container: for as long as it runs, and over all troubles of its engine.

import { backoffMs } from '../../lib/backoff.ts'
import { pause, type Clock } from '../../lib/clock.ts'

const RETRY = { baseMs: 200, maxMs: 10_000 }
/** How long nothing may be heard of a container until it is looked at. */
const LOOK_MS = 30_000

export interface ContainerWatchOptions {
  /** Resolves when the container runs no more, with its exit code, or without one after this long. */
  wait: (mostMs: number) => Promise<number | undefined>
  /** Sees what has become of it. */
  look: (code: number | undefined) => Promise<void>
  onTrouble: (error: unknown) => void
  clock: Clock
  /** Aborts when it has ended, or is not to be watched any more. */
  signal: AbortSignal
}

/** Resolves once the signal aborts. An engine that is away is asked again until it is back. */
export async function watchContainer(options: ContainerWatchOptions): Promise<void> {
  const { wait, look, onTrouble, clock, signal } = options
  let failures = 0
  while (!signal.aborted) {
    try {
      // An engine that was away knows already what this one missed.
      if (failures > 0) await look(undefined)
      if (!signal.aborted) await look(await wait(LOOK_MS))
      failures = 0
    } catch (error) {
      // Called off.
      if (signal.aborted) return
      failures += 1
      onTrouble(error)
      await pause(clock, backoffMs(failures, RETRY), signal)
    }
  }
}
