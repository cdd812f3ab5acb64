// Credentials for registries of private images: made, listed and deleted, their passwords sealed at rest.

import { Refusal } from '../../protocol/errors.ts'
import type { NewRegistryAuth, RegistryAuth, StoredRegistryAuth } from '../../resource/registry-auth.ts'
import type { Release } from '../../resource/release.ts'
import type { FleetStore } from '../../store/fleet-store.ts'
import type { RegistryCredentials } from '../providers/provider.ts'
import { newResourceId } from './resource-id.ts'

/** Makes a text unreadable at rest, and readable again with the same secret. */
export interface Seal {
  seal(text: string): string
  /** Throws when it was sealed with another secret. */
  open(sealed: string): string
}

export interface RegistryAuthsOptions {
  store: FleetStore
  /** Without it none can be made. */
  seal?: Seal
}

export class RegistryAuths {
  readonly #store: FleetStore
  readonly #seal: Seal | undefined

  constructor({ store, seal }: RegistryAuthsOptions) {
    this.#store = store
    this.#seal = seal
  }

  async create({ name, username, password }: NewRegistryAuth): Promise<RegistryAuth> {
    if (!this.#seal) throw new Refusal('SECRET_KEY_MISSING', { field: 'password' })
    const id = newResourceId()
    const sealedPassword = this.#seal.seal(password)
    if (await this.#store.registryAuths.add({ id, name, username, sealedPassword })) return { id, name }
    throw new Refusal('NAME_TAKEN', { kind: 'registry auth', name })
  }

  async list(): Promise<RegistryAuth[]> {
    return (await this.#store.registryAuths.list()).map(({ value }) => shown(value))
  }

  /** Throws the Refusal RESOURCE_NOT_FOUND. */
  async get(id: string): Promise<RegistryAuth> {
    return shown(await this.#find(id))
  }

  /** What goes to the registry, and nowhere else. Throws when it was sealed with another secret. */
  async credentials(id: string): Promise<RegistryCredentials> {
    const { username, sealedPassword } = await this.#find(id)
    if (!this.#seal) throw new Refusal('SECRET_KEY_MISSING', { field: 'password' })
    return { username, password: this.#seal.open(sealedPassword) }
  }

  async remove(id: string): Promise<void> {
    await this.#find(id)
    const users = await this.#users(id)
    if (users.length > 0)
      throw new Refusal('RESOURCE_IN_USE', { kind: 'registry auth', id, users: users.join(', ') })
    await this.#store.registryAuths.remove(id)
  }

  async #find(id: string): Promise<StoredRegistryAuth> {
    const found = await this.#store.registryAuths.find(id)
    if (found) return found.value
    throw new Refusal('RESOURCE_NOT_FOUND', { kind: 'registry auth', id, path: 'containerregistryauth' })
  }

  /** Whatever may yet be started with it. */
  async #users(id: string): Promise<string[]> {
    const { templates, pods, releases } = this.#store
    const isUser = (container: { containerRegistryAuthId?: string | undefined }): boolean =>
      container.containerRegistryAuthId === id
    const ofTemplates = (await templates.list())
      .filter(({ value }) => isUser(value))
      .map(({ value }) => `template '${value.id}'`)
    const ofPods = (await pods.list())
      .filter(({ value }) => isUser(value) && value.desiredStatus !== 'TERMINATED')
      .map(({ value }) => `pod '${value.id}'`)
    const ofEndpoints = inForce((await releases.list()).map(({ value }) => value))
      .filter(({ template }) => isUser(template))
      .map(({ endpointId }) => `endpoint '${endpointId}'`)
    return [...ofTemplates, ...ofPods, ...new Set(ofEndpoints)]
  }
}

function shown({ id, name }: StoredRegistryAuth): RegistryAuth {
  return { id, name }
}

/** Of each endpoint the version that serves, whose workers are replaced as they were, and the one that is on its way. */
function inForce(releases: readonly Release[]): Release[] {
  const serving = new Map<string, Release>()
  for (const release of releases) if (release.state === 'COMPLETED') serving.set(release.endpointId, release)
  return [...serving.values(), ...releases.filter(({ state }) => state === 'ROLLING')]
}
