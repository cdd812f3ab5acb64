// What a package in node_modules is like, as far as bundling goes.

import { readFileSync, realpathSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import type { Metafile } from 'esbuild'

export interface InstalledPackage {
  /** That of its folder, by which it is imported. */
  name: string
  /** What npm is to install under that name: a version, or the name and version that an alias stands for. */
  version: string
  /** Its folder. */
  root: string
}

/** The package that a file in node_modules belongs to; undefined for the author's own. */
export function packageOf(file: string): InstalledPackage | undefined {
  const parts = file.split(sep)
  const at = parts.lastIndexOf('node_modules')
  if (at < 0) return undefined
  const end = at + (parts[at + 1]?.startsWith('@') ? 3 : 2)
  return packageAt(parts.slice(0, end).join(sep), parts.slice(at + 1, end).join('/'))
}

const ABSENT = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG'])

/** The package that an import of the name finds from a folder; undefined when none is installed. */
export function packageBeside(folder: string, name: string): InstalledPackage | undefined {
  for (let at = folder; ; at = dirname(at)) {
    try {
      return packageAt(join(at, 'node_modules', name), name)
    } catch (cause) {
      if (!ABSENT.has((cause as NodeJS.ErrnoException).code ?? '')) throw cause
      if (at === dirname(at)) return undefined
    }
  }
}

function packageAt(root: string, name: string): InstalledPackage {
  const manifest: unknown = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const { name: real = name, version } = manifest as { name?: string; version: string }
  return { name, version: real === name ? version : `npm:${real}@${version}`, root }
}

/** Where it lies, who asks for it, files of its own by their place, or modules by a name that is made as it runs: no bundle can keep that. */
const NEEDS_ITS_PLACE =
  /\b__dirname\b|\b__filename\b|\bimport\s*\.\s*meta\b|\bmodule\.parent\b|\brequire\.resolve\b|\brequire\((?!\s*['"`)])|\.node['"`]/

/** Whether a file of a package works within a bundle as it does in its place. */
export function isBundlable(file: string): boolean {
  if (file.endsWith('.node')) return false
  return !/\.[cm]?[jt]sx?$/.test(file) || !NEEDS_ITS_PLACE.test(readFileSync(file, 'utf8'))
}

/** To a folder of a workspace, say. Other tools than npm note no links, but make them. */
export function isLinked({ root }: Pick<InstalledPackage, 'root'>): boolean {
  return !realpathSync(root).split(sep).includes('node_modules')
}

/** Dependencies that the author's code has the names of but imports nothing of: it finds them as it runs. */
export function namesMentioned(folder: string, metafile: Metafile): string[] {
  const { inputs } = metafile
  const files = Object.keys(inputs).map((file) => join(folder, file))
  const bundled = new Set(files.map((file) => packageOf(file)?.name))
  // What is linked lies elsewhere, so that only the words of its import have the name.
  const imported = new Set(
    Object.values(inputs).flatMap(({ imports }) =>
      imports.map(({ path, original }) => packageNameOf(original ?? path)),
    ),
  )
  const code = ownFilesOf(folder, metafile)
    .map((file) => readFileSync(file, 'utf8').replace(IMPORTED, ''))
    .join('\n')
  return Object.keys(dependenciesBeside(folder)).filter((name) => {
    const isMentioned = [`'`, `"`, '`'].some((quote) =>
      [quote, '/'].some((end) => code.includes(`${quote}${name}${end}`)),
    )
    return isMentioned && name !== 'longshore' && !bundled.has(name) && !imported.has(name)
  })
}

/** The author's own scripts among what was bundled. */
export function ownFilesOf(folder: string, { inputs }: Metafile): string[] {
  const files = Object.keys(inputs).map((file) => join(folder, file))
  return files.filter((file) => packageOf(file) === undefined && /\.[cm]?[jt]sx?$/.test(file))
}

/** These the bundler follows, or leaves out where they are of types alone. */
const IMPORTED = /\b(?:from|import)\s*(['"])[^'"\n]*\1/g

/** Of what an import names: `@of/name/deep.js` is of `@of/name`. */
export function packageNameOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

/** Of the nearest package.json: names, and how each is written there. */
export function dependenciesBeside(folder: string): Record<string, string> {
  try {
    const manifest: unknown = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    return (manifest as { dependencies?: Record<string, string> }).dependencies ?? {}
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
    return folder === dirname(folder) ? {} : dependenciesBeside(dirname(folder))
  }
}

/** What the nearest package.json says of a file, as Node reads it. */
export function moduleTypeOf(file: string): string | undefined {
  for (let at = dirname(file); ; at = dirname(at)) {
    try {
      const manifest: unknown = JSON.parse(readFileSync(join(at, 'package.json'), 'utf8'))
      return (manifest as { type?: string }).type
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
      if (at === dirname(at)) return undefined
    }
  }
}
