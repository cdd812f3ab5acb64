// Finding and reading longshore.config.ts.

import { existsSync, readFileSync, statSync } from 'node:fs'
import { extname, relative, resolve } from 'node:path'
import type { ConfigFile } from '../config/resolve.ts'
import { CommandError, StuckError } from './fail.ts'

const NAMES = ['longshore.config.ts', 'longshore.config.js', 'longshore.config.mjs']
const EXTENSIONS = ['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs']

/** Files of settings do no work; one that takes so long waits for what never comes. */
const LOAD_MS = 10_000

/**
 * The file that is named, or the one of the working directory where there is one. Throws CommandError, also when the file is not
 * loaded within `loadMs`.
 */
export async function readConfigFile(
  given: string | undefined,
  loadMs = LOAD_MS,
): Promise<ConfigFile | undefined> {
  const name = given ?? findConfigFile()
  if (name === undefined) return undefined
  const file = resolve(name)
  if (!existsSync(file)) throw new CommandError(`There is no config file ${name}. Check what --config names.`)
  if (statSync(file).isDirectory())
    throw new CommandError(`'${name}' is a folder, and --config names a file. Name the config file in it.`)
  if (!EXTENSIONS.includes(extname(file))) {
    throw new CommandError(
      `The config file ${name} is neither TypeScript nor JavaScript. Write it as one of ${EXTENSIONS.join(', ')}.`,
    )
  }
  return {
    name: relative(process.cwd(), file),
    values: settingsIn(name, file, await load(name, file, loadMs)),
  }
}

function findConfigFile(): string | undefined {
  const found = NAMES.filter((name) => existsSync(name))
  if (found.length > 1) {
    throw new CommandError(`There are ${found.join(' and ')}, and only one can count. Remove the others.`)
  }
  return found[0]
}

async function load(name: string, file: string, loadMs: number): Promise<unknown> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    reject(new StuckError(`${name} never finished loading: it took longer than ${loadMs} ms. ${MEND}`))
  }, loadMs)
  // Nothing else would say so: the process ends by itself while a command still waits for its settings.
  const onExit = (): void => {
    process.exitCode = 1
    process.stderr.write(`${name} never finished loading: the process ended before. ${MEND}\n`)
  }
  // A timer alone would keep it alive until then.
  timer.unref()
  process.once('exit', onExit)
  try {
    // Only where there is a file does a start pay for what reads it.
    const { loadAuthored } = await import('../worker/handler.ts')
    return await Promise.race([loadAuthored(file), late])
  } catch (cause) {
    throw cause instanceof StuckError ? cause : await loadProblem(name, cause)
  } finally {
    clearTimeout(timer)
    process.off('exit', onExit)
  }
}

const MEND = 'Take out what its top level waits for, and any process.exit().'

/** What a file of settings is told is not what a handler is. */
async function loadProblem(name: string, failure: unknown): Promise<unknown> {
  const { codeOf, HandlerLoadError, isMissingPackage } = await import('../worker/load-failure.ts')
  if (!(failure instanceof HandlerLoadError)) return failure
  const { cause, place } = failure
  const where = place ? ` at ${shown(place.file)}:${place.line}` : ''
  const mend = (): string => {
    if (isMissingPackage(cause)) {
      const missing = /Cannot find package '([^']+)'/.exec(wordsOf(cause))?.[1] ?? ''
      return `${`Install it beside the config file: npm install ${missing}`.trimEnd()}.`
    }
    if (/^(?:ERR_)?MODULE_NOT_FOUND$/.test(codeOf(cause))) return 'Check the path of that import.'
    return place ? 'Mend it there.' : 'Mend what its top level does.'
  }
  return new CommandError(`Cannot load ${name}: ${wordsOf(cause)}${where}. ${mend()}`, { cause })
}

function settingsIn(name: string, file: string, exported: unknown): Record<string, unknown> {
  if (!isPlain(exported) || (Object.keys(exported).length === 0 && !hasExport(file))) {
    throw new CommandError(
      `${name} has no default export that is an object of settings. Write it as export default defineConfig({ … }), with defineConfig from 'longshore'.`,
    )
  }
  try {
    // Read once and here: a getter may throw.
    return { ...exported }
  } catch (cause) {
    throw new CommandError(
      `Cannot read the settings of ${name}: ${wordsOf(cause)}. Write values instead of getters.`,
      { cause },
    )
  }
}

function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}

/** A file that exports nothing is CommonJS to Node, and then it has an object without keys for its default. */
function hasExport(file: string): boolean {
  return /\bexports?\b/.test(readFileSync(file, 'utf8'))
}

function wordsOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause)
  return `${cause.name}: ${(cause.message.split('\n', 1)[0] ?? '').replace(/\.$/, '')}`
}

function shown(file: string): string {
  const fromHere = relative(process.cwd(), file)
  return fromHere.startsWith('..') ? file : fromHere
}
