// One name for a queue file, whatever links lead to it: its lock, its log and its key lie beside that.

import { lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { StoreError } from '../store-error.ts'

const MAX_LINKS = 40

/** The absolute path that a file has or will have, links followed. Refuses what cannot be a queue file of its own. */
export function realFile(file: string): string {
  let path = resolve(file)
  for (let links = 0; links < MAX_LINKS; links += 1) {
    const found = lstatSync(path, { throwIfNoEntry: false })
    if (!found?.isSymbolicLink()) return checked(file, join(realpathSync(dirname(path)), basename(path)))
    // Also one that leads nowhere yet: opening it would make the file that it names.
    path = resolve(dirname(path), readlinkSync(path))
  }
  throw new StoreError(
    'STORE_UNREADABLE',
    `The store ${file} is a link that leads in a circle. Name the file itself.`,
  )
}

function checked(file: string, path: string): string {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found) return path
  if (!found.isFile()) {
    throw new StoreError(
      'STORE_UNREADABLE',
      `The store ${file} is no file. Name a queue file, or a new one, with --store sqlite:<file>.`,
    )
  }
  if (found.nlink > 1) {
    throw new StoreError(
      'STORE_UNREADABLE',
      `The store ${file} has a second name (a hard link), under which another server could open it unnoticed. Remove the other name.`,
    )
  }
  return path
}
