// One file out of a handler and all it imports, but for the packages that have to stay as they are: those are installed.

import { dirname, join, relative, resolve } from 'node:path'
import {
  describeError,
  describeGenerated,
  describeKept,
  describeLacking,
  describeLinked,
  describeStrict,
  describeUnfollowed,
} from './bundle-words.ts'
import { packagesAsked, type AskedPackages } from './asked-packages.ts'
import { bundleWithout, fileOf, formatOf, type Bundled, type Outcome } from './bundler.ts'
import { CommandError } from '../fail.ts'
import { lackingGenerated, refuseGenerated } from './generated-code.ts'
import { readIncludedScripts } from './included-scripts.ts'
import {
  dependenciesBeside,
  isBundlable,
  isLinked,
  namesMentioned,
  ownFilesOf,
  packageBeside,
  packageOf,
  type InstalledPackage,
} from './installed-package.ts'
import { otherRegistryOf } from './package-source.ts'
import { sharedWith } from './shared-packages.ts'

export interface Bundle {
  code: Uint8Array
  /** Leads from lines of the code to the author's; paths in it start at the handler's folder. */
  sourceMap: Uint8Array
  /** That of its package.json: without, Node tells by the text of each file whether it is a module. */
  type: 'module' | undefined
  /** Name and version of each package that is to be installed beside it. */
  installs: Map<string, string>
  /** Hosts of the registries that these are from, but for the public one. */
  registries: Set<string>
  /** What may go wrong once it runs, each with its place. */
  warnings: string[]
}

/** The worker looks for it beside the handler, and shares its state with it. */
const NEVER_BUNDLED = ['@opentelemetry/api']

const PACKAGE_NAME = /^(?:@[\w~-][\w.~-]*\/)?[\w~-][\w.~-]*$/

export interface BundleOptions {
  /** Names packages not to be bundled whatever they are like. */
  install?: readonly string[]
  /** Files and folders that the image has too, by their paths from the handler's folder. */
  include?: readonly string[]
}

/** Throws a CommandError with the place of each mistake. */
export async function bundleHandler(
  file: string,
  { install = [], include = [] }: BundleOptions = {},
): Promise<Bundle> {
  const folder = dirname(resolve(file))
  const found: Found = { packages: new Map(), inTwoVersions: new Map() }
  const add = (name: string): void => {
    if (!found.packages.has(name)) found.packages.set(name, needBeside(folder, name))
  }
  for (const name of install) {
    if (!PACKAGE_NAME.test(name))
      throw new CommandError(
        `--install takes names of packages, and "${name}" is none. What is installed is the version that is here.`,
      )
    add(name)
  }
  const scripts = await readIncludedScripts(folder, include)
  const unknown = [...scripts.packages].filter((name) => !addIncluded(folder, found, name))
  for (;;) {
    const { packages } = found
    const outside = new Map([...neverBundled(folder), ...packages])
    const { outcome, wanted } = await bundleWithout(outside, resolve(file), include)
    if ('metafile' in outcome) refuseGenerated(folder, outcome.metafile)
    const before = packages.size
    for (const name of wanted) add(name)
    const kept = unbundlable(folder, outcome)
    for (const one of kept) note(found, one)
    if (packages.size > before) continue
    if ('errors' in outcome)
      throw new CommandError(outcome.errors.map((error) => describeError(file, error)).join('\n'))
    checkExports(file, outcome)
    const asked = noteAsked(folder, found, outcome)
    if (packages.size > before) continue
    // What only installed packages import, npm brings with them.
    const needed = new Set([...install, ...scripts.packages, ...wanted, ...asked.names])
    const installed = [...packages.values()].filter(({ name }) => needed.has(name))
    const known = packages.size
    const bundled = Object.keys(outcome.metafile.inputs).map((path) => join(folder, path))
    // One that is imported by a path stays in the bundle all the same.
    for (const one of sharedWith(installed, bundled)) note(found, one)
    if (packages.size > known) continue
    const written = await inItsFormat(file, outcome, () =>
      bundleWithout(outside, resolve(file), include, 'cjs'),
    )
    return {
      code: written.code,
      sourceMap: written.sourceMap,
      type: written.format === 'esm' && !scripts.hasCommonJs ? 'module' : undefined,
      ...checkInstalls(folder, found, needed),
      warnings: [
        ...new Set(outcome.warnings.map((warning) => describeUnfollowed(file, warning))),
        ...written.warnings,
        ...scripts.warnings,
        ...unknown.map(describeLacking),
        ...lackingGenerated(folder, installed, include).map(describeGenerated),
        ...new Set(asked.linked.map(describeLinked)),
        // No import by its name has brought it.
        ...new Set(kept.map(({ name }) => describeKept(name))),
      ],
    }
  }
}

/** Of one that is not installed here there is nothing to share. */
function neverBundled(folder: string): [string, InstalledPackage][] {
  return NEVER_BUNDLED.flatMap((name) => {
    const one = packageBeside(folder, name)
    return one ? [[name, one]] : []
  })
}

interface Written extends Pick<Bundled, 'code' | 'sourceMap'> {
  format: 'esm' | 'cjs'
  warnings: string[]
}

/** A module, but of a handler that is CommonJS what it is: strict mode is not for all such. */
async function inItsFormat(
  file: string,
  module: Bundled,
  asCommonJs: () => Promise<{ outcome: Outcome }>,
): Promise<Written> {
  if (formatOf(resolve(file), module) === 'esm') return { ...module, format: 'esm', warnings: [] }
  const { outcome } = await asCommonJs()
  // Something that it imports may await at its top level, which CommonJS cannot.
  if ('errors' in outcome) return { ...module, format: 'esm', warnings: [describeStrict(file)] }
  return { ...outcome, format: 'cjs', warnings: [] }
}

interface Found {
  packages: Map<string, InstalledPackage>
  /** The other version of such. */
  inTwoVersions: Map<string, string>
}

/** Of a package that an included script imports: whether the image will have it. */
function addIncluded(folder: string, { packages }: Found, name: string): boolean {
  if (packages.has(name) || name === 'longshore') return true
  const one = packageBeside(folder, name)
  if (one === undefined) return name === 'zod'
  if (isLinked(one)) return false
  packages.set(name, one)
  return true
}

/** What the author's files find as they run. */
function noteAsked(
  folder: string,
  found: Found,
  { metafile }: Bundled,
): { names: Set<string>; linked: AskedPackages['linked'] } {
  const { installed, linked } = packagesAsked(ownFilesOf(folder, metafile))
  const mentioned = namesMentioned(folder, metafile).map((name) => needBeside(folder, name))
  for (const one of [...mentioned, ...installed]) note(found, one)
  return { names: new Set([...mentioned, ...installed].map(({ name }) => name)), linked }
}

function note({ packages, inTwoVersions }: Found, one: InstalledPackage): void {
  const known = packages.get(one.name)
  if (known === undefined) packages.set(one.name, one)
  else if (known.version !== one.version) inTwoVersions.set(one.name, one.version)
}

/** Throws a CommandError for what npm cannot install in the image as it is installed here. */
function checkInstalls(
  folder: string,
  { packages, inTwoVersions }: Found,
  needed: ReadonlySet<string>,
): Pick<Bundle, 'installs' | 'registries'> {
  const wishes = dependenciesBeside(folder)
  const chosen = [...packages.values()].filter(({ name }) => needed.has(name))
  for (const { name, version } of chosen) {
    const other = inTwoVersions.get(name)
    if (other !== undefined)
      throw new CommandError(
        `The handler needs ${name} in two versions, ${version} and ${other}, and it cannot be bundled: only one can be installed beside it. Bring its dependants to one version.`,
      )
  }
  const hosts = chosen.map((one) => otherRegistryOf(one, wishes[one.name]))
  return {
    installs: new Map(chosen.map(({ name, version }) => [name, version])),
    registries: new Set(hosts.filter((host) => host !== undefined)),
  }
}

function checkExports(file: string, { metafile }: Bundled): void {
  const exported = Object.values(metafile.outputs).flatMap((output) => output.exports)
  if (exported.includes('default') || exported.includes('handler')) return
  throw new CommandError(
    `Cannot bundle ${relative(process.cwd(), file)}: it has no default export. Add "export default async function handler(job) { … }".`,
  )
}

/** Packages that would not work within the bundle, and those that the bundler itself fails at. */
function unbundlable(folder: string, outcome: Outcome): InstalledPackage[] {
  const unfit =
    'errors' in outcome
      ? outcome.errors.flatMap(fileOf)
      : Object.keys(outcome.metafile.inputs).filter(
          (file) => outcome.misfits.has(file) || !isBundlable(join(folder, file)),
        )
  return unfit.flatMap((file) => packageOf(join(folder, file)) ?? [])
}

function needBeside(folder: string, name: string): InstalledPackage {
  const found = packageBeside(folder, name)
  if (found) return found
  throw new CommandError(
    `The package ${name} is not installed beside the handler, so that its version is unknown. Install it: npm install ${name}.`,
  )
}
