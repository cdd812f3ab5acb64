// The keys of a queue file on their own: for a command that runs beside the service, which holds the file's lock.

import { existsSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import type { OpenKeys } from '../key-store.ts'
import { StoreError } from '../store-error.ts'
import { Statements } from './context.ts'
import { lockFile } from './file-lock.ts'
import { GroupCommit } from './group-commit.ts'
import { SqliteKeys } from './keys.ts'
import { realFile } from './real-file.ts'
import { BUSY_MS, checkVersion, migrate } from './schema.ts'

/** Throws StoreError when there is no such file, or when a service of another version is running on it. */
export function openSqliteKeys(name: string): OpenKeys {
  const file = realFile(name)
  if (!existsSync(file)) {
    throw new StoreError(
      'STORE_UNREADABLE',
      `There is no queue file ${name}. Check the name, or make it by starting longshore serve --store sqlite:${name} once.`,
    )
  }
  const lock = lockUnlessServed(file)
  try {
    const db = new DatabaseSync(file, { timeout: BUSY_MS })
    // Whose file it is to change: the service's while one runs, else ours.
    if (lock) migrate(db, file)
    else checkVersion(db, file)
    return keysOf(db)
  } finally {
    lock?.release()
  }
}

function lockUnlessServed(file: string): { release(): void } | undefined {
  try {
    return lockFile(file)
  } catch (cause) {
    if (cause instanceof StoreError && cause.code === 'STORE_IN_USE') return undefined
    throw cause
  }
}

function keysOf(db: DatabaseSync): OpenKeys {
  const nothingCounted = { write: () => undefined, drop: () => undefined }
  const commits = new GroupCommit(db, nothingCounted, () => undefined)
  return {
    keys: new SqliteKeys({ statements: new Statements(db), commits }),
    async close() {
      commits.close()
      db.close()
    },
  }
}
