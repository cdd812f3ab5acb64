// An import that finds nothing: what was asked for, and on which line.

import { readFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { SourcePlace } from './messages.ts'

export interface ImportMiss {
  /** As it is written there, but for names that are made as the code runs. */
  specifier: string
  /** The file that asks. */
  importer: string
  /** What that import threw: one that was caught is no reason for anything. */
  cause: unknown
}

/** Undefined where no file asks. */
export function missOf(
  specifier: string,
  parentUrl: string | undefined,
  cause: unknown,
): ImportMiss | undefined {
  if (!parentUrl?.startsWith('file:')) return undefined
  // tsx tells its own loads from others by a query, which is a part of the path for a require().
  const importer = fileURLToPath(parentUrl).replace(/\?namespace=.*$/, '')
  return { specifier, importer, cause }
}

/** That of a JSON file without its attribute, whose error names the file alone; undefined for all else. */
export function missOfAttribute(cause: unknown, loaded: Iterable<string>): ImportMiss | undefined {
  if (!(cause instanceof Error && 'code' in cause && cause.code === 'ERR_IMPORT_ATTRIBUTE_MISSING'))
    return undefined
  const url = /^Module "(file:[^"]+)"/.exec(cause.message)?.[1]
  if (url === undefined) return undefined
  const file = fileURLToPath(url)
  for (const importer of loaded) {
    for (const [, specifier = ''] of textOf(importer).matchAll(/['"](\.[^'"\n]*)['"](?!\s*with\b)/g))
      if (resolve(dirname(importer), specifier) === file) return { specifier, importer, cause }
  }
  return undefined
}

/** The line that asks for it; undefined where the name is not written out. */
export function placeOfMiss({ specifier, importer }: ImportMiss): SourcePlace | undefined {
  const written = [`'${specifier}'`, `"${specifier}"`, `\`${specifier}\``]
  let found: number | undefined
  for (const [at, line] of textOf(importer).split('\n').entries()) {
    if (!written.some((one) => line.includes(one)) || /^\s*(?:\/[/*]|\*)/.test(line)) continue
    if (/\b(?:from|import|require)\b/.test(line)) return { file: importer, line: at + 1 }
    found ??= at + 1
  }
  return found === undefined ? undefined : { file: importer, line: found }
}

/** The package that would have it; undefined for files and for what Node has built in. */
export function packageOfMiss({ specifier }: ImportMiss): string | undefined {
  return /^(?:@[\w.~-]+\/)?[\w~-][\w.~-]*(?=\/|$)/.exec(specifier)?.[0]
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    // It is gone by now: the name alone has to do.
    return ''
  }
}
