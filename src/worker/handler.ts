// Finding, importing and checking the author's handler file. Runs in the child.

import { existsSync, statSync } from 'node:fs'
import { createRequire, registerHooks, type ModuleHooks } from 'node:module'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { limits } from '../job/limits.ts'
import type { HandlerDefinition, HandlerFunction } from './define-handler.ts'
import { missOf, type ImportMiss } from './import-miss.ts'
import { isOfDecorator, writtenAsModule } from './module-syntax.ts'
import { isSpillOptions } from './spill.ts'
import {
  codeOf,
  definitionInvalid,
  HandlerLoadError,
  isCallable,
  importFailed,
  isMissingPackage,
  notExported,
} from './load-failure.ts'

/** The runtime itself is no part of the author's code. */
const OWN = fileURLToPath(new URL('..', import.meta.url))

const EXTENSIONS = ['.ts', '.mts', '.cts', '.tsx', '.js', '.mjs', '.cjs']

/** The file that a path means: itself, with an extension, or the handler or index of a folder. */
export function findHandlerFile(path: string): string {
  const base = resolve(path)
  const isFolder = existsSync(base) && statSync(base).isDirectory()
  const stems = isFolder ? [join(base, 'handler'), join(base, 'index')] : [base]
  const candidates = isFolder ? [] : [base]
  for (const stem of stems) candidates.push(...EXTENSIONS.map((extension) => stem + extension))
  const found = candidates.find((file) => existsSync(file) && statSync(file).isFile())
  if (found) return found
  const tried = isFolder
    ? 'a handler.ts, handler.js, index.ts or index.js in it'
    : `${path} and ${path} with ${EXTENSIONS.join(', ')}`
  throw new HandlerLoadError(
    'HANDLER_NOT_FOUND',
    `There is no handler at ${path}: looked for ${tried}. Check the path, or write a starter with "longshore init".`,
  )
}

/**
 * Imports a file that is no handler as handlers are imported: its TypeScript, and this package where it is not installed
 * beside it. Throws HandlerLoadError.
 */
export async function loadAuthored(file: string): Promise<unknown> {
  const trail = newTrail()
  const hooks = installHooks(trail)
  try {
    return defaultOf(await importFile(file, trail))
  } catch (cause) {
    throw importFailed(file, cause, trail)
  } finally {
    hooks.deregister()
  }
}

/** Told of every file of the author's that is loaded, also later on, and of folders in which an import looked in vain. */
export interface ImportWatch {
  loads(file: string): void
  misses(folder: string): void
}

/** Imports the file and gives its handler. Throws HandlerLoadError. */
export async function loadHandler(file: string, watch?: ImportWatch): Promise<HandlerDefinition> {
  const trail = newTrail()
  installHooks(trail, watch)
  let module: Record<string, unknown>
  try {
    module = await importFile(file, trail)
  } catch (cause) {
    throw importFailed(file, cause, trail)
  }
  if (watch) watchRequired(watch, trail)
  const exported = defaultOf(module)
  if (isCallable(exported)) return { handler: exported as HandlerFunction }
  if (typeof exported === 'object' && exported !== null && 'handler' in exported)
    return checkedDefinition(file, exported)
  throw notExported(file, module, exported)
}

/** What tsx requires comes by no hook. */
function watchRequired(watch: ImportWatch, { loaded }: Trail): void {
  for (const key of Object.keys(createRequire(import.meta.url).cache)) {
    const file = key.replace(/\?.*$/, '')
    const isOwn = isAbsolute(file) && !file.includes('/node_modules/') && !file.startsWith(OWN)
    if (isOwn && !loaded.has(file)) watch.loads(file)
  }
}

/** A handler may go on to look for what is not there as long as it lives. */
const MOST_MISSES = 100

interface Trail {
  loaded: Set<string>
  /** From here on it is for tsx to tell what is a module. */
  isForTsx: boolean
  misses: ImportMiss[]
}

function newTrail(): Trail {
  return { loaded: new Set(), isForTsx: false, misses: [] }
}

/** Notes the files that are loaded, and resolves this package for those who cannot find it. */
function installHooks(trail: Trail, watch?: ImportWatch): ModuleHooks {
  const { loaded, misses } = trail
  const extension = import.meta.filename.endsWith('.ts') ? 'ts' : 'js'
  const own = new Map([
    ['longshore', new URL(`../index.${extension}`, import.meta.url).href],
    ['longshore/client', new URL(`../client/client.${extension}`, import.meta.url).href],
    ['longshore/testing', new URL(`../testing/test-worker.${extension}`, import.meta.url).href],
  ])
  return registerHooks({
    load(url, context, next) {
      if (url.startsWith('file:') && !url.includes('/node_modules/')) {
        const file = fileURLToPath(url)
        loaded.add(file)
        // Before it is read: what is saved in between has to count as another version.
        if (!file.startsWith(OWN)) watch?.loads(file)
        const written = trail.isForTsx ? undefined : writtenAsModule(url, context)
        if (written) return written
      }
      return next(url, context)
    },
    // A starter runs before anything is installed beside it: what it cannot find itself comes from here.
    resolve(specifier, context, next) {
      try {
        return next(specifier, context)
      } catch (cause) {
        const url = own.get(specifier)
        if (url)
          return { url, format: extension === 'ts' ? 'module-typescript' : 'module', shortCircuit: true }
        if (specifier === 'zod') return next(specifier, { ...context, parentURL: import.meta.url })
        if (watch) for (const folder of searchedFor(specifier, context.parentURL)) watch.misses(folder)
        const miss = missOf(specifier, context.parentURL, cause)
        if (miss) misses.push(miss)
        if (misses.length > MOST_MISSES) misses.shift()
        throw cause
      }
    },
  })
}

/** Where a thing would have to appear for this import to succeed: folders that exist. */
function searchedFor(specifier: string, parentUrl: string | undefined): string[] {
  if (!parentUrl?.startsWith('file:')) return []
  const importer = dirname(fileURLToPath(parentUrl))
  if (/^(?:\.|\/|file:)/.test(specifier)) {
    const wanted = specifier.startsWith('file:') ? fileURLToPath(specifier) : resolve(importer, specifier)
    return [existingFolder(dirname(wanted))]
  }
  // A package comes into a node_modules of this folder or one above, and the folder of a scope into that.
  const above: string[] = []
  for (let folder = importer; folder !== dirname(folder); folder = dirname(folder)) above.push(folder)
  return above
    .flatMap((folder) => {
      const modules = [join(folder, 'node_modules', dirname(specifier)), join(folder, 'node_modules')]
      return modules.filter((one) => existsSync(one))
    })
    .concat(importer)
}

function existingFolder(folder: string): string {
  return existsSync(folder) || folder === dirname(folder) ? folder : existingFolder(dirname(folder))
}

/** What Node's own type stripping cannot do, and tsx can. */
const NEEDS_TSX = new Set([
  'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX',
  'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING',
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_MODULE_NOT_FOUND',
  'ERR_UNSUPPORTED_DIR_IMPORT',
])

async function importFile(file: string, trail: Trail): Promise<Record<string, unknown>> {
  const url = pathToFileURL(file).href
  try {
    return (await import(url)) as Record<string, unknown>
  } catch (cause) {
    const isForTsx =
      (NEEDS_TSX.has(codeOf(cause)) && !isMissingPackage(cause)) || isOfDecorator(cause, trail.loaded)
    if (!/\.[mc]?tsx?$/.test(file) || !isForTsx) throw cause
    trail.isForTsx = true
    // tsx costs about 300 ms, so only files that need it pay for it.
    const { tsImport } = await import('tsx/esm/api')
    return (await tsImport(url, import.meta.url)) as Record<string, unknown>
  }
}

function defaultOf(module: Record<string, unknown>): unknown {
  const exported = 'default' in module ? module['default'] : module['handler']
  // CommonJS compiled from ESM carries its own default inside.
  const isWrapped =
    typeof exported === 'object' && exported !== null && '__esModule' in exported && 'default' in exported
  return isWrapped ? exported.default : exported
}

interface Rule {
  mustBe: string
  isMet: (value: unknown) => boolean
}

const flag: Rule = { mustBe: 'true or false', isMet: (value) => typeof value === 'boolean' }

/** What each field may be; types do not keep anybody from writing plain JavaScript. How large a number is comes later. */
const RULES: Record<keyof HandlerDefinition, Rule> = {
  handler: { mustBe: 'a function', isMet: isCallable },
  input: {
    mustBe: 'a schema: one of zod, or any other Standard Schema',
    isMet: (value) => {
      const isHolder = (typeof value === 'object' && value !== null) || typeof value === 'function'
      return isHolder && '~standard' in value
    },
  },
  setup: { mustBe: 'a function', isMet: isCallable },
  concurrency: {
    mustBe: 'a number or a function',
    isMet: (value) => typeof value === 'number' || isCallable(value),
  },
  refresh: flag,
  aggregateStream: flag,
  spill: {
    mustBe: `true, false or { overBytes } with a number from 0 to ${limits.outputBytes}`,
    isMet: (value) => typeof value === 'boolean' || isSpillOptions(value),
  },
}

function checkedDefinition(file: string, definition: object): HandlerDefinition {
  for (const [field, { mustBe, isMet }] of Object.entries(RULES)) {
    const value: unknown = Reflect.get(definition, field)
    const isLeftOut = value === undefined && field !== 'handler'
    if (!isLeftOut && !isMet(value)) throw definitionInvalid(file, { field, mustBe, value })
  }
  return definition as HandlerDefinition
}
