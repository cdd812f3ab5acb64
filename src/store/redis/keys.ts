// The API keys in Redis: one hash, by the hash of their text.

import { keySchema, type Key } from '../../resource/key.ts'
import type { Clock } from '../../lib/clock.ts'
import type { KeyStore } from '../key-store.ts'
import { StoreError } from '../store-error.ts'
import type { Connection } from './connection.ts'
import { fieldsOf, textOf } from './reply.ts'
import { plainScript } from './script.ts'

export const KEYS = 'longshore:keys'

const addFirst = plainScript(
  'addFirst',
  `
if redis.call('HLEN', KEYS[1]) > 0 then return 0 end
return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])`,
)

const ROUND = 500

/** For how long a key that was found is known while nobody can be asked for it. */
const REMEMBER_MS = 10_000

export class RedisKeys implements KeyStore {
  readonly #connection: Connection
  readonly #clock: Clock
  /** By hash, those that were found last at the end. In a cluster all keys are on one node, and the jobs on others. */
  readonly #found = new Map<string, { key: Key; until: number }>()

  constructor(connection: Connection, clock: Clock) {
    this.#connection = connection
    this.#clock = clock
  }

  async addKey({ hash, ...key }: Key & { hash: string }): Promise<void> {
    await this.#connection.write('hsetnx', KEYS, hash, JSON.stringify(key))
  }

  async addFirstKey({ hash, ...key }: Key & { hash: string }): Promise<boolean> {
    return (await this.#connection.run(addFirst, KEYS, [hash, JSON.stringify(key)])) === 1
  }

  async findKey(hash: string): Promise<Key | undefined> {
    try {
      const found = (await this.#connection.call('hget', KEYS, hash)) as Buffer | null
      const key = found === null ? undefined : readKey(found)
      this.#remember(hash, key)
      return key
    } catch (cause) {
      const known = this.#found.get(hash)
      const isAway = cause instanceof StoreError && cause.code === 'STORE_UNAVAILABLE'
      if (isAway && known && known.until > this.#clock.monotonic()) return known.key
      throw cause
    }
  }

  async listKeys(): Promise<Key[]> {
    const found = await this.#all()
    return [...found.values()].toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
  }

  async revokeKey(id: string): Promise<boolean> {
    let isRevoked = false
    for (const [hash, key] of await this.#all()) {
      if (key.id === id) isRevoked = (await this.#connection.write('hdel', KEYS, hash)) === 1
    }
    for (const [hash, { key }] of this.#found) if (key.id === id) this.#found.delete(hash)
    return isRevoked
  }

  /** By hash. Some at a time: while Redis looks for them it does nothing else. */
  async #all(): Promise<Map<string, Key>> {
    const found = new Map<string, Key>()
    let cursor = '0'
    do {
      const scanned = await this.#connection.told('hscan', KEYS, cursor, 'COUNT', ROUND)
      const [next, flat] = scanned as [Buffer, Buffer[]]
      for (const [hash, text] of fieldsOf(flat)) {
        const key = readKey(text)
        if (key) found.set(hash, key)
      }
      cursor = textOf(next)
    } while (cursor !== '0')
    return found
  }

  #remember(hash: string, key: Key | undefined): void {
    const now = this.#clock.monotonic()
    this.#found.delete(hash)
    if (key) this.#found.set(hash, { key, until: now + REMEMBER_MS })
    for (const [oldest, { until }] of this.#found) {
      if (until > now) break
      this.#found.delete(oldest)
    }
  }
}

/** What cannot be read is no key, and keeps nobody from the others. */
function readKey(text: Buffer): Key | undefined {
  try {
    return keySchema.parse(JSON.parse(textOf(text)))
  } catch {
    return undefined
  }
}
