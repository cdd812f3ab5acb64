// Names for what a job downloads or extracts, none of them taken.

import { stat } from 'node:fs/promises'
import { extname, join } from 'node:path'
import type { Scope } from './scope.ts'

/** A path in the folder where nothing is, and which no other call of this job goes to: `a.png`, else `a-2.png`. */
export async function freePath(scope: Scope, folder: string, name: string): Promise<string> {
  const extension = extname(name)
  const stem = name.slice(0, name.length - extension.length)
  for (let number = 1; ; number += 1) {
    const path = join(folder, number === 1 ? name : `${stem}-${number}${extension}`)
    if (scope.taken.has(path)) continue
    scope.taken.add(path)
    const isThere = await stat(path).then(
      () => true,
      () => false,
    )
    if (!isThere) return path
  }
}
