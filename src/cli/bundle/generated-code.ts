// Code that a package had generated into node_modules, in a folder that begins with a dot: npm does not bring it.

import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import type { Metafile } from 'esbuild'
import { CommandError } from '../fail.ts'
import { packageOf, type InstalledPackage } from './installed-package.ts'
import { isWithin } from './within.ts'

/** The folder of generated code that a file lies in; undefined for all other files. */
export function generatedFolderOf(file: string): string | undefined {
  const parts = file.split(sep)
  const at = parts.lastIndexOf('node_modules')
  return at >= 0 && parts[at + 1]?.startsWith('.') ? parts.slice(0, at + 2).join(sep) : undefined
}

/** Throws a CommandError where such code came into the bundle: what it finds by its place it would find no more. */
export function refuseGenerated(folder: string, { inputs }: Metafile): void {
  for (const [importer, { imports }] of Object.entries(inputs)) {
    const from = join(folder, importer)
    if (generatedFolderOf(from) !== undefined) continue
    const generated = imports
      .map(({ path }) => generatedFolderOf(join(folder, path.replace(/^[\w-]+:/, ''))))
      .find((one) => one !== undefined)
    if (generated === undefined) continue
    const by = packageOf(from)?.name
    const place = relative(folder, generated)
    const mend = canBeIncluded(place)
      ? `Build with ${by ? `--install ${by} ` : ''}--include ${place}.`
      : ELSEWHERE
    throw new CommandError(
      `${by ?? importer} imports what was generated into ${relative(process.cwd(), generated)}, which is of no package and cannot be bundled. ${mend}`,
    )
  }
}

/** What is asked for by the name of its folder is found beside the image's packages alone. */
function canBeIncluded(place: string): boolean {
  return dirname(place) === 'node_modules'
}

const ELSEWHERE =
  'It lies where --include takes nothing from: have it generated into the handler’s folder, and import it from there.'

/** Of packages that are installed in the image: those whose generated code is not taken along, and where that lies here. */
export function lackingGenerated(
  folder: string,
  packages: readonly InstalledPackage[],
  include: readonly string[],
): { name: string; folder: string; mend: string }[] {
  const given = include.map((one) => resolve(folder, one))
  const isIncluded = (path: string): boolean =>
    given.some((one) => isWithin(one, path) || isWithin(path, one))
  return packages.flatMap(({ name, root }) =>
    generatedFor(root)
      .filter((path) => !isIncluded(path))
      .map((path) => relative(folder, path))
      .map((place) => ({
        name,
        folder: place,
        mend: canBeIncluded(place) ? `Take it along with --include ${place}.` : ELSEWHERE,
      })),
  )
}

const ASKS_FOR_GENERATED =
  /(?:\b(?:require|import)\s*\(|\bfrom|\bimport)\s*['"](\.[A-Za-z][\w-]*)\/[^'"\n]*['"]/g

/** By the files at the top of a package, through which it is entered. */
function generatedFor(root: string): string[] {
  // Where it really lies: some tools link to it.
  const real = realpathSync(root)
  const modules = real.slice(0, real.lastIndexOf(`${sep}node_modules${sep}`) + `${sep}node_modules`.length)
  const scripts = readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.[cm]?js$/.test(entry.name))
    .map(({ name }) => name)
  const names = scripts.flatMap((name) =>
    [...readFileSync(join(root, name), 'utf8').matchAll(ASKS_FOR_GENERATED)].map(([, asked = '']) => asked),
  )
  return [...new Set(names)].map((name) => join(modules, name)).filter((path) => existsSync(path))
}
