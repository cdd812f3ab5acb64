// Whether a path leads into a folder, told by the paths alone.

import { isAbsolute, relative, sep } from 'node:path'

/** Also of the folder itself. */
export function isWithin(folder: string, file: string): boolean {
  const path = relative(folder, file)
  return path !== '..' && !path.startsWith(`..${sep}`) && !isAbsolute(path)
}
