// A client of one server that goes on connecting until it is to end.

import { backoffMs } from '../../lib/backoff.ts'

/** A client that tells when it is ready, and when it has ended. */
interface Ending {
  connect(): Promise<void>
  on(event: 'end' | 'ready', listener: () => void): unknown
  off(event: 'end' | 'ready', listener: () => void): unknown
}

const AGAIN = { baseMs: 50, maxMs: 1_000 }

/**
 * The library gives a connection up for good where sentinels name another master while it asks them for the address. It
 * is begun anew here. What this returns ends that, and is to be called before the client is closed.
 */
export function keepConnected(client: Ending): () => void {
  let failed = 0
  let again: NodeJS.Timeout | undefined
  const connect = (): void => {
    // What it fails with is told as an error of the client, and it tries again by itself, or ends once more.
    client.connect().catch(() => undefined)
  }
  const onEnd = (): void => {
    failed += 1
    again = setTimeout(connect, backoffMs(failed, AGAIN)).unref()
  }
  const onReady = (): void => void (failed = 0)
  client.on('end', onEnd)
  client.on('ready', onReady)
  return () => {
    clearTimeout(again)
    client.off('end', onEnd)
    client.off('ready', onReady)
  }
}
