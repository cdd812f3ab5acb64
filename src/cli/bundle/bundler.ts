// One run of the bundler, which is told what packages to leave outside.

import { basename, dirname, join, relative, resolve } from 'node:path'
import {
  build,
  type BuildFailure,
  type BuildOptions,
  type Message,
  type Metafile,
  type Plugin,
  type ResolveResult,
} from 'esbuild'
import { BETWEEN, nodeInterop } from './node-interop.ts'
import { packageNameOf, packageOf, type InstalledPackage } from './installed-package.ts'
import { ownPlaces, PLACE_BANNER, PLACES, type OwnPlaces } from './own-place.ts'
import type { Unfollowed } from './unfollowed.ts'
import { isWithin } from './within.ts'

/** These come with the image: one copy has to serve both the handler and the worker. */
const OWN = ['longshore', 'longshore/*']

/** What packages written as CommonJS find in such a module. */
const BANNER = {
  esm: `${PLACE_BANNER.esm} const require = requireInTheBundle(import.meta.url);`,
  cjs: PLACE_BANNER.cjs,
}

/** Of the bundler's messages those that are asked for here, and our own. */
const UNFOLLOWED = /^(?:unsupported-(?:dynamic-import|require-call)|indirect-require|empty-glob)$/

/** A package that imports so is to be installed. */
const MISFIT = /^(?:unsupported-dynamic-import|indirect-require)$/

function unfollowedAt(id: Unfollowed, folder: string, path: string, line: number): Message {
  const location = { file: relative(folder, path), namespace: 'file', line, column: 0, length: 0 }
  return {
    id,
    pluginName: '',
    text: '',
    location: { ...location, lineText: '', suggestion: '' },
    notes: [],
    detail: undefined,
  }
}

function isOwn({ location }: Message): boolean {
  return !location?.file.split('/').includes('node_modules')
}

export interface Bundled {
  code: Uint8Array
  sourceMap: Uint8Array
  metafile: Metafile
  /** Files of packages that load others by names made as they run. */
  misfits: ReadonlySet<string>
  warnings: Message[]
}

export type Outcome = Bundled | { errors: Message[] }

/** The kind of module that the handler's file is. */
export function formatOf(file: string, { metafile }: Bundled): 'esm' | 'cjs' {
  return metafile.inputs[basename(file)]?.format ?? 'esm'
}

/** `wanted` are those of the packages outside that something in it imports. */
export async function bundleWithout(
  outside: Outside,
  file: string,
  include: readonly string[],
  format: 'esm' | 'cjs' = 'esm',
): Promise<{ outcome: Outcome; wanted: Set<string> }> {
  const imported = new Set<string>()
  for (;;) {
    const leftOut = new Set<string>()
    const bundled = await bundleOnce(outside, file, { include, format, tests: { leftOut, imported } })
    // A pattern may fit a test before the file that imports it by name is read.
    if (![...leftOut].some((path) => imported.has(path))) return bundled
  }
}

async function bundleOnce(
  outside: Outside,
  file: string,
  {
    include,
    format,
    tests,
  }: { include: readonly string[]; format: 'esm' | 'cjs'; tests: OwnPlaces['tests'] },
): Promise<{ outcome: Outcome; wanted: Set<string> }> {
  const wanted = new Set<string>()
  const folder = dirname(file)
  const unfollowed: Message[] = []
  const ofOwnFiles = ownPlaces(file, {
    tests,
    isIncluded: (path) => include.some((one) => isWithin(resolve(folder, one), path)),
    onUnfollowed: (what, path, line) => void unfollowed.push(unfollowedAt(what, folder, path, line)),
  })
  const plugins = [leaveOutside(outside, wanted), zodOfTheImage(), nodeInterop(), ofOwnFiles]
  try {
    const { outputFiles, metafile, warnings } = await build({ ...optionsFor(file, format), plugins })
    for (const name of Object.keys(metafile.inputs))
      if (name.startsWith(`${BETWEEN}:`)) delete metafile.inputs[name]
    const contents = (end: string): Uint8Array =>
      outputFiles.find(({ path }) => path.endsWith(end))?.contents ?? new Uint8Array()
    const outcome = { code: contents('.js'), sourceMap: contents('.map'), metafile }
    const own = warnings.filter((one) => UNFOLLOWED.test(one.id) && isOwn(one))
    const misfits = warnings.filter((one) => MISFIT.test(one.id) && !isOwn(one)).flatMap(fileOf)
    return { outcome: { ...outcome, misfits: new Set(misfits), warnings: [...own, ...unfollowed] }, wanted }
  } catch (cause) {
    if (!(cause instanceof Error && 'errors' in cause)) throw cause
    return { outcome: { errors: (cause as BuildFailure).errors }, wanted }
  }
}

function optionsFor(file: string, format: 'esm' | 'cjs') {
  return {
    absWorkingDir: dirname(file),
    entryPoints: [file],
    outfile: join(dirname(file), 'handler.js'),
    write: false,
    bundle: true,
    format,
    platform: 'node',
    target: 'node24',
    sourcemap: 'external',
    sourcesContent: false,
    // Errors are told apart by their class's name, and several files may have one of a name.
    keepNames: true,
    metafile: true,
    legalComments: 'inline',
    logLevel: 'silent',
    external: OWN,
    banner: { js: BANNER[format] },
    footer: { js: '//# sourceMappingURL=handler.js.map' },
    define: PLACES,
    // As Node resolves, which knows neither the condition nor the field of bundlers.
    conditions: ['node-addons', 'module-sync'],
    mainFields: ['main'],
    logOverride: {
      'unsupported-dynamic-import': 'warning',
      'unsupported-require-call': 'warning',
      'indirect-require': 'warning',
    },
    // What imports native code is found by that, and then not bundled.
    loader: { '.node': 'empty' },
  } satisfies BuildOptions
}

/** Packages by their names. */
export type Outside = ReadonlyMap<string, InstalledPackage>

function leaveOutside(outside: Outside, wanted: Set<string>): Plugin {
  return {
    name: 'leave-outside',
    setup(bundling) {
      bundling.onResolve({ filter: /^[^./]/ }, async ({ path, pluginData, ...how }) => {
        const { importer, resolveDir, kind } = how
        if (kind === 'entry-point' || pluginData === 'asked') return undefined
        const name = packageNameOf(path)
        const one = outside.get(name)
        if (one === undefined) return undefined
        const found = await bundling.resolve(path, { importer, resolveDir, kind, pluginData: 'asked' })
        if (isOfAnother(one, found)) return undefined
        wanted.add(name)
        return { external: true }
      })
    },
  }
}

/** A copy that whoever imports it has of its own, at another version. */
function isOfAnother({ version }: InstalledPackage, { errors, path }: ResolveResult): boolean {
  const found = errors.length > 0 ? undefined : packageOf(path)
  return found !== undefined && found.version !== version
}

/** A starter imports zod before anything is installed beside it; the worker then brings its own. */
function zodOfTheImage(): Plugin {
  return {
    name: 'zod-of-the-image',
    setup(bundling) {
      bundling.onResolve({ filter: /^zod($|\/)/ }, async ({ path, pluginData, ...how }) => {
        if (pluginData === 'asked') return undefined
        const { importer, resolveDir, kind } = how
        const found = await bundling.resolve(path, { importer, resolveDir, kind, pluginData: 'asked' })
        return found.errors.length > 0 ? { external: true } : found
      })
    },
  }
}

export function fileOf({ location }: Message): string[] {
  return location ? [location.file] : []
}
