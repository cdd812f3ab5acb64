// What a bundled handler gives.

import { execFileSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { bundleHandler } from '../../src/cli/bundle/bundle.ts'
import { writeImageFolder } from '../../src/cli/image-folder.ts'

/** What its function gives in the folder that its image is built from. */
export async function outputOf(file: string, include: string[] = []): Promise<unknown> {
  const bundle = await bundleHandler(file, { include })
  const folder = join(dirname(file), 'out')
  writeImageFolder(folder, { base: 'base', bundle, from: dirname(file), include })
  const code = `import handler from './handler.js'; console.log(JSON.stringify(await handler()))`
  const words = ['--input-type=module', '--eval', code]
  return JSON.parse(execFileSync(process.execPath, words, { cwd: folder, encoding: 'utf8', stdio: 'pipe' }))
}
