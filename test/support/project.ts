// An author's project, in a folder of its own.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { temporaryDir } from './processes.ts'

/** A folder with these files, and packages in its node_modules. */
export function project(files: Record<string, string>): string {
  const dir = temporaryDir()
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(dir, path, '..'), { recursive: true })
    writeFileSync(join(dir, path), text)
  }
  return dir
}

export function packageFiles(name: string, version: string, code: string): Record<string, string> {
  const manifest = JSON.stringify({ name, version, main: 'index.js' })
  return { [`node_modules/${name}/package.json`]: manifest, [`node_modules/${name}/index.js`]: code }
}
