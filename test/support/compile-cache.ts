// What Node makes of the TypeScript of src, kept for the processes that the tests of one run start: hundreds of them read
// the same modules, and that is most of what they do. It goes with the run.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Each project has it called; the first call makes the folder, for all of them. */
export default function setUp(): (() => void) | undefined {
  if (process.env['NODE_COMPILE_CACHE'] !== undefined) return undefined
  const dir = mkdtempSync(join(tmpdir(), 'longshore-compile-cache-'))
  process.env['NODE_COMPILE_CACHE'] = dir
  return () => rmSync(dir, { recursive: true, force: true })
}
