// longshore init: writes a starter from a template.

import { cpSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { didYouMean } from '../config/did-you-mean.ts'
import { CommandError } from './fail.ts'

const packageRoot = fileURLToPath(new URL('../..', import.meta.url))
const templatesDir = join(packageRoot, 'templates')
const DEFAULT = 'hello'

/** Written here: npm leaves files of that name out of a package. */
const GITIGNORE = 'node_modules\n.env*\n.npmrc\n*.pem\n*.key\nqueue.db*\n'

/**
 * Copies a template into a folder that is new or empty, named like it by default, and says how to go on. Without a
 * template it asks on a terminal, and takes `hello` elsewhere. Installs nothing.
 */
export async function init(given: string | undefined, givenDir: string | undefined): Promise<void> {
  const known = knownTemplates()
  const template = given ?? (isOnTerminal() ? await ask(known) : DEFAULT)
  if (!known.includes(template)) {
    throw new CommandError(
      `There is no template '${template}'. Choose one of ${known.join(', ')}.${didYouMean(template, known)}`,
    )
  }
  const dir = givenDir ?? template
  const target = resolve(dir)
  if (dir === '')
    throw new CommandError(`A folder must have a name. Give one: longshore init ${template} <dir>.`)
  if (existsSync(target) && !statSync(target).isDirectory())
    throw new CommandError(`${dir} is a file. Name a folder: longshore init ${template} <dir>.`)
  if (existsSync(target) && readdirSync(target).length > 0) {
    throw new CommandError(`The folder ${dir} is not empty. Name another: longshore init ${template} <dir>.`)
  }
  copy(template, target, dir)
  writeFileSync(join(target, '.gitignore'), GITIGNORE)
  pointAtThisPackage(target)
  const { scripts } = readManifest(target)
  const shown = relative(process.cwd(), target)
  const install = shown === '' ? 'npm install' : `cd ${quoted(shown)} && npm install`
  // One that needs something beside it brings a script that starts both.
  const run = scripts['try'] === undefined ? 'npx longshore run handler.ts' : 'npm run try'
  process.stdout.write(`Wrote ${template} to ${shown || '.'}. Next:\n\n  ${install}\n  ${run}\n`)
}

function copy(template: string, target: string, dir: string): void {
  try {
    cpSync(join(templatesDir, template), target, { recursive: true })
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new CommandError(`The folder ${dir} cannot be written: ${why}. Name another.`, { cause })
  }
}

function knownTemplates(): string[] {
  return readdirSync(templatesDir, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .toSorted()
}

function isOnTerminal(): boolean {
  return process.stdin.isTTY && process.stdout.isTTY
}

async function ask(known: readonly string[]): Promise<string> {
  const { default: select } = await import('@inquirer/select')
  const choices = known.map((value) => {
    const description = readManifest(join(templatesDir, value)).description
    return { value, name: value, description }
  })
  try {
    return await select({ message: 'Which template?', choices, default: DEFAULT, loop: false })
  } catch (cause) {
    if (cause instanceof Error && cause.name === 'ExitPromptError')
      throw new CommandError('No template was chosen: nothing was written.', { cause })
    throw cause
  }
}

const manifestSchema = z.looseObject({
  description: z.string(),
  scripts: z.record(z.string(), z.string()),
  dependencies: z.record(z.string(), z.string()),
})

function readManifest(dir: string): z.output<typeof manifestSchema> {
  return manifestSchema.parse(JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8')))
}

/** A starter depends on the checkout or the archive that this package is from, or on what is published. */
function pointAtThisPackage(dir: string): void {
  const from = installedFrom()
  if (from === undefined) return
  const manifest = readManifest(dir)
  manifest.dependencies['longshore'] = `file:${from}`
  writeFileSync(join(dir, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
}

const parentSchema = z.looseObject({ dependencies: z.record(z.string(), z.string()).default({}) })

function installedFrom(): string | undefined {
  const [parent, rest] = packageRoot.split('/node_modules/longshore/')
  if (rest === undefined) return packageRoot.replace(/\/$/, '')
  const file = join(parent ?? '', 'package.json')
  if (!existsSync(file)) return undefined
  const { dependencies } = parentSchema.parse(JSON.parse(readFileSync(file, 'utf8')))
  const path = /^file:(.+)$/.exec(dependencies['longshore'] ?? '')?.[1]
  return path === undefined ? undefined : resolve(parent ?? '', path)
}

/** As a shell takes it for one word. */
function quoted(path: string): string {
  // With a dash before it it would be an option of cd.
  if (path.startsWith('-')) return quoted(`./${path}`)
  return /^[\w./@+-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`
}
