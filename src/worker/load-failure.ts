// Why a handler file could not be used, in words that end with the likely mend.

import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { basename, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { StartFailureCode } from '../protocol/errors.ts'
import { brokenCommonJs } from './broken-commonjs.ts'
import { missOfAttribute, packageOfMiss, placeOfMiss, type ImportMiss } from './import-miss.ts'
import { brokenJson } from './json-place.ts'
import type { SourcePlace } from './messages.ts'
import { isModuleInCommonJs } from './module-syntax.ts'

/** Why a handler file cannot be used; the message ends with the likely mend. */
export class HandlerLoadError extends Error {
  readonly code: StartFailureCode
  /** The line to be mended, where that is known. */
  readonly place: SourcePlace | undefined

  constructor(code: StartFailureCode, message: string, options: ErrorOptions & { place?: SourcePlace } = {}) {
    super(message, options)
    this.code = code
    this.place = options.place
  }
}

/** The file was imported, and there is nothing in it to call. */
export function notExported(
  file: string,
  module: Record<string, unknown>,
  exported: unknown,
): HandlerLoadError {
  const names = Object.keys(module).filter((name) => name !== 'default' && name !== 'module.exports')
  const lookalike = names.find((name) => isCallable(module[name]))
  const found = exportsNothing(exported, module)
    ? isBlank(file)
      ? 'it is empty'
      : 'it exports nothing'
    : exported === undefined
      ? `it has no default export${names.length > 0 ? ` (it exports ${names.join(', ')})` : ''}`
      : `its default export is ${kindOf(exported)}, not a function or a definition`
  const mend = lookalike
    ? `Did you mean "export default ${lookalike}"?`
    : 'Add "export default async function handler(job) { … }".'
  return new HandlerLoadError('HANDLER_NOT_EXPORTED', `Cannot load ${shown(file)}: ${found}. ${mend}`)
}

/** A file without any import or export is taken for CommonJS, which exports an object whether or not it puts something there. */
function exportsNothing(exported: unknown, module: Record<string, unknown>): boolean {
  if (!('module.exports' in module) || typeof exported !== 'object' || exported === null) return false
  return module['module.exports'] === exported && Object.keys(exported).length === 0
}

function isBlank(file: string): boolean {
  try {
    return readFileSync(file, 'utf8').trim() === ''
  } catch {
    // It has been taken away again.
    return false
  }
}

/** A field of the definition is of a type that it cannot be. */
export function definitionInvalid(
  file: string,
  { field, mustBe, value }: { field: string; mustBe: string; value: unknown },
): HandlerLoadError {
  const isShown = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
  const got = isShown ? `the ${typeof value} ${JSON.stringify(value).slice(0, 80)}` : kindOf(value)
  return new HandlerLoadError(
    'DEFINITION_INVALID',
    `Cannot load ${shown(file)}: '${field}' of its definition must be ${mustBe}, got ${got}. Mend it, or leave it out where it is not needed.`,
  )
}

/** A function that is no class: a class is one too, and throws when it is called. */
export function isCallable(value: unknown): boolean {
  return typeof value === 'function' && !/^class\b/.test(Function.prototype.toString.call(value))
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (value === undefined) return 'nothing'
  if (typeof value === 'function') return isCallable(value) ? 'a function' : 'a class'
  return `${typeof value === 'object' ? 'an' : 'a'} ${typeof value}`
}

/** What is known of a load besides what it threw. */
export interface LoadTrail {
  /** The files that were read for it, the latest last. */
  loaded: Iterable<string>
  /** The imports that found nothing. */
  misses: readonly ImportMiss[]
}

/** Importing the file threw. */
export function importFailed(file: string, thrown: unknown, { loaded, misses }: LoadTrail): HandlerLoadError {
  const hidden = brokenCommonJs(thrown, frameOf(thrown))
  const cause = hidden?.cause ?? thrown
  const miss = misses.find((one) => one.cause === cause) ?? missOfAttribute(cause, loaded)
  const json = brokenJson(cause)
  const isSyntax = hidden !== undefined || isSyntaxOfAFile(cause)
  const place = hidden ? hidden.place : miss ? placeOfMiss(miss) : json ? json.place : frameOf(cause)
  const broken = place ?? (isSyntax ? brokenFile([...loaded]) : undefined)
  const where = broken
    ? ` at ${shown(broken.file)}:${broken.line}`
    : miss
      ? `, which ${shown(miss.importer)} imports`
      : json
        ? ` in ${shown(json.file)}`
        : ''
  const what = json ? `SyntaxError: ${json.message.replaceAll(/\s*\n\s*/g, ' ')}` : textOf(cause, miss)
  const mend = json ? 'Mend the JSON there.' : mendFor(cause, { isSyntax, miss, broken })
  return new HandlerLoadError(
    'HANDLER_IMPORT_FAILED',
    `Cannot load ${shown(file)}: ${what}${where}. ${mend}`,
    { cause, ...(broken && { place: broken }) },
  )
}

/** Its setup() threw what `message` says. */
export function setupFailed(path: string, message: string, cause: unknown): HandlerLoadError {
  const place = frameOf(cause)
  const where = place ? ` at ${shown(place.file)}:${place.line}` : ''
  return new HandlerLoadError(
    'SETUP_FAILED',
    `setup() of ${path} failed: ${message.replace(/\.$/, '')}${where}. Mend it, then start again.`,
    { cause, ...(place && { place }) },
  )
}

function textOf(cause: unknown, miss: ImportMiss | undefined): string {
  if (!(cause instanceof Error)) return String(cause)
  // It quotes the text, which may have several lines.
  const isOfJson = cause instanceof SyntaxError && cause.message.endsWith(' is not valid JSON')
  const line = firstLine(isOfJson ? cause.message.replaceAll(/\s*\n\s*/g, ' ') : cause.message)
  // Who asked is told with the line.
  return `${cause.name}: ${miss ? line.replace(/ imported from .*$/, '') : line}`
}

interface Blame {
  isSyntax: boolean
  miss: ImportMiss | undefined
  broken: SourcePlace | undefined
}

function mendFor(cause: unknown, { isSyntax, miss, broken }: Blame): string {
  const isMissing = codeOf(cause) === 'ERR_MODULE_NOT_FOUND' || codeOf(cause) === 'MODULE_NOT_FOUND'
  const name = miss && isMissing ? packageOfMiss(miss) : undefined
  if (name !== undefined) return `Install it beside the handler: npm install ${name}.`
  if (codeOf(cause) === 'ERR_IMPORT_ATTRIBUTE_MISSING')
    return "Write with { type: 'json' } behind that import."
  if (miss || isMissing) return 'Check the path of that import.'
  const unexported = unexportedIn(cause)
  if (unexported) return mendOfName(unexported)
  if (isSyntax && broken && isModuleInCommonJs(broken.file, cause))
    return `Its extension says CommonJS: name it ${basename(broken.file).replace(/c([jt]s)$/, 'm$1')}, or write require() and module.exports.`
  if (isSyntax) return 'Mend the syntax there.'
  return 'Mend what its top level does; work that may fail belongs in setup() or the handler.'
}

interface Unexported {
  name: string
  from: string
}

/** A name that is imported from what does not export it, as Node says it of a module, and of one in CommonJS. */
function unexportedIn(cause: unknown): Unexported | undefined {
  if (!(cause instanceof SyntaxError)) return undefined
  const { message } = cause
  const plain = /^The requested module '(.+)' does not provide an export named '(.+)'/.exec(message)
  if (plain) return { from: plain[1] ?? '', name: plain[2] ?? '' }
  const inCommonJs = /^Named export '(.+)' not found\. The requested module '(.+)' is a CommonJS/.exec(
    message,
  )
  return inCommonJs ? { name: inCommonJs[1] ?? '', from: inCommonJs[2] ?? '' } : undefined
}

function mendOfName({ name, from }: Unexported): string {
  if (name === 'default') return `Import what '${from}' exports by its name, in braces.`
  const isFile = /^(?:\.|\/|file:)/.test(from)
  const ofDefault = `import its default and take ${name} from that`
  const other = /\.(?:c[jt]s|json)$/.test(from)
    ? `, or ${ofDefault}`
    : isFile
      ? ', or export it there'
      : /^(?:node:|longshore\b)/.test(from)
        ? ''
        : `, or where '${from}' is CommonJS, ${ofDefault}`
  return `Mend the name${other}; a type is imported with "import type".`
}

/** Whether the engine could not read a file, as opposed to a SyntaxError that running code threw. */
function isSyntaxOfAFile(cause: unknown): cause is SyntaxError {
  if (!(cause instanceof Error)) return false
  if (codeOf(cause) === 'ERR_INVALID_TYPESCRIPT_SYNTAX') return true
  return (
    cause instanceof SyntaxError && /compileSourceTextModule|wrapSafe|_instantiate/.test(cause.stack ?? '')
  )
}

export function isMissingPackage(cause: unknown): boolean {
  return (
    codeOf(cause) === 'ERR_MODULE_NOT_FOUND' &&
    cause instanceof Error &&
    cause.message.startsWith('Cannot find package')
  )
}

/** The innermost frame in the author's code. */
export function frameOf(cause: unknown): SourcePlace | undefined {
  if (!(cause instanceof Error)) return undefined
  for (const line of (cause.stack ?? '').split('\n')) {
    const frame = /(?:^|[\s(])((?:file:\/\/)?\/[^\s():]+):(\d+)/.exec(line)
    if (!frame?.[1]) continue
    const file = frame[1].startsWith('file:') ? fileURLToPath(frame[1]) : frame[1]
    if (!file.startsWith(import.meta.dirname) && !file.includes('/node_modules/'))
      return { file, line: Number(frame[2]) }
  }
  return undefined
}

/** The engine does not say where JavaScript breaks off; the parser of its type stripping does. */
function brokenFile(loaded: readonly string[]): SourcePlace | undefined {
  for (const file of loaded.toReversed()) {
    try {
      stripTypeScriptTypes(readFileSync(file, 'utf8'))
    } catch (cause) {
      const line = cause instanceof Error ? /^:(\d+)/.exec(cause.stack ?? '')?.[1] : undefined
      if (line !== undefined) return { file, line: Number(line) }
    }
  }
  return undefined
}

function shown(file: string): string {
  const fromHere = relative(process.cwd(), file)
  return fromHere.startsWith('..') ? file : fromHere
}

function firstLine(text: string): string {
  return (text.split('\n', 1)[0] ?? text).replace(/\.$/, '')
}

export function codeOf(cause: unknown): string {
  return typeof cause === 'object' && cause !== null && 'code' in cause ? String(cause.code) : ''
}
