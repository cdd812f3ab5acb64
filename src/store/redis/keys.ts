// The API keys in Redis: one hash, by the hash of their text.

import { keySchema, type Key } from '../../resource/key.ts'
import type { KeyStore } from '../store.ts'
import type { Connection } from './connection.ts'
import { textOf } from './reply.ts'
import { plainScript } from './script.ts'

export const KEYS = 'longshore:keys'

const revoke = plainScript(
  'revoke',
  `
local flat = redis.call('HGETALL', KEYS[1])
for at = 1, #flat, 2 do
  if cjson.decode(flat[at + 1]).id == ARGV[1] then return redis.call('HDEL', KEYS[1], flat[at]) end
end
return 0`,
)

export class RedisKeys implements KeyStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async addKey({ hash, ...key }: Key & { hash: string }): Promise<void> {
    await this.#connection.write('hsetnx', KEYS, hash, JSON.stringify(key))
  }

  async findKey(hash: string): Promise<Key | undefined> {
    const found = (await this.#connection.call('hget', KEYS, hash)) as Buffer | null
    return found === null ? undefined : readKey(found)
  }

  async listKeys(): Promise<Key[]> {
    const found = (await this.#connection.call('hvals', KEYS)) as Buffer[]
    return found.map(readKey).toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
  }

  async revokeKey(id: string): Promise<boolean> {
    return (await this.#connection.run(revoke, KEYS, [id])) === 1
  }
}

function readKey(text: Buffer): Key {
  return keySchema.parse(JSON.parse(textOf(text)))
}
