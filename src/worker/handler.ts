// Finding, importing and checking the author's handler file. Runs in the child.

import { existsSync, readFileSync, statSync } from 'node:fs'
import { registerHooks, stripTypeScriptTypes } from 'node:module'
import { join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { StartFailureCode } from '../protocol/errors.ts'
import type { HandlerDefinition, HandlerFunction } from './define-handler.ts'

/** Why a handler file cannot be used; the message ends with the likely mend. */
export class HandlerLoadError extends Error {
  readonly code: StartFailureCode

  constructor(code: StartFailureCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

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
  resolveOwnPackages()
  let module: Record<string, unknown>
  try {
    module = await importFile(file)
  } catch (cause) {
    throw importFailed(file, cause)
  }
  const exported = defaultOf(module)
  if (typeof exported === 'function') return { handler: exported as HandlerFunction }
  if (isDefinition(exported)) return exported
  throw notExported(file, module, exported)
}

// A starter runs before anything is installed beside it: what it cannot find itself comes from this package.
function resolveOwnPackages(): void {
  const extension = import.meta.filename.endsWith('.ts') ? 'ts' : 'js'
  const own = new Map([
    ['longshore', new URL(`../index.${extension}`, import.meta.url).href],
    ['longshore/client', new URL(`../client/client.${extension}`, import.meta.url).href],
  ])
  registerHooks({
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
  const exported = module['default'] ?? module['handler']
  // CommonJS compiled from ESM carries its own default inside.
  const isWrapped =
    typeof exported === 'object' && exported !== null && '__esModule' in exported && 'default' in exported
  return isWrapped ? exported.default : exported
}

function isDefinition(value: unknown): value is HandlerDefinition {
  return (
    typeof value === 'object' && value !== null && 'handler' in value && typeof value.handler === 'function'
  )
}

function notExported(file: string, module: Record<string, unknown>, exported: unknown): HandlerLoadError {
  const names = Object.keys(module).filter((name) => name !== 'default')
  const lookalike = names.find((name) => typeof module[name] === 'function')
  const found =
    exported === undefined
      ? `it has no default export${names.length > 0 ? ` (it exports ${names.join(', ')})` : ''}`
      : `its default export is ${exported === null ? 'null' : `a ${typeof exported}`}, not a function or a definition`
  const mend = lookalike
    ? `Did you mean "export default ${lookalike}"?`
    : 'Add "export default async function handler(job) { … }".'
  return new HandlerLoadError('HANDLER_NOT_EXPORTED', `Cannot load ${shown(file)}: ${found}. ${mend}`)
}

function importFailed(file: string, cause: unknown): HandlerLoadError {
  const message = cause instanceof Error ? `${cause.name}: ${firstLine(cause.message)}` : String(cause)
  const place = cause instanceof Error ? placeIn(cause, file) : undefined
  const where = place ? ` at ${place}` : ''
  return new HandlerLoadError(
    'HANDLER_IMPORT_FAILED',
    `Cannot load ${shown(file)}: ${message}${where}. ${mendFor(cause)}`,
    { cause },
  )
}

function mendFor(cause: unknown): string {
  if (isMissingPackage(cause)) {
    const name = /Cannot find package '([^']+)'/.exec(cause instanceof Error ? cause.message : '')?.[1]
    return `Install it beside the handler: npm install ${name ?? ''}`.trimEnd() + '.'
  }
  if (codeOf(cause) === 'ERR_MODULE_NOT_FOUND') return 'Check the path of that import.'
  if (cause instanceof SyntaxError) return 'Mend the syntax there.'
  return 'Mend what its top level does; work that may fail belongs in setup() or the handler.'
}

function isMissingPackage(cause: unknown): boolean {
  return (
    codeOf(cause) === 'ERR_MODULE_NOT_FOUND' &&
    cause instanceof Error &&
    cause.message.startsWith('Cannot find package')
  )
}

/** `file:line` of the author's code in an error, as far as the engine tells. */
function placeIn(error: Error, file: string): string | undefined {
  for (const line of (error.stack ?? '').split('\n')) {
    const frame = /(?:^|[\s(])(?:file:\/\/)?(\/[^\s():]+):(\d+)/.exec(line)
    if (frame?.[1] && !frame[1].startsWith(RUNTIME_DIR)) return `${shown(frame[1])}:${frame[2]}`
  }
  return error instanceof SyntaxError ? syntaxPlace(file) : undefined
}

const RUNTIME_DIR = import.meta.dirname

/** The engine does not say where JavaScript breaks off; the parser of its type stripping does. */
function syntaxPlace(file: string): string | undefined {
  try {
    stripTypeScriptTypes(readFileSync(file, 'utf8'))
    return undefined
  } catch (cause) {
    const line = cause instanceof Error ? /^:(\d+)/.exec(cause.stack ?? '')?.[1] : undefined
    return line === undefined ? undefined : `${shown(file)}:${line}`
  }
}

function shown(file: string): string {
  const fromHere = relative(process.cwd(), file)
  return fromHere.startsWith('..') ? file : fromHere
}

function firstLine(text: string): string {
  return (text.split('\n', 1)[0] ?? text).replace(/\.$/, '')
}

function codeOf(cause: unknown): string {
  return typeof cause === 'object' && cause !== null && 'code' in cause ? String(cause.code) : ''
}
