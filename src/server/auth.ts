// Who is asking, and whether they may: the key in the Authorization header against the keys this service knows.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Refusal } from '../protocol/errors.ts'
import { mayUse, permissions, type Key, type Permission } from '../resource/key.ts'
import type { KeyStore } from '../store/store.ts'

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

/** What is stored of a key. Keys are random and long, so a plain hash is enough. */
export function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('base64url')
}

export function newKey(): string {
  return `ls_${randomBytes(24).toString('base64url')}`
}

const OWNER: NonNullable<FastifyRequest['key']> = { id: 'owner', permissions: [...permissions] }

export function newKeyId(): string {
  return `key_${randomBytes(8).toString('hex')}`
}

export class Auth {
  readonly #keys: KeyStore
  readonly #ownerHash: Buffer | undefined

  /** `ownerKey` may do everything as long as this process runs, and is never stored. */
  constructor(keys: KeyStore, ownerKey?: string) {
    this.#keys = keys
    this.#ownerHash = ownerKey === undefined ? undefined : Buffer.from(hashKey(ownerKey))
  }

  /** Has every route of the scope ask for a key that is allowed what the route's config says. */
  guard(scope: FastifyInstance): void {
    scope.decorateRequest('key', undefined)
    scope.addHook('onRequest', async (request) => {
      const { permission } = request.routeOptions.config
      await this.check(request, ...(permission ? [permission] : []))
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
    if (this.#ownerHash && timingSafeEqual(this.#ownerHash, Buffer.from(hash))) return OWNER
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
