// Releases: each accepted change of what an endpoint's workers are made from, numbered, with what has become of it.

import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../lib/clock.ts'
import type { EndpointResource } from '../../resource/endpoint.ts'
import { fleetLimits } from '../../resource/fleet-limits.ts'
import type { Release } from '../../resource/release.ts'
import { runsDifferently, type Template } from '../../resource/template.ts'
import type { FleetStore, Stored } from '../../store/fleet-store.ts'
import { changeRecord } from './change-record.ts'

export interface ReleasesOptions {
  store: FleetStore
  clock: Clock
  /** An endpoint has a release that is to be carried out. */
  wake: (endpointId: string) => void
}

/** What an endpoint's workers run with. */
interface Made {
  template: Stored<Template>
  env: EndpointResource['env']
}

export class Releases {
  readonly #store: FleetStore
  readonly #clock: Clock
  readonly #wake: (endpointId: string) => void

  constructor({ store, clock, wake }: ReleasesOptions) {
    this.#store = store
    this.#clock = clock
    this.#wake = wake
  }

  /** Newest first. */
  async list(endpointId: string): Promise<Release[]> {
    const all = await this.#ofEndpoint(endpointId)
    return all.map(({ value }) => value).toReversed()
  }

  async newest(endpointId: string): Promise<Stored<Release> | undefined> {
    return (await this.#ofEndpoint(endpointId)).at(-1)
  }

  /** The first of a new endpoint: it has no workers yet, so that there is nothing to roll over. */
  async first(endpoint: EndpointResource, template: Stored<Template>): Promise<void> {
    await this.#store.releases.add(
      this.#release(endpoint, { template, env: endpoint.env }, { reason: 'made', isOver: true }),
    )
  }

  /** Brings every endpoint that uses the template to a version with it as it is now. Safe to repeat. */
  async ofTemplate(template: Stored<Template>): Promise<void> {
    const endpoints = await this.#store.endpoints.list()
    const users = endpoints.filter(({ value }) => value.templateId === template.value.id)
    await Promise.all(users.map(({ value }) => this.of(value.id, template, 'its template was updated')))
  }

  /**
   * Raises the endpoint's version and records the release. One that changes nothing a worker runs with is over at once; what
   * rolls already is superseded. Safe to repeat: nothing happens where the newest release is made from the same.
   */
  async of(endpointId: string, template: Stored<Template>, why: string): Promise<void> {
    for (;;) {
      const found = await this.#store.endpoints.find(endpointId)
      const newest = await this.newest(endpointId)
      if (!found || !newest) return
      const made: Made = { template, env: found.value.env }
      if (isSame(newest.value, made)) return
      const endpoint = { ...found.value, version: newest.value.version + 1 }
      // What was STOPPED is tried again: its workers never served.
      const isOver = newest.value.state === 'COMPLETED' && !isDifferent(newest.value, made)
      const reason = isOver ? `${why}; nothing changed that its workers run with` : why
      // Two servers that release at once: the number is taken once, and the second looks again.
      if (!(await this.#store.releases.add(this.#release(endpoint, made, { reason, isOver })))) continue
      if (newest.value.state === 'ROLLING') await this.#supersede(newest, endpoint.version)
      // It may have been changed meanwhile, or have come to a later version.
      await changeRecord(this.#store.endpoints, endpointId, (now) =>
        now.version < endpoint.version ? { ...now, version: endpoint.version } : undefined,
      )
      this.#wake(endpointId)
      return this.#forgetOld(endpointId)
    }
  }

  async find(endpointId: string, version: number): Promise<Stored<Release> | undefined> {
    return this.#store.releases.find(releaseId(endpointId, version))
  }

  /** How it stands. False when somebody replaced it meanwhile: then nothing is written. */
  async record(
    { value, revision }: Stored<Release>,
    standing: Pick<Release, 'state' | 'reason' | 'ready' | 'older'>,
  ): Promise<boolean> {
    const endedAt = new Date(this.#clock.now()).toISOString()
    const next: Release = { ...value, ...standing, ...(standing.state !== 'ROLLING' && { endedAt }) }
    return (await this.#store.releases.replace(next, revision)) === 'replaced'
  }

  /** The endpoint is gone. */
  async forget(endpointId: string): Promise<void> {
    for (const { value } of await this.#ofEndpoint(endpointId)) await this.#store.releases.remove(value.id)
  }

  #release(
    { id, version }: EndpointResource,
    { template, env }: Made,
    { reason, isOver }: { reason: string; isOver: boolean },
  ): Release {
    const now = new Date(this.#clock.now()).toISOString()
    return {
      id: releaseId(id, version),
      endpointId: id,
      version,
      state: isOver ? 'COMPLETED' : 'ROLLING',
      reason,
      template: template.value,
      templateRevision: template.revision,
      env,
      ready: 0,
      older: 0,
      createdAt: now,
      ...(isOver && { endedAt: now }),
    }
  }

  async #supersede({ value, revision }: Stored<Release>, by: number): Promise<void> {
    const { ready, older } = value
    await this.record(
      { value, revision },
      { state: 'SUPERSEDED', reason: `version ${by} was released`, ready, older },
    )
  }

  async #forgetOld(endpointId: string): Promise<void> {
    const all = await this.#ofEndpoint(endpointId)
    // The one that serves is never forgotten: after many that stopped it is an old one.
    const serving = all.findLastIndex(({ value }) => value.state === 'COMPLETED')
    const old = all.slice(0, Math.max(0, Math.min(all.length - fleetLimits.releases, serving)))
    for (const { value } of old) await this.#store.releases.remove(value.id)
  }

  async #ofEndpoint(endpointId: string): Promise<Stored<Release>[]> {
    return (await this.#store.releases.list()).filter(({ value }) => value.endpointId === endpointId)
  }
}

/** In order of their versions, as ids are. */
export function releaseId(endpointId: string, version: number): string {
  return `${endpointId}.${String(version).padStart(6, '0')}`
}

/** Whether it was made over another and changed nothing that workers run with: those of either are of one kind. */
export function changedNothing(release: Release, before: Release): boolean {
  const wasOverAtOnce = release.state === 'COMPLETED' && release.endedAt === release.createdAt
  const made = { template: { value: before.template, revision: before.templateRevision }, env: before.env }
  return wasOverAtOnce && before.state === 'COMPLETED' && !isDifferent(release, made)
}

function isDifferent(release: Release, { template, env }: Made): boolean {
  return runsDifferently(release.template, template.value) || !isDeepStrictEqual(release.env, env)
}

function isSame(release: Release, { template: { value, revision }, env }: Made): boolean {
  const { template, templateRevision } = release
  return template.id === value.id && templateRevision >= revision && isDeepStrictEqual(release.env, env)
}
