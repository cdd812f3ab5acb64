// Endpoints as resources: each a queue, a template and the bounds of its workers.

import { Refusal } from '../../protocol/errors.ts'
import {
  endpointFrom,
  type EndpointResource,
  type EndpointUpdate,
  type NewEndpoint,
} from '../../resource/endpoint.ts'
import { given } from '../../resource/container.ts'
import { scalingSchema, type Scaling } from '../../resource/scaling.ts'
import type { Template } from '../../resource/template.ts'
import type { FleetStore, Stored } from '../../store/fleet-store.ts'
import type { EndpointStore } from '../../store/endpoint-store.ts'
import type { Clock } from '../../lib/clock.ts'
import { checkEnv } from './container-checks.ts'
import type { Pods } from './pods.ts'
import { newResourceId } from './resource-id.ts'
import type { Releases } from './releases.ts'
import { TemplateGuard } from './template-guard.ts'

export interface EndpointsOptions {
  store: FleetStore
  /** The queues. */
  queues: EndpointStore
  releases: Releases
  pods: Pods
  clock: Clock
  /** An endpoint was changed, so that it may want other workers. */
  wake: (endpointId: string) => void
}

export class Endpoints {
  readonly #options: EndpointsOptions
  readonly #guard: TemplateGuard

  constructor(options: EndpointsOptions) {
    this.#options = options
    this.#guard = new TemplateGuard(options.store, options.clock)
  }

  /** The queue is there before the resource that names it. */
  async create(made: NewEndpoint): Promise<EndpointResource> {
    const { store, queues, releases, clock, wake } = this.#options
    const template = await this.#template(made.templateId)
    const createdAt = new Date(clock.now()).toISOString()
    const endpoint = endpointFrom(made, { id: newResourceId(), createdAt })
    checkBounds(endpoint)
    checkTogether(endpoint, template)
    await queues.ensureEndpoint(endpoint.id)
    await queues.setEndpoint(endpoint.id, { executionTimeoutMs: endpoint.executionTimeoutMs })
    await releases.first(endpoint, template)
    await store.endpoints.add(endpoint)
    if (!(await this.#guard.isKept(made.templateId))) {
      await this.remove(endpoint.id)
      throw noTemplate(made.templateId)
    }
    wake(endpoint.id)
    return endpoint
  }

  async list(): Promise<EndpointResource[]> {
    return (await this.#options.store.endpoints.list()).map(({ value }) => value)
  }

  /** Throws the Refusal RESOURCE_NOT_FOUND. */
  async get(id: string): Promise<EndpointResource> {
    return (await this.#find(id)).value
  }

  /** A change of what its workers run with is a release. */
  async update(id: string, update: EndpointUpdate): Promise<EndpointResource> {
    const { store, queues, releases, wake } = this.#options
    const template = update.templateId === undefined ? undefined : await this.#template(update.templateId)
    for (;;) {
      const { value, revision } = await this.#find(id)
      // Workers that are wanted again would have no queue to ask.
      if (await queues.wasRemoved(id)) throw new Refusal('ENDPOINT_HALF_DELETED', { id })
      const updated = { ...value, ...given(update) }
      checkBounds(updated)
      const current = template ?? (await this.#templateOf(updated))
      if (current) checkTogether(updated, current)
      if ((await store.endpoints.replace(updated, revision)) === 'changed') continue
      const isBound = updated.templateId !== value.templateId
      if (isBound && !(await this.#guard.isKept(updated.templateId))) {
        await this.#putBack(value, update)
        throw noTemplate(updated.templateId)
      }
      await queues.setEndpoint(id, { executionTimeoutMs: updated.executionTimeoutMs })
      if (current) await releases.of(id, current, 'the endpoint was updated')
      wake(id)
      return this.get(id)
    }
  }

  /**
   * With its workers, its queue and its jobs. Safe to repeat: the record goes last, and until then the endpoint wants no
   * workers.
   */
  async remove(id: string): Promise<void> {
    const { store, queues, releases, pods } = this.#options
    const why = 'its endpoint was deleted'
    await this.#wantNoWorkers(id)
    await pods.removeWorkers(id, why)
    await queues.removeEndpoint(id)
    await releases.forget(id)
    await store.scalings.remove(id)
    await store.endpoints.remove(id)
    // Whoever scaled it may have looked before and written since.
    await pods.removeWorkers(id, why)
    await store.scalings.remove(id)
  }

  /** What was decided last about its workers. */
  async scaling(id: string): Promise<Scaling | undefined> {
    const found = await this.#options.store.scalings.find(id)
    return found && scalingSchema.parse(found.value)
  }

  /** What others have changed since stays as it is. */
  async #putBack(before: EndpointResource, update: EndpointUpdate): Promise<void> {
    const fields = Object.keys(given(update)) as (keyof EndpointUpdate)[]
    const old = Object.fromEntries(fields.map((field) => [field, before[field]]))
    for (;;) {
      const { value, revision } = await this.#find(before.id)
      if ((await this.#options.store.endpoints.replace({ ...value, ...old }, revision)) === 'replaced') return
    }
  }

  async #wantNoWorkers(id: string): Promise<void> {
    for (;;) {
      const { value, revision } = await this.#find(id)
      const asleep = { ...value, workersMin: 0, workersMax: 0 }
      if ((await this.#options.store.endpoints.replace(asleep, revision)) === 'replaced') return
    }
  }

  async #find(id: string): Promise<Stored<EndpointResource>> {
    const found = await this.#options.store.endpoints.find(id)
    if (found) return found
    throw new Refusal('RESOURCE_NOT_FOUND', { kind: 'endpoint', id, path: 'endpoints' })
  }

  /** One that is gone is as its last release has it. */
  async #templateOf({ id, templateId }: EndpointResource): Promise<Stored<Template> | undefined> {
    const found = await this.#options.store.templates.find(templateId)
    if (found) return found
    const newest = (await this.#options.releases.newest(id))?.value
    return newest && { value: newest.template, revision: newest.templateRevision }
  }

  async #template(id: string): Promise<Stored<Template>> {
    const found = await this.#options.store.templates.find(id)
    if (found) return found
    throw noTemplate(id)
  }
}

function noTemplate(id: string): Refusal {
  return new Refusal('FIELD_INVALID', {
    field: 'templateId',
    problem: `must be the id of a template, got '${id}'`,
  })
}

function checkBounds({ workersMin, workersMax }: EndpointResource): void {
  if (workersMin <= workersMax) return
  throw new Refusal('FIELD_INVALID', {
    field: 'workersMin',
    problem: `must be at most workersMax, got ${workersMin} and ${workersMax}`,
  })
}

function checkTogether({ env }: EndpointResource, { value }: Stored<Template>): void {
  checkEnv(value.env, env, `that of the template '${value.id}'`)
}
