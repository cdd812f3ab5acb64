// Who is asking, and whether they may: the key in the Authorization header against the keys this service knows.

import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Refusal } from '../protocol/errors.ts'
import { hashKey } from '../resource/key-text.ts'
import { mayUse, permissions, type Key, type Permission } from '../resource/key.ts'
import type { KeyStore } from '../store/key-store.ts'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What a key must be allowed for this route. */
    permission?: Permission
  }
  interface FastifyRequest {
    /** The key of the request, once it was let in. */
    key: Pick<Key, 'id' | 'permissions' | 'endpoints'> | undefined
  }
}

const OWNER: NonNullable<FastifyRequest['key']> = { id: 'owner', permissions: [...permissions] }

export function newKeyId(): string {
  return `key_${randomBytes(8).toString('hex')}`
}

export class Auth {
  readonly #keys: KeyStore
  readonly #ownerHashes: readonly Buffer[]

  /** `ownerKeys` may do everything as long as this process runs, and are never stored. */
  constructor(keys: KeyStore, ownerKeys: readonly string[]) {
    this.#keys = keys
    this.#ownerHashes = ownerKeys.map((key) => Buffer.from(hashKey(key)))
  }

  /**
   * Has every route of the scope ask for a key that is allowed what the route's config says. The fleet takes a key as a bearer
   * only, and none that is for some endpoints: what its templates and pods run reaches all of them.
   */
  guard(scope: FastifyInstance, { isOfTheFleet = false } = {}): void {
    scope.decorateRequest('key', undefined)
    scope.addHook('onRequest', async (request) => {
      if (isOfTheFleet && !/^Bearer\s/i.test(request.headers.authorization ?? 'Bearer '))
        throw new Refusal('UNAUTHORIZED', { problem: 'This route takes a key as a bearer only.' })
      const { permission } = request.routeOptions.config
      await this.check(request, ...(permission ? [permission] : []))
      if (isOfTheFleet && request.key?.endpoints)
        throw new Refusal('UNAUTHORIZED', { problem: 'This key does not open every endpoint.' })
    })
  }

  /** Lets the request pass or throws the Refusal UNAUTHORIZED. Takes `Bearer <key>` and the bare key. */
  async check(request: FastifyRequest, ...needed: Permission[]): Promise<void> {
    const key = await this.#find(request)
    request.key = key
    requirePermission(key, ...needed)
    const { endpointId } = (request.params ?? {}) as { endpointId?: string }
    if (endpointId !== undefined && !mayUse(key, endpointId))
      throw new Refusal('UNAUTHORIZED', { problem: `This key does not open endpoint '${endpointId}'.` })
  }

  async #find(request: FastifyRequest): Promise<NonNullable<FastifyRequest['key']>> {
    const header = request.headers.authorization?.trim()
    if (!header) throw new Refusal('UNAUTHORIZED', { problem: 'The request has no key.' })
    const hash = hashKey(/^Bearer\s+(.+)$/i.exec(header)?.[1] ?? header)
    if (this.#ownerHashes.some((owner) => timingSafeEqual(owner, Buffer.from(hash)))) return OWNER
    const key = await this.#keys.findKey(hash)
    if (key) return key
    throw new Refusal('UNAUTHORIZED', { problem: 'This service does not know the key of the request.' })
  }
}

/** For what a route needs only sometimes. */
export function requirePermission(key: FastifyRequest['key'], ...needed: Permission[]): void {
  const missing = needed.find((permission) => !key?.permissions.includes(permission))
  if (missing !== undefined)
    throw new Refusal('UNAUTHORIZED', { problem: `This key has no '${missing}' permission.` })
}
