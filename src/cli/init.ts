// longshore init: writes a starter from a template.

import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CommandError } from './fail.ts'

const packageRoot = fileURLToPath(new URL('../..', import.meta.url))
const templatesDir = join(packageRoot, 'templates')

/** Copies a template into a folder that is new or empty, and says how to go on. */
export async function init(template: string, dir: string): Promise<void> {
  const known = readdirSync(templatesDir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
  if (!known.includes(template)) {
    throw new CommandError(`There is no template '${template}'. Choose one of ${known.join(', ')}.`)
  }
  const target = resolve(dir)
  if (existsSync(target) && readdirSync(target).length > 0) {
    throw new CommandError(`The folder ${dir} is not empty. Name another: longshore init ${template} <dir>.`)
  }
  cpSync(join(templatesDir, template), target, { recursive: true })
  const needsInstall = pointAtThisPackage(join(target, 'package.json'))
  const shown = relative(process.cwd(), target) || '.'
  process.stdout.write(`Wrote ${template} to ${shown}. Next:\n  cd ${shown}\n`)
  if (needsInstall) process.stdout.write('  npm install\n')
  process.stdout.write('  npx longshore run handler.ts\n')
}

/** A starter written from a checkout depends on that checkout. Answers whether it needs more than longshore brings. */
function pointAtThisPackage(file: string): boolean {
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as { dependencies: Record<string, string> }
  if (!packageRoot.includes('/node_modules/')) {
    manifest.dependencies['longshore'] = `file:${packageRoot.replace(/\/$/, '')}`
    writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`)
  }
  return true
}
