// Whether a worker can have its live socket where it is to be.

import { accessSync, constants, lstatSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { problem, type Finding } from '../../lib/finding.ts'

/** `origin` is the place where the path was said. A socket that is there is that of a worker, or is replaced by the next. */
export function examineLiveSocket(path: string, origin: string): Finding[] {
  const folder = dirname(resolve(path))
  try {
    accessSync(folder, constants.W_OK | constants.X_OK)
    const found = lstatSync(path, { throwIfNoEntry: false })
    if (!found || found.isSocket()) return []
    return [
      problem(`There is something at ${path} that is no socket. Remove it, or set ${origin} to another.`),
    ]
  } catch (cause) {
    const why = (cause as NodeJS.ErrnoException).code ?? String(cause)
    return [
      problem(
        `No worker can have its live socket in ${folder} (${why}). Make that a folder which its user may write, or set ${origin} to another.`,
      ),
    ]
  }
}
