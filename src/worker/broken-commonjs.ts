// A CommonJS file that cannot be parsed, and whose importer is blamed: what it exports is guessed from its text before it is
// run, and of a broken text nothing is found.

import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { compileFunction } from 'node:vm'
import { stripTypeScriptTypes } from 'node:module'
import type { SourcePlace } from './messages.ts'

export interface BrokenCommonJs {
  cause: SyntaxError
  place: SourcePlace
}

/** Undefined for all but an import that misses a name of a file which does not parse. */
export function brokenCommonJs(
  cause: unknown,
  importer: SourcePlace | undefined,
): BrokenCommonJs | undefined {
  if (!(cause instanceof SyntaxError) || importer === undefined) return undefined
  const specifier = /requested module '(\.[^']*\.c?js)' (?:does not provide|is a CommonJS)/.exec(
    cause.message,
  )?.[1]
  if (specifier === undefined) return undefined
  const file = resolve(dirname(importer.file), specifier)
  try {
    const text = readFileSync(file, 'utf8')
    return parsesAsModule(text) ? undefined : breakIn(text, file)
  } catch {
    // It is gone by now: the importer is named.
    return undefined
  }
}

/** One that does has no fault of its own, whatever it does not export. */
function parsesAsModule(text: string): boolean {
  try {
    stripTypeScriptTypes(text)
    return true
  } catch {
    return false
  }
}

function breakIn(text: string, file: string): BrokenCommonJs | undefined {
  try {
    compileFunction(text, ['exports', 'require', 'module', '__filename', '__dirname'], { filename: file })
    return undefined
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause
    const line = Number(/:(\d+)\n/.exec(cause.stack ?? '')?.[1] ?? 1)
    // What comes to an end too early does so where there is something to be seen.
    return { cause, place: { file, line: Math.min(line, text.trimEnd().split('\n').length) } }
  }
}
