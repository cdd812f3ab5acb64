// How much room there is.

import { statfsSync } from 'node:fs'

/** What this user may still write on the disk of a folder, bytes. */
export function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize
}

/** With less than this the next few large jobs fill the disk. */
export const LEAST_FREE_BYTES = 100_000_000
