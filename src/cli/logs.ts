// longshore logs: what a pod printed, and prints.

import { once } from 'node:events'
import type { Flags } from './sources.ts'
import { withService } from './service-link.ts'
import { stopSignal } from './stop-signal.ts'

export interface LogsOptions {
  follow?: boolean
  /** The last lines. */
  tail?: number
}

/** Ends with the pod, when it is told to stop, or when nobody reads on. */
export async function printLogs(
  flags: Flags,
  podId: string,
  { follow = false, tail }: LogsOptions,
): Promise<void> {
  const stop = stopSignal()
  const stopped = new AbortController()
  stop.onSignal(() => stopped.abort())
  const { stdout } = process
  stdout.once('error', () => stopped.abort())
  try {
    await withService('logs', flags, async ({ client }) => {
      for await (const bytes of client.logs(podId, { tail, follow, signal: stopped.signal })) {
        if (!stdout.write(bytes)) await once(stdout, 'drain', { signal: stopped.signal })
      }
    })
  } catch (cause) {
    if (!stopped.signal.aborted) throw cause
  } finally {
    stop.release()
  }
}
