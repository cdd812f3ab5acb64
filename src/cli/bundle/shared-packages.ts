// Packages that what is installed depends on: a copy of such in the bundle would be another than theirs.

import { readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { packageBeside, packageOf, type InstalledPackage } from './installed-package.ts'

/**
 * Those of the bundled files' packages that an installed one needs too, as the very same copy. One that the bundle has in
 * several versions stays in it: only one could be installed.
 */
export function sharedWith(
  installed: readonly InstalledPackage[],
  bundled: readonly string[],
): InstalledPackage[] {
  const roots = new Set<string>()
  for (const { root } of installed) addNeeds(realpathSync(root), roots)
  const byName = new Map<string, Map<string, InstalledPackage>>()
  for (const file of bundled) {
    const found = packageOf(file)
    if (found === undefined) continue
    const copies = byName.get(found.name) ?? new Map<string, InstalledPackage>()
    byName.set(found.name, copies.set(realpathSync(found.root), found))
  }
  return [...byName.values()].flatMap((copies) => {
    const shared = [...copies].filter(([root]) => roots.has(root)).map(([, one]) => one)
    return new Set(shared.map(({ version }) => version)).size === 1 ? shared.slice(0, 1) : []
  })
}

type Manifest = Record<
  'dependencies' | 'peerDependencies' | 'optionalDependencies',
  Record<string, string> | undefined
>

function addNeeds(root: string, roots: Set<string>): void {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest
  const needs = { ...manifest.dependencies, ...manifest.peerDependencies, ...manifest.optionalDependencies }
  for (const name of Object.keys(needs)) {
    const found = packageBeside(root, name)
    const at = found && realpathSync(found.root)
    if (at === undefined || roots.has(at)) continue
    roots.add(at)
    addNeeds(at, roots)
  }
}
