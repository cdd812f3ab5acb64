// Scripts that go along as they are, for threads and processes: what they need that a bundle would have had.

import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { extname, join, relative, resolve } from 'node:path'
import {
  build,
  transform,
  type BuildFailure,
  type Loader,
  type Location,
  type Metafile,
  type Plugin,
} from 'esbuild'
import { moduleTypeOf, packageNameOf } from './installed-package.ts'
import { isWithin } from './within.ts'

export interface IncludedScripts {
  /** Names of those that they import. */
  packages: ReadonlySet<string>
  /** Whether Node takes one for CommonJS only for what its package.json says, or does not say. */
  hasCommonJs: boolean
  warnings: string[]
}

export async function readIncludedScripts(
  folder: string,
  include: readonly string[],
): Promise<IncludedScripts> {
  const included = include.map((path) => resolve(folder, path))
  const scripts = [...new Set(included.flatMap(scriptsIn))]
  const packages = new Set<string>()
  if (scripts.length === 0) return { packages, hasCommonJs: false, warnings: [] }
  const outcome = await build({
    absWorkingDir: folder,
    // Of two that differ in their ending alone both would become one file.
    entryPoints: scripts.map((file, index) => ({ in: file, out: String(index) })),
    outdir: join(folder, 'out'),
    write: false,
    bundle: true,
    format: 'esm',
    platform: 'node',
    metafile: true,
    logLevel: 'silent',
    plugins: [importsOf(packages)],
  }).catch((cause: unknown) => {
    if (cause instanceof Error && 'errors' in cause) return cause as BuildFailure
    throw cause
  })
  if ('errors' in outcome && !('metafile' in outcome))
    return {
      packages,
      hasCommonJs: scripts.some((file) => isCommonJsByItsPlace(file, undefined)),
      warnings: outcome.errors.map(({ text, location }) => describeUnread(folder, text, location)),
    }
  const { metafile } = outcome
  return {
    packages,
    hasCommonJs: scripts.some((file) => isCommonJsByItsPlace(file, metafile.inputs[relative(folder, file)])),
    warnings: lackingOf(folder, metafile, (file) => included.some((one) => isWithin(one, file))),
  }
}

/** No image runs tests, and what those import is not for it. */
const SCRIPT = /(?<!\.(?:d|test|spec))\.[cm]?[jt]s$/

function scriptsIn(path: string): string[] {
  const stats = lstatSync(path, { throwIfNoEntry: false })
  if (stats?.isDirectory()) {
    const names = readdirSync(path).filter((name) => name !== 'node_modules')
    return names.flatMap((name) => scriptsIn(join(path, name)))
  }
  return stats?.isFile() && SCRIPT.test(path) ? [path] : []
}

/** Follows their imports as far as they are one's own. */
function importsOf(packages: Set<string>): Plugin {
  return {
    name: 'imports-of',
    setup(bundling) {
      bundling.onResolve({ filter: /^/ }, async ({ path, pluginData, importer, resolveDir, kind }) => {
        if (pluginData === 'asked' || kind === 'entry-point') return undefined
        if (/^[\w@]/.test(path) && !/^\w+:/.test(path) && !isBuiltin(path)) packages.add(packageNameOf(path))
        if (!/^[./#]/.test(path)) return { external: true }
        const found = await bundling.resolve(path, { importer, resolveDir, kind, pluginData: 'asked' })
        const isOwn = found.errors.length === 0 && !found.path.includes('/node_modules/')
        return isOwn ? found : { external: true }
      })
      // What is no script, or by its name alone, as a template may be, tells nothing.
      bundling.onLoad({ filter: /^/ }, async ({ path }) => {
        if (!SCRIPT.test(path)) return { contents: '', loader: 'empty' }
        const contents = readFileSync(path, 'utf8')
        const loader = extname(path).replace(/^\.[cm]?/, '') as Loader
        try {
          await transform(contents, { loader })
          return { contents, loader }
        } catch {
          return { contents: 'module.exports = {}', loader: 'js' }
        }
      })
    },
  }
}

const COMMON_JS = /\brequire\s*\(|\bmodule\.exports\b|\bexports\.\w|\b__dirname\b|\b__filename\b/

function isCommonJsByItsPlace(file: string, input: Metafile['inputs'][string] | undefined): boolean {
  if (!/\.[jt]s$/.test(file) || moduleTypeOf(file) === 'module' || input?.format === 'esm') return false
  return COMMON_JS.test(readFileSync(file, 'utf8'))
}

function lackingOf(folder: string, { inputs }: Metafile, isIncluded: (file: string) => boolean): string[] {
  const imports = Object.entries(inputs).flatMap(([from, input]) =>
    input.imports.filter(({ external }) => external !== true).map(({ path }) => ({ from, path })),
  )
  const lacking = imports.filter(({ path }) => !isIncluded(join(folder, path)))
  return lacking.map(({ from, path }) => {
    const mend = isWithin(folder, join(folder, path))
      ? `Take it along with --include ${path}.`
      : "It is not within the handler's folder, where --include takes files from: move it there."
    return `${placeOf(folder, from)} imports ${placeOf(folder, path)}, which the image does not have beside it: the bundle is the handler's alone. ${mend}`
  })
}

function describeUnread(folder: string, text: string, location: Location | null): string {
  const place = location ? `${placeOf(folder, location.file)}:${location.line}` : 'a script of --include'
  return `${place} cannot be followed: ${text.replace(/\.$/, '')}. Mend it, or name what the included scripts import with --install and --include.`
}

function placeOf(folder: string, path: string): string {
  return relative(process.cwd(), join(folder, path))
}
