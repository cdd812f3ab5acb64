// What is said of the bundler's messages: what is wrong, at which place of the author's, and what to do.

import { dirname, join, relative } from 'node:path'
import type { Location, Message } from 'esbuild'
import { asWritten, OWN_PLACES } from './own-place.ts'
import type { Unfollowed } from './unfollowed.ts'

const OF_FILES: Record<Exclude<Unfollowed, 'sent'>, string> = {
  thread: 'a thread is started',
  process: 'a process is started by fork()',
  required: 'a file is loaded by createRequire()',
  found: 'a file is found by require.resolve()',
  named: 'a file is named by its place',
}

export function describeError(handler: string, error: Message): string {
  const { text } = error
  const location = error.location && asWritten(error.location)
  const mend = mendOf(error)
  const failed = `Cannot bundle ${relative(process.cwd(), handler)}: ${text}`
  if (!location) return `${failed}.${mend}`
  const { line, lineText } = location
  return `${failed} at ${placeOf(handler, location)}.${mend}\n  ${line} | ${lineText.trimEnd()}`
}

function mendOf({ text, pluginName, notes }: Message): string {
  const missing = /^Could not resolve "([^"./][^"]*)"$/.exec(text)?.[1]
  if (missing !== undefined) return ` Install it beside the handler: npm install ${missing}.`
  if (text.startsWith('No loader is configured for'))
    return ' Read the file as it runs, and take it along with --include.'
  return pluginName === OWN_PLACES ? notes.map((one) => ` ${one.text}`).join('') : ''
}

/** Of an import or a thread whose file is known only as it runs. */
export function describeUnfollowed(handler: string, { id, location: told }: Message): string {
  const location = told && asWritten(told)
  const place = location ? placeOf(handler, location) : relative(process.cwd(), handler)
  if (id === 'empty-glob')
    return `no file fits the pattern of the import at ${place}: it fails as it runs. Put the files there before the build.`
  if (id === 'indirect-require')
    return `require goes by another name at ${place}: the bundle does not have what that loads. Call require itself, or take the files along with --include, and what they import too.`
  if (id === 'sent')
    return `a function goes to a browser as its text at ${place}: in the bundle, functions within it that have names call __name(), which no page has. Give pages one before: page.evaluateOnNewDocument('globalThis.__name = (named) => named') with Puppeteer, page.addInitScript(…) with Playwright.`
  const what = isOfFile(id) ? OF_FILES[id] : 'a module is imported by a name that is made as it runs'
  const mend = location?.file.startsWith('../')
    ? `That is not within the handler's folder, where --include takes files from: move it there with its file, or publish the package that it is of and install that.`
    : 'Take it along with --include, and what it imports too.'
  return `${what} at ${place}: the bundle does not have its file. ${mend}`
}

/** Of a package that may not work within a bundle, but is in it. */
export function describeKept(name: string): string {
  return `the package ${name} is in the bundle, where it may not work: it is imported by a path or under an alias. Import it by its name, so that it is installed in the image.`
}

/** Of a package that only an included file imports, and that npm cannot bring. */
export function describeLacking(name: string): string {
  return `an included file imports ${name}, which the image will not have: it is not installed beside the handler, or linked from elsewhere. Install it, or bundle that file yourself and include what comes out.`
}

/** Of a package that a file asks for as it runs. */
export function describeLinked({ name, file, line }: { name: string; file: string; line: number }): string {
  return `${name} is asked for as it runs at ${relative(process.cwd(), file)}:${line}: it is linked from elsewhere, and the image does not have its files. Import what is wanted of it, or publish it and install that.`
}

/** Of an installed package that imports what was generated beside it. */
export function describeGenerated({
  name,
  folder,
  mend,
}: Record<'name' | 'folder' | 'mend', string>): string {
  return `${name} imports what was generated into ${folder}, which npm does not bring into the image. ${mend}`
}

/** Of CommonJS that can only be bundled as a module. */
export function describeStrict(handler: string): string {
  return `${relative(process.cwd(), handler)} is CommonJS, and is a module in the bundle, as something that it imports awaits at its top level: it runs in strict mode there, where a variable has to be declared.`
}

function isOfFile(id: string): id is keyof typeof OF_FILES {
  return id in OF_FILES
}

function placeOf(handler: string, { file, line, column }: Location): string {
  return `${relative(process.cwd(), join(dirname(handler), file))}:${line}:${column + 1}`
}
