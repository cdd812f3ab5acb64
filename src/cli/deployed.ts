// Waits for what becomes of a deployment: of the release of an endpoint, or of the first workers of a new one.

import type { ResourceClient } from '../client/resource-client.ts'
import { pause, systemClock as clock } from '../lib/clock.ts'
import type { Release } from '../resource/release.ts'
import { CommandError } from './fail.ts'
import { stopSignal } from './stop-signal.ts'

/** What is not over by then is left to itself: a worker that does not become ready stops its release before. */
const WAIT_MS = 900_000
const LOOK_EVERY_MS = 500
/** As many deaths as stop a release. */
const FAILURES = 3

/** The newest release once it is over. What it is at is told meanwhile. */
export function released(client: ResourceClient, endpointId: string): Promise<Release | undefined> {
  return watch(endpointId, async () => {
    const [release] = await client.releases(endpointId)
    if (!release || release.state !== 'ROLLING') return { over: release }
    return { words: `Version ${release.version}: ${release.reason}` }
  })
}

/** Resolves once a new endpoint has a worker that is ready. Throws CommandError when those that were started have died. */
export async function firstReady(client: ResourceClient, endpointId: string): Promise<void> {
  await watch(endpointId, async () => {
    const { scaling } = await client.endpoint(endpointId)
    if (scaling && scaling.idle + scaling.running > 0) return { over: true }
    const gone = (await client.pods({ areGone: true })).filter((pod) => pod.endpointId === endpointId)
    const last = gone.toSorted((a, b) => ((a.lastStartedAt ?? '') < (b.lastStartedAt ?? '') ? 1 : -1))[0]
    if (last && gone.length >= FAILURES)
      throw new CommandError(
        `The first ${gone.length} workers have died: ${last.lastStatusChange} See longshore logs ${last.id}. The service goes on trying.`,
      )
    return { words: scaling ? `Workers: ${scaling.reason}` : '' }
  })
}

/** Asks again until it is over, and writes its words on stderr when they are new. */
async function watch<T>(
  endpointId: string,
  look: () => Promise<{ over: T } | { words: string }>,
): Promise<T> {
  const stop = stopSignal()
  const stopped = new AbortController()
  stop.onSignal(() => stopped.abort())
  const until = clock.monotonic() + WAIT_MS
  let told = ''
  try {
    for (;;) {
      const seen = await look()
      if ('over' in seen) return seen.over
      if (seen.words !== told) process.stderr.write(`${seen.words}\n`)
      told = seen.words
      if (clock.monotonic() >= until || stopped.signal.aborted)
        throw new CommandError(`It is not over yet and goes on: see longshore endpoints show ${endpointId}.`)
      await pause(clock, LOOK_EVERY_MS, stopped.signal)
    }
  } finally {
    stop.release()
  }
}
