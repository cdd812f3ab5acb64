// Who is asking: the key in the Authorization header against the keys this service knows.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { Refusal } from '../protocol/errors.ts'
import type { KeyStore } from '../store/store.ts'

/** What is stored of a key. Keys are random and long, so a plain hash is enough. */
export function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('base64url')
}

export function newKey(): string {
  return `ls_${randomBytes(24).toString('base64url')}`
}

export class Auth {
  readonly #keys: KeyStore
  readonly #ownerHash: Buffer | undefined

  /** `ownerKey` is valid as long as this process runs and never stored. */
  constructor(keys: KeyStore, ownerKey?: string) {
    this.#keys = keys
    this.#ownerHash = ownerKey === undefined ? undefined : Buffer.from(hashKey(ownerKey))
  }

  /** Lets the request pass or throws the Refusal UNAUTHORIZED. Takes `Bearer <key>` and the bare key. */
  async check(request: FastifyRequest): Promise<void> {
    const header = request.headers.authorization?.trim()
    if (!header) throw new Refusal('UNAUTHORIZED', { problem: 'The request has no key.' })
    const key = /^Bearer\s+(.+)$/i.exec(header)?.[1] ?? header
    const hash = hashKey(key)
    if (this.#ownerHash && timingSafeEqual(this.#ownerHash, Buffer.from(hash))) return
    if (await this.#keys.hasKey(hash)) return
    throw new Refusal('UNAUTHORIZED', { problem: 'This service does not know the key of the request.' })
  }
}
