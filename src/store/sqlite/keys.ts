// The API keys in a queue file.

import type { Key, Permission } from '../../resource/key.ts'
import type { KeyStore } from '../key-store.ts'
import { integer, optional, text, type Context, type Row } from './context.ts'

const FIELDS = 'id, name, permissions, endpoints, created_at'

export class SqliteKeys implements KeyStore {
  readonly #context: Pick<Context, 'statements' | 'commits'>

  constructor(context: Pick<Context, 'statements' | 'commits'>) {
    this.#context = context
  }

  async addKey(key: Key & { hash: string }): Promise<void> {
    await this.#insert(key, 'values ($hash, $id, $name, $permissions, $endpoints, $createdAt)')
  }

  async addFirstKey(key: Key & { hash: string }): Promise<boolean> {
    const source = `select $hash, $id, $name, $permissions, $endpoints, $createdAt
      where not exists (select 1 from keys)`
    return (await this.#insert(key, source)) > 0
  }

  /** Answers how many were added: a key that is there stays as it is. */
  #insert(key: Key & { hash: string }, source: string): Promise<number> {
    const { hash, id, name, permissions, endpoints, createdAt } = key
    const { statements, commits } = this.#context
    return commits.submit(() =>
      statements.run(
        `insert or ignore into keys (hash, id, name, permissions, endpoints, created_at) ${source}`,
        {
          hash,
          id,
          name,
          permissions: JSON.stringify(permissions),
          endpoints: endpoints ? JSON.stringify(endpoints) : null,
          createdAt,
        },
      ),
    )
  }

  async findKey(hash: string): Promise<Key | undefined> {
    const row = this.#context.statements.find(`select ${FIELDS} from keys where hash = $hash`, { hash })
    return row && readKey(row)
  }

  async listKeys(): Promise<Key[]> {
    return this.#context.statements.all(`select ${FIELDS} from keys order by created_at, id`, {}).map(readKey)
  }

  revokeKey(id: string): Promise<boolean> {
    const { statements, commits } = this.#context
    return commits.submit(() => statements.run('delete from keys where id = $id', { id }) > 0)
  }
}

function readKey(row: Row): Key {
  return {
    id: text(row['id']),
    name: text(row['name']),
    permissions: JSON.parse(text(row['permissions'])) as Permission[],
    ...optional('endpoints', row['endpoints'], (value) => JSON.parse(text(value)) as string[]),
    createdAt: integer(row['created_at']),
  }
}
