// Why a handler file could not be used, in words that end with the likely mend.

import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { relative } from 'node:path'
import type { StartFailureCode } from '../protocol/errors.ts'

/** Why a handler file cannot be used; the message ends with the likely mend. */
export class HandlerLoadError extends Error {
  readonly code: StartFailureCode

  constructor(code: StartFailureCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** The file was imported, and there is nothing in it to call. */
export function notExported(
  file: string,
  module: Record<string, unknown>,
  exported: unknown,
): HandlerLoadError {
  const names = Object.keys(module).filter((name) => name !== 'default')
  const lookalike = names.find((name) => isCallable(module[name]))
  const found =
    exported === undefined
      ? `it has no default export${names.length > 0 ? ` (it exports ${names.join(', ')})` : ''}`
      : `its default export is ${kindOf(exported)}, not a function or a definition`
  const mend = lookalike
    ? `Did you mean "export default ${lookalike}"?`
    : 'Add "export default async function handler(job) { … }".'
  return new HandlerLoadError('HANDLER_NOT_EXPORTED', `Cannot load ${shown(file)}: ${found}. ${mend}`)
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

/** Importing the file threw. `loaded` are the files that were read for it, the latest last. */
export function importFailed(file: string, cause: unknown, loaded: readonly string[]): HandlerLoadError {
  const message = cause instanceof Error ? `${cause.name}: ${firstLine(cause.message)}` : String(cause)
  const isSyntax = isSyntaxOfAFile(cause)
  const place = isSyntax ? (frameOf(cause) ?? brokenFile(loaded)) : frameOf(cause)
  const where = place ? ` at ${place}` : ''
  const mend = mendFor(cause, isSyntax)
  return new HandlerLoadError(
    'HANDLER_IMPORT_FAILED',
    `Cannot load ${shown(file)}: ${message}${where}. ${mend}`,
    { cause },
  )
}

function mendFor(cause: unknown, isSyntax: boolean): string {
  if (isMissingPackage(cause)) {
    const name = /Cannot find package '([^']+)'/.exec(cause instanceof Error ? cause.message : '')?.[1]
    return `${`Install it beside the handler: npm install ${name ?? ''}`.trimEnd()}.`
  }
  if (codeOf(cause) === 'ERR_MODULE_NOT_FOUND' || codeOf(cause) === 'MODULE_NOT_FOUND')
    return 'Check the path of that import.'
  if (isSyntax) return 'Mend the syntax there.'
  return 'Mend what its top level does; work that may fail belongs in setup() or the handler.'
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

/** `file:line` of the innermost frame in the author's code. */
function frameOf(cause: unknown): string | undefined {
  if (!(cause instanceof Error)) return undefined
  for (const line of (cause.stack ?? '').split('\n')) {
    const frame = /(?:^|[\s(])(?:file:\/\/)?(\/[^\s():]+):(\d+)/.exec(line)
    if (frame?.[1] && !frame[1].startsWith(import.meta.dirname) && !frame[1].includes('/node_modules/')) {
      return `${shown(frame[1])}:${frame[2]}`
    }
  }
  return undefined
}

/** The engine does not say where JavaScript breaks off; the parser of its type stripping does. */
function brokenFile(loaded: readonly string[]): string | undefined {
  for (const file of loaded.toReversed()) {
    try {
      stripTypeScriptTypes(readFileSync(file, 'utf8'))
    } catch (cause) {
      const line = cause instanceof Error ? /^:(\d+)/.exec(cause.stack ?? '')?.[1] : undefined
      if (line !== undefined) return `${shown(file)}:${line}`
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
