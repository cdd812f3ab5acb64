// Templates: made, read, updated and deleted. An update of one is a release of each endpoint that uses it.

import type { Clock } from '../../lib/clock.ts'
import { Refusal } from '../../protocol/errors.ts'
import {
  templateFrom,
  updatedTemplate,
  type NewTemplate,
  type Template,
  type TemplateUpdate,
} from '../../resource/template.ts'
import type { EndpointResource } from '../../resource/endpoint.ts'
import type { FleetStore, Stored } from '../../store/fleet-store.ts'
import { checkEnv, checkImage, checkRegistryAuth } from './container-checks.ts'
import type { PodPlace } from './pod-place.ts'
import { newResourceId } from './resource-id.ts'
import type { Releases } from './releases.ts'
import { TemplateGuard } from './template-guard.ts'

export interface TemplatesOptions {
  store: FleetStore
  releases: Releases
  clock: Clock
  host?: PodPlace
}

export interface TemplateFilter {
  /** False leaves out those that an endpoint uses. */
  includeEndpointBoundTemplates?: boolean | undefined
}

export class Templates {
  readonly #store: FleetStore
  readonly #releases: Releases
  readonly #guard: TemplateGuard
  readonly #host: PodPlace | undefined

  constructor({ store, releases, clock, host }: TemplatesOptions) {
    this.#store = store
    this.#releases = releases
    this.#guard = new TemplateGuard(store, clock)
    this.#host = host
  }

  async create(made: NewTemplate): Promise<Template> {
    await checkRegistryAuth(this.#store, made.containerRegistryAuthId)
    checkImage(this.#host, made.imageName)
    const template = templateFrom(made, newResourceId())
    if (await this.#store.templates.add(template)) return template
    throw taken(template.name)
  }

  /** In order of their ids. */
  async list({ includeEndpointBoundTemplates = true }: TemplateFilter = {}): Promise<Template[]> {
    const all = (await this.#store.templates.list()).map(({ value }) => value)
    if (includeEndpointBoundTemplates) return all
    const bound = new Set((await this.#store.endpoints.list()).map(({ value }) => value.templateId))
    return all.filter(({ id }) => !bound.has(id))
  }

  /** Throws the Refusal RESOURCE_NOT_FOUND. */
  async get(id: string): Promise<Template> {
    const found = await this.#store.templates.find(id)
    if (found) return found.value
    throw new Refusal('RESOURCE_NOT_FOUND', { kind: 'template', id, path: 'templates' })
  }

  /** Every endpoint that uses it gets a release, also when nothing changes that its workers run with. */
  async update(id: string, update: TemplateUpdate): Promise<Template> {
    await checkRegistryAuth(this.#store, update.containerRegistryAuthId)
    checkImage(this.#host, update.imageName)
    for (;;) {
      const found = await this.#store.templates.find(id)
      if (!found) return this.get(id)
      const updated = updatedTemplate(found.value, update)
      if (update.env) await this.#checkUsers(updated)
      const answer = await this.#store.templates.replace(updated, found.revision)
      if (answer === 'taken') throw taken(updated.name)
      // Somebody else updated it meanwhile: this update comes on top of theirs.
      if (answer === 'changed') continue
      await this.#releases.ofTemplate({ value: updated, revision: found.revision + 1 })
      return updated
    }
  }

  /** What their workers are started with is the template's environment and their own. */
  async #checkUsers({ id, env }: Template): Promise<void> {
    for (const { value } of await this.#usersOf(id))
      checkEnv(env, value.env, `that of the endpoint '${value.id}'`)
  }

  async #usersOf(id: string): Promise<Stored<EndpointResource>[]> {
    return (await this.#store.endpoints.list()).filter(({ value }) => value.templateId === id)
  }

  async remove(id: string): Promise<void> {
    await this.get(id)
    await this.#guard.whileDeleted(id, () => this.#removeUnused(id))
  }

  async #removeUnused(id: string): Promise<void> {
    const users = await this.#usersOf(id)
    if (users.length > 0) {
      const names = users.map(({ value }) => `endpoint '${value.id}'`).join(', ')
      throw new Refusal('RESOURCE_IN_USE', { kind: 'template', id, users: names })
    }
    await this.#store.templates.remove(id)
  }
}

function taken(name: string): Refusal {
  return new Refusal('NAME_TAKEN', { kind: 'template', name })
}
