// What the syntax of a file tells of how it has to be loaded: an ES module where the package.json above it says "commonjs", as
// `npm init` writes it, or TypeScript with decorators.

import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes, type LoadFnOutput, type LoadHookContext } from 'node:module'
import { fileURLToPath } from 'node:url'
import { compileFunction } from 'node:vm'

/** What code can see as CommonJS. */
const COMMON_JS = ['exports', 'require', 'module', '__filename', '__dirname']

/** What the engine says of code that may be right as an ES module, but is not as CommonJS. */
const MODULE_ONLY =
  /^Cannot use import statement outside|^Unexpected token 'export'|^Cannot use 'import\.meta'|^await is only valid in async|^Identifier '(?:exports|require|module|__filename|__dirname)' has already/

/**
 * The file as an ES module, where it would be taken for CommonJS by a package.json alone and is written as an ES module;
 * undefined for any other. Node itself looks only where no package.json says anything.
 */
export function writtenAsModule(
  url: string,
  { format, conditions }: LoadHookContext,
): LoadFnOutput | undefined {
  // A file that is required comes without its format.
  const isCommonJs = format ? format.startsWith('commonjs') : conditions.includes('require')
  const extension = /\.([jt]s)(?:[?#]|$)/.exec(url)?.[1]
  if (!isCommonJs || extension === undefined) return undefined
  try {
    const text = readFileSync(fileURLToPath(url), 'utf8')
    if (!/\b(?:import|export)\b/.test(text)) return undefined
    // As Node does it: each thing stays at its line and column.
    const source = extension === 'ts' ? withoutTypes(text) : text
    return isModule(source) ? { format: 'module', source, shortCircuit: true } : undefined
  } catch {
    // It is gone, or has types that cannot be stripped: whoever loads it next says so.
    return undefined
  }
}

/** Stripping is no news to anybody: the process of a command has no flag that keeps Node from telling of it. */
function withoutTypes(text: string): string {
  const emitWarning: unknown = Reflect.get(process, 'emitWarning')
  Reflect.set(process, 'emitWarning', () => undefined)
  try {
    return stripTypeScriptTypes(text)
  } finally {
    Reflect.set(process, 'emitWarning', emitWarning)
  }
}

/** What the engine says of a decorator, and of much else. */
const AT_SIGN = 'Invalid or unexpected token'
const DECORATOR = /(?:^|[\s{};(])@[A-Za-z_$]/m

function isModule(source: string): boolean {
  const problem = problemOf(source)
  // The engine does not get as far as to say so.
  if (problem === AT_SIGN && DECORATOR.test(source)) return /^\s*(?:import|export)\b/m.test(source)
  if (problem === undefined || MODULE_ONLY.test(problem)) return problem !== undefined
  // At the top level of CommonJS an await is a name, and what is told is whatever follows it.
  if (!/\bawait\b/.test(source)) return false
  const inside = problemOf(`async function awaits() {${source}\n}`)
  return inside === undefined || MODULE_ONLY.test(inside)
}

/** Of what is compiled and not run. */
function problemOf(source: string): string | undefined {
  try {
    compileFunction(source, COMMON_JS)
    return undefined
  } catch (cause) {
    return cause instanceof SyntaxError ? cause.message : ''
  }
}

/** Whether the engine could not read one of these for its decorators, which stripping its types leaves in it. */
export function isOfDecorator(cause: unknown, files: Iterable<string>): boolean {
  if (!(cause instanceof SyntaxError) || cause.message !== AT_SIGN) return false
  // Not one that running code threw.
  if (!/compileSourceTextModule|wrapSafe/.test(cause.stack ?? '')) return false
  return [...files].some((file) => /\.[mc]?ts$/.test(file) && DECORATOR.test(textOf(file)))
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').replaceAll(/\/\*[^]*?\*\//g, '')
  } catch {
    // It is gone by now.
    return ''
  }
}

/** Whether it could not be compiled for being an ES module by its syntax and CommonJS by its extension. */
export function isModuleInCommonJs(file: string, cause: unknown): boolean {
  return /\.c[jt]s$/.test(file) && cause instanceof SyntaxError && MODULE_ONLY.test(cause.message)
}
