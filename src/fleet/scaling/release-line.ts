// An endpoint's releases as scaling needs them: which version serves, which is on its way, and what a worker's version counts as.

import type { EndpointResource } from '../../resource/endpoint.ts'
import type { Release } from '../../resource/release.ts'
import type { Stored } from '../../store/fleet-store.ts'
import { changedNothing, type Releases } from '../resources/releases.ts'

export interface ReleaseLine {
  /** The newest one's version. */
  newest: number
  /** Completed last, or the first. */
  serving: Release
  rolling?: Stored<Release>
  /** Still ROLLING by their records, though a newer one began. */
  overtaken: Stored<Release>[]
  /** A version that changed nothing that workers run with has those of the one before it. */
  asOf: (version: number) => number
}

export class ReleaseLines {
  readonly #releases: Releases
  /** Those that are over never change again. */
  readonly #over = new Map<number, Stored<Release>>()

  constructor(releases: Releases) {
    this.#releases = releases
  }

  /** By the records alone. Throws where the endpoint has none. */
  async read({ id, version }: EndpointResource): Promise<ReleaseLine> {
    const line: Stored<Release>[] = []
    // A release is recorded before the endpoint's version is raised.
    for (let v = version + 1; ; v += 1) {
      const above = await this.#find(id, v)
      if (!above) break
      line.unshift(above)
    }
    for (let v = version; v > 0 && !reachesBottom(line); v -= 1) {
      const below = await this.#find(id, v)
      if (below) line.push(below)
      else if (line.length > 0) break
    }
    return lineOf(id, line)
  }

  async #find(endpointId: string, version: number): Promise<Stored<Release> | undefined> {
    const known = this.#over.get(version)
    if (known) return known
    const found = await this.#releases.find(endpointId, version)
    if (found && found.value.state !== 'ROLLING') this.#over.set(version, found)
    return found
  }
}

/** Whether, newest first, the last of them is the version before those whose workers serve. */
function reachesBottom(line: readonly Stored<Release>[]): boolean {
  const [last, before] = [line.at(-1)?.value, line.at(-2)?.value]
  if (!last || !before) return false
  const serves = line.some(({ value }) => value !== last && value.state === 'COMPLETED')
  return serves && !changedNothing(before, last)
}

function lineOf(endpointId: string, line: readonly Stored<Release>[]): ReleaseLine {
  const releases = line.map(({ value }) => value)
  const serving = releases.find(({ state }) => state === 'COMPLETED') ?? releases.at(-1)
  const [newest] = line
  if (!newest || !serving) throw new Error(`Endpoint '${endpointId}' has no release. Update it to make one.`)
  const same = new Set([serving.version])
  for (const [at, release] of releases.slice(0, -1).entries()) {
    const before = releases[at + 1]
    if (same.has(release.version) && before && changedNothing(release, before)) same.add(before.version)
  }
  const isRolling = newest.value.state === 'ROLLING'
  return {
    newest: newest.value.version,
    serving,
    ...(isRolling && { rolling: newest }),
    overtaken: line.slice(1).filter(({ value }) => value.state === 'ROLLING'),
    asOf: (version) => (same.has(version) ? serving.version : version),
  }
}
