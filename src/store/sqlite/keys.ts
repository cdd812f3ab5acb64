// The API keys in a queue file.

import type { Key, Permission } from '../../resource/key.ts'
import type { KeyStore } from '../store.ts'
import { integer, optional, text, type Context, type Row } from './context.ts'

const FIELDS = 'id, name, permissions, endpoints, created_at'

export class SqliteKeys implements KeyStore {
  readonly #context: Pick<Context, 'statements' | 'commits'>

  constructor(context: Pick<Context, 'statements' | 'commits'>) {
    this.#context = context
  }

  addKey({ hash, id, name, permissions, endpoints, createdAt }: Key & { hash: string }): Promise<void> {
    const { statements, commits } = this.#context
    return commits.submit(() => {
      statements.run(
        `insert or ignore into keys (hash, id, name, permissions, endpoints, created_at)
         values ($hash, $id, $name, $permissions, $endpoints, $createdAt)`,
        {
          hash,
          id,
          name,
          permissions: JSON.stringify(permissions),
          endpoints: endpoints ? JSON.stringify(endpoints) : null,
          createdAt,
        },
      )
    })
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
