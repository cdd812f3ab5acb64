// This package as npm packs it: built anew, beside the checkout's own build,
// which other tests run.

import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))

export interface Packed {
  tarball: string
  /** Its files, by their paths in the package. */
  files: string[]
}

/** Left over in the build of the checkout that is packed. */
export const STALE = 'dist/gone.js'

const SOURCES = [
  'package.json',
  'README.md',
  'docs',
  'src',
  'templates',
  'tsconfig.json',
  'tsconfig.build.json',
]

/** Copies the checkout into an empty folder, with an old build in it, and packs it there by the package's own scripts. */
export async function pack(dir: string): Promise<Packed> {
  for (const name of SOURCES) cpSync(join(root, name), join(dir, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(dir, 'node_modules'))
  mkdirSync(join(dir, 'dist'))
  for (const name of [STALE, `${STALE}.map`]) writeFileSync(join(dir, name), '')
  const { stdout } = await run('npm', ['pack', '--json'], { cwd: dir })
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }]
  return { tarball: join(dir, packed.filename), files: packed.files.map(({ path }) => path) }
}

/** Installs it in an empty folder with the package.json of `npm init -y`, with what its README has a handler import and Node's types; from npm's cache where it can. */
export async function install({ tarball }: Packed, dir: string): Promise<void> {
  // As npm 11 writes it; earlier ones leave out the type, which changes nothing for an ES module.
  const made = { name: 'handlers', version: '1.0.0', main: 'index.js', license: 'ISC', type: 'commonjs' }
  writeFileSync(join(dir, 'package.json'), JSON.stringify(made, undefined, 2))
  const quiet = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund']
  const packages = [tarball, 'zod', `@types/node@${versionOf('@types/node')}`]
  await run('npm', ['install', ...quiet, ...packages], { cwd: dir, timeout: 100_000 })
}

function versionOf(name: string): string {
  const file = join(root, 'node_modules', name, 'package.json')
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
