// Finding, importing and checking the author's handler file. Runs in the child.

import { existsSync, statSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { limits } from '../job/limits.ts'
import type { HandlerDefinition, HandlerFunction } from './define-handler.ts'
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

/** Imports the file and gives its handler. Throws HandlerLoadError. */
export async function loadHandler(file: string): Promise<HandlerDefinition> {
  const loaded = new Set<string>()
  installHooks(loaded)
  let module: Record<string, unknown>
  try {
    module = await importFile(file)
  } catch (cause) {
    throw importFailed(file, cause, [...loaded])
  }
  const exported = defaultOf(module)
  if (isCallable(exported)) return { handler: exported as HandlerFunction }
  if (typeof exported === 'object' && exported !== null && 'handler' in exported)
    return checkedDefinition(file, exported)
  throw notExported(file, module, exported)
}

/** Notes the files that are loaded, and resolves this package for those who cannot find it. */
function installHooks(loaded: Set<string>): void {
  const extension = import.meta.filename.endsWith('.ts') ? 'ts' : 'js'
  const own = new Map([
    ['longshore', new URL(`../index.${extension}`, import.meta.url).href],
    ['longshore/client', new URL(`../client/client.${extension}`, import.meta.url).href],
    ['longshore/testing', new URL(`../testing/test-worker.${extension}`, import.meta.url).href],
  ])
  registerHooks({
    load(url, context, next) {
      if (url.startsWith('file:') && !url.includes('/node_modules/')) loaded.add(fileURLToPath(url))
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
        throw cause
      }
    },
  })
}

/** What Node's own type stripping cannot do, and tsx can. */
const NEEDS_TSX = new Set([
  'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX',
  'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING',
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_MODULE_NOT_FOUND',
  'ERR_UNSUPPORTED_DIR_IMPORT',
])

async function importFile(file: string): Promise<Record<string, unknown>> {
  const url = pathToFileURL(file).href
  try {
    return (await import(url)) as Record<string, unknown>
  } catch (cause) {
    if (!/\.[mc]?tsx?$/.test(file) || !NEEDS_TSX.has(codeOf(cause)) || isMissingPackage(cause)) throw cause
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
