// Links that lead nowhere: a server that is about to go does not wait for what is owed to it there.

import { LateError, within } from './within.ts'

/** A client with one connection. */
export interface Link {
  readonly status: string
  readonly stream: { destroy(cause: Error): void }
  ping(): Promise<unknown>
}

/** How long one may be silent then. */
export const SILENT_MS = 1_000

/** Asks on each link, and ends those that do not answer: whatever else is owed there fails with it. */
export async function endSilentLinks(links: readonly Link[]): Promise<void> {
  await Promise.all(links.map(endIfSilent))
}

async function endIfSilent(link: Link): Promise<void> {
  // Nothing is owed where nobody has connected, and asking would.
  if (!['connecting', 'connect', 'ready'].includes(link.status)) return
  try {
    await within(SILENT_MS, link.ping())
  } catch (cause) {
    // Any other trouble was told to whoever is owed something.
    if (cause instanceof LateError) link.stream.destroy(cause)
  }
}
