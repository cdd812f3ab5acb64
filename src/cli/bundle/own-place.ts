// The author's own files within the bundle: each keeps the place that it has beside the handler, as it asks for it by
// import.meta or __dirname.

import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { basename, dirname, extname, relative, resolve, sep } from 'node:path'
import type { Loader, Location, OnLoadResult, PartialMessage, Plugin, PluginBuild } from 'esbuild'
import { moduleTypeOf } from './installed-package.ts'
import { prologueOf } from './prologue.ts'
import { unfollowedIn, type Unfollowed } from './unfollowed.ts'
import { isWithin } from './within.ts'

/** Declared in each file that asks where it lies; the bundler keeps those of several files apart. */
export const PLACES = {
  __dirname: 'metaOfTheFile.dirname',
  __filename: 'metaOfTheFile.filename',
  'import.meta': 'metaOfTheFile',
  'require.resolve': 'requireOfTheFile.resolve',
}

const META_MADE = `url = new URL(urlPath, urlInTheBundle).href, resolve = (name) => /^\\.{0,2}\\//.test(name) ? new URL(name, url).href : resolveInTheBundle(name)`

/** What the declarations of a place are made with; at the head of the bundle. A package is found from there too. */
export const PLACE_BANNER = {
  esm: `import { createRequire as requireInTheBundle } from 'node:module'; import { dirname as dirnameInTheBundle, join as joinInTheBundle } from 'node:path'; const urlInTheBundle = import.meta.url, resolveInTheBundle = (name) => import.meta.resolve(name), metaInTheBundle = (path, urlPath) => { const filename = joinInTheBundle(import.meta.dirname, path), ${META_MADE}; return { ...import.meta, dirname: dirnameInTheBundle(filename), filename, url, resolve } };`,
  cjs: `const { createRequire: requireInTheBundle, isBuiltin: isBuiltinInTheBundle } = require('node:module'), { dirname: dirnameInTheBundle, join: joinInTheBundle } = require('node:path'), { pathToFileURL: urlOfInTheBundle } = require('node:url'), urlInTheBundle = urlOfInTheBundle(__filename).href, resolveInTheBundle = (name) => isBuiltinInTheBundle(name) ? name : urlOfInTheBundle(require.resolve(name)).href, metaInTheBundle = (path, urlPath) => { const filename = joinInTheBundle(__dirname, path), ${META_MADE}; return { dirname: dirnameInTheBundle(filename), filename, url, resolve, main: false } };`,
}

const ASKS_FOR_ITS_PLACE =
  /\bimport\s*\.\s*meta\b|\b__dirname\b|\b__filename\b|\brequire\s*\.\s*resolve\b|\bmodule\.parent\b/

/** Its errors have a note that says the mend. */
export const OWN_PLACES = 'own-places'

export interface OwnPlaces {
  /** Whether the image has the file anyway. */
  isIncluded: (file: string) => boolean
  onUnfollowed: (what: Unfollowed, file: string, line: number) => void
  /** Those that were left out as they were loaded, and those that were found to be imported by name. */
  tests: { leftOut: Set<string>; imported: Set<string> }
}

export function ownPlaces(handler: string, { isIncluded, onUnfollowed, tests }: OwnPlaces): Plugin {
  const entry = realpathSync(handler)
  const root = dirname(entry)
  return {
    name: OWN_PLACES,
    setup(bundling) {
      bundling.onLoad({ filter: /\.[cm]?[jt]sx?$/, namespace: 'file' }, ({ path }) => {
        // Of an import that is wrong in upper and lower case the bundler itself tells best.
        if (!isOwn(path) || !existsSync(path)) return undefined
        const text = readFileSync(path, 'utf8')
        if (IS_TEST.test(path) && TESTS.test(text) && path !== entry && !tests.imported.has(path)) {
          tests.leftOut.add(path)
          return inPlaceOfTest(relative(root, path))
        }
        for (const { what, line, beside, inPlace, isItself } of unfollowedIn(text)) {
          if (isItself && path === entry) continue
          // A bare path of a thread or a process starts at the working directory, which is the handler's folder.
          const target =
            beside === undefined ? inPlace && resolve(root, inPlace) : resolve(dirname(path), beside)
          if (what === 'named' && !isMeant(root, target)) continue
          if (target === undefined || !isIncluded(target)) onUnfollowed(what, path, line)
        }
        if (!ASKS_FOR_ITS_PLACE.test(text)) return undefined
        const { end, isDirective } = prologueOf(text)
        const begin = `${text.slice(0, end)}${isDirective ? ';' : ''}`
        const parent = path !== entry && hasParent(path, text) ? OF_PARENT : ''
        const contents = begin + declarations(placeOf(root, path)) + parent + text.slice(end)
        return { contents, loader: loaderOf(path) }
      })
      resolveOwn(bundling, root, tests.imported)
    },
  }
}

/** Of a file that is named and perhaps read: what is not there is yet to be written, and secrets stay behind. */
function isMeant(root: string, target: string | undefined): boolean {
  return (
    target !== undefined &&
    existsSync(target) &&
    !isWithin(target, root) &&
    !basename(target).startsWith('.env')
  )
}

/**
 * Imports of one's own files. Native code is refused, by whatever name it is imported: that of a package says that the
 * package has to be installed. All else is there to run: Node knows no `sideEffects` of a package.json.
 */
function resolveOwn(bundling: PluginBuild, root: string, imported: Set<string>): void {
  bundling.onResolve({ filter: /^/ }, async ({ path, pluginData, ...how }) => {
    const { importer, resolveDir, kind } = how
    if (pluginData === 'asked' || kind === 'entry-point' || !isOwn(importer)) return undefined
    const found = await bundling.resolve(path, { importer, resolveDir, kind, pluginData: 'asked' })
    if (found.errors.length > 0 || found.external || found.namespace !== 'file' || !isOwn(found.path))
      return undefined
    if (IS_TEST.test(found.path)) imported.add(found.path)
    if (!found.path.endsWith('.node')) return { ...found, sideEffects: true }
    const isCommonJs = /\.c[jt]s$/.test(importer) || kind.startsWith('require')
    return { errors: [nativeCode(root, found.path, isCommonJs ? FROM.commonJs : FROM.module)] }
  })
  // An import of all files that a pattern fits resolves none of them by the above, and says nothing of who asks.
  bundling.onLoad({ filter: /\.node$/, namespace: 'file' }, ({ path }) =>
    isOwn(path)
      ? { errors: [nativeCode(root, path, `${FROM.module}, in CommonJS ${FROM.commonJs},`)] }
      : undefined,
  )
}

const FROM = { module: 'createRequire(import.meta.url)', commonJs: 'createRequire(__filename)' }

function nativeCode(root: string, path: string, from: string): PartialMessage {
  const file = relative(root, path)
  const mend = isWithin(root, path)
    ? `Load it by ${from} and take it along with --include ${file}, or make a package of it.`
    : `It is not within the handler's folder, where --include takes files from. Move it there, load it by ${from} and take it along with --include, or publish the package that it is of and install that.`
  return { text: `no bundle can hold native code such as ${file}`, notes: [{ text: mend }] }
}

function isOwn(file: string): boolean {
  return !file.split(sep).includes('node_modules')
}

/** By its path from the handler's folder; what is not in that is as if it were the bundle. */
function placeOf(root: string, file: string): string {
  const path = relative(root, file)
  return isWithin(root, file) && basename(path) !== path ? path.split(sep).join('/') : 'handler.js'
}

/** In one line, so that the lines after it keep their numbers. */
function declarations(place: string): string {
  const path = JSON.stringify(place)
  const url = JSON.stringify(place.split('/').map(encodeURIComponent).join('/'))
  return `const metaOfTheFile = metaInTheBundle(${path}, ${url}), requireOfTheFile = requireInTheBundle(metaOfTheFile.filename); `
}

/** A place that the bundler tells, without what was put before it there. */
export function asWritten(location: Location): Location {
  const { lineText, column } = location
  const put = DECLARED.exec(lineText)
  if (put === null) return location
  const from = Buffer.byteLength(lineText.slice(0, put.index))
  const to = from + Buffer.byteLength(put[0])
  const isBehind = column >= to
  return {
    ...location,
    column: isBehind ? column - (to - from) : Math.min(column, from),
    lineText: lineText.replace(put[0], () => ''),
  }
}

/** By `module.parent` CommonJS tells that it is no program. What Node imports has none. */
const OF_PARENT = `module.parent = { id: '.', path: metaInTheBundle('', '').dirname, filename: metaInTheBundle('handler.js', 'handler.js').filename, exports: {}, children: [module], paths: [], loaded: false, require: requireOfTheFile }; `

/** It asks for it, and is CommonJS. */
function hasParent(path: string, text: string): boolean {
  if (!/\bmodule\.parent\b/.test(text) || /\.m[jt]sx?$/.test(path)) return false
  return /\.c[jt]s$/.test(path) || (moduleTypeOf(path) !== 'module' && !/^\s*(?:import|export)\b/m.test(text))
}

const DECLARED =
  /;?const metaOfTheFile = .*? requireOfTheFile = requireInTheBundle\(metaOfTheFile\.filename\); (?:module\.parent = .*?; )?/

/** One that only a pattern fits: what it imports is not for an image. */
const IS_TEST = /\.(?:test|spec)\.[cm]?[jt]sx?$/
const TESTS = /\b(?:describe|test|it)\s*(?:\.\s*\w+\s*)*\(/

function inPlaceOfTest(path: string): OnLoadResult {
  const words = `${path} is a test, and not in the bundle. Import it by its name where it is to be.`
  return { contents: `throw new Error(${JSON.stringify(words)})`, loader: 'js' }
}

function loaderOf(file: string): Loader {
  const ending = extname(file).replace(/^\.[cm]?/, '')
  return ending as 'js' | 'jsx' | 'ts' | 'tsx'
}
