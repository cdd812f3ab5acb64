// Packages that the author's files ask for as they run: by a `require` of their own making, or by where something lies.
// The bundler does not see that.

import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname } from 'node:path'
import { isLinked, packageBeside, packageNameOf, type InstalledPackage } from './installed-package.ts'
import { withoutComments } from './unfollowed.ts'

export interface AskedPackages {
  installed: InstalledPackage[]
  /** Of such no image has the files. */
  linked: { name: string; file: string; line: number }[]
}

export function packagesAsked(files: readonly string[]): AskedPackages {
  const codes = files.map((file) => ({ file, code: withoutComments(readFileSync(file, 'utf8')) }))
  // What one file makes, another may import.
  const made = new Set(codes.flatMap(({ code }) => requiresMadeIn(code)))
  const asked: AskedPackages = { installed: [], linked: [] }
  for (const { file, code } of codes) {
    const requires = new Set([...requiresMadeIn(code), ...importedOf(made, code)])
    for (const { name, at } of namesAsked(code, requires)) {
      const found = packageBeside(dirname(file), name)
      if (found === undefined) continue
      if (isLinked(found)) asked.linked.push({ name, file, line: code.slice(0, at).split('\n').length })
      else asked.installed.push(found)
    }
  }
  return asked
}

/** Names that what `createRequire()` gives is bound to. */
function requiresMadeIn(code: string): string[] {
  if (!code.includes('createRequire')) return []
  const renamed = [...code.matchAll(/\bcreateRequire\s*(?:\bas\b|:)\s*([\w$]+)/g)].map(([, name]) => name)
  const makes = `(?:[\\w$.]*\\.)?(?:${['createRequire', ...renamed].join('|')})\\s*\\(`
  const bound = new RegExp(`(?<![\\w$])([\\w$]+)\\s*(?::\\s*[\\w$.]+\\s*)?=\\s*${makes}`, 'g')
  return [...code.matchAll(bound)].map(([, name = '']) => name)
}

/** The names by which a file imports one of these. */
function importedOf(made: ReadonlySet<string>, code: string): string[] {
  const bindings = [...code.matchAll(/\b(?:import|const|let|var)\s*\{([^{}]*)\}/g)].flatMap(([, all = '']) =>
    all.split(','),
  )
  return bindings.flatMap((one) => {
    const [from = '', to = from] = one.trim().split(/\s+as\s+|\s*:\s*/)
    return made.has(from) ? [to] : []
  })
}

/** The first argument of a call, where that is the name of a package, or leads into one. */
const NAMED = /\(\s*(['"`])((?:@[\w~-][\w.~-]*\/)?[\w~-][\w.~-]*(?:\/[^'"`$\n]*)?)\1/g
const RESOLVES = /(?<![\w$.])(?:require|import\s*\.\s*meta)\s*\.\s*resolve$/
const LONGEST_CALLEE = 200

function namesAsked(code: string, requires: ReadonlySet<string>): { name: string; at: number }[] {
  return [...code.matchAll(NAMED)].flatMap(({ index, 2: specifier = '' }) => {
    const callee = withoutTypes(code.slice(Math.max(0, index - LONGEST_CALLEE), index))
    const isAsked =
      RESOLVES.test(callee) ||
      isMadeThere(callee) ||
      requires.has(/(?<![\w$.])([\w$]+)(?:\s*\.\s*resolve)?$/.exec(callee)?.[1] ?? '')
    const name = packageNameOf(specifier)
    return isAsked && !isBuiltin(specifier) && name !== 'longshore' ? [{ name, at: index }] : []
  })
}

/** `load<Shape>` is `load`, and `load?.` too. */
function withoutTypes(callee: string): string {
  return callee
    .trimEnd()
    .replace(/\?\.$/, '')
    .replace(/<[^<>()]*>$/, '')
    .trimEnd()
}

/** `createRequire(…)`, or `createRequire(…).resolve`. */
function isMadeThere(callee: string): boolean {
  const call = callee.replace(/\s*\.\s*resolve$/, '')
  if (!call.endsWith(')')) return false
  let depth = 0
  for (let at = call.length - 1; at >= 0; at -= 1) {
    if (call[at] === ')') depth += 1
    else if (call[at] === '(') depth -= 1
    if (depth === 0) return /\bcreateRequire\s*$/.test(call.slice(0, at))
  }
  return false
}
