// Which content of a file somebody has seen.

import { statSync } from 'node:fs'

/** Changes with every save, also where an editor puts a new file in the place of the old one; for a folder, with its entries. */
export function versionOf(path: string): string {
  try {
    const { mtimeMs, size, ino } = statSync(path)
    return `${mtimeMs} ${size} ${ino}`
  } catch (cause) {
    // Gone, or out of reach: that it is so again later is no change.
    return (cause as NodeJS.ErrnoException).code ?? 'unreadable'
  }
}
