// Where an installed package was fetched from: an image can fetch it again by its name only if that was a registry.

import { readFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { CommandError } from '../fail.ts'
import { isLinked, type InstalledPackage } from './installed-package.ts'

const PUBLIC = 'registry.npmjs.org'

/** How a dependency is written that comes from no registry: a folder, a repository, the address of an archive. */
const NO_REGISTRY =
  /^(?:file|link|portal|workspace|git|git\+\w+|github|gitlab|bitbucket|gist|https?):|^(?:\.{1,2}|~)?\/|^[^@:]+\//

/**
 * The host of the registry that a package is from, when it is another than the public one. Throws a CommandError for a
 * package that is from none: under its name the public registry has nothing, or what a stranger has put there.
 */
export function otherRegistryOf({ name, root }: InstalledPackage, wish?: string): string | undefined {
  const { resolved, link } = lockedAt(root)
  if (link === true || isLinked({ root }) || (wish !== undefined && NO_REGISTRY.test(wish)))
    throw fromNoRegistry(name, resolved ?? wish)
  if (resolved === undefined) return undefined
  if (!/^https?:/.test(resolved)) throw fromNoRegistry(name, resolved)
  const { host } = new URL(resolved)
  return host === PUBLIC ? undefined : host
}

interface Locked {
  resolved?: string
  link?: boolean
}

/** What npm noted when it installed the package; empty when another tool did, or npm was told not to note it. */
function lockedAt(root: string): Locked {
  for (let at = dirname(root); at !== dirname(at); at = dirname(at)) {
    if (!at.endsWith(`${sep}node_modules`)) continue
    try {
      const lock: unknown = JSON.parse(readFileSync(join(at, '.package-lock.json'), 'utf8'))
      const { packages } = lock as { packages: Record<string, Locked> }
      return packages[relative(dirname(at), root).split(sep).join('/')] ?? {}
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause
    }
  }
  return {}
}

function fromNoRegistry(name: string, from = 'a folder'): CommandError {
  return new CommandError(
    `The package ${name} cannot be bundled, and cannot be installed in the image: it is from ${from}, and npm there would fetch what a registry has under its name. Publish it to a registry of yours, or write a Dockerfile that copies it in.`,
  )
}
