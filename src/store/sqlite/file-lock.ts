// One server to a queue file: a lock that the system lets go of when its holder dies, whatever killed it.

import { DatabaseSync } from 'node:sqlite'
import { StoreError } from '../store-error.ts'

/**
 * Takes the lock `<file>.lock` until `release`, or throws StoreError STORE_IN_USE with the holder's pid.
 * It is an open write transaction on a small database of its own: readable for others, never left behind.
 */
export function lockFile(file: string): { release(): void } {
  const db = new DatabaseSync(`${file}.lock`, { timeout: 0 })
  try {
    db.exec('create table if not exists holder (pid integer not null)')
    db.exec('begin immediate')
    db.exec('delete from holder')
    db.prepare('insert into holder (pid) values (?)').run(process.pid)
    db.exec('commit')
    db.exec('begin immediate')
  } catch (cause) {
    const holder = isBusy(cause) ? readHolder(db) : undefined
    db.close()
    if (!isBusy(cause)) throw cause
    throw new StoreError(
      'STORE_IN_USE',
      `The store ${file} is in use by process ${holder ?? 'unknown'}. Stop that one, or name another file with --store.`,
      { cause },
    )
  }
  return {
    release() {
      db.exec('rollback')
      db.close()
    },
  }
}

const SQLITE_BUSY = 5

function isBusy(cause: unknown): boolean {
  return (
    typeof cause === 'object' && cause !== null && 'errcode' in cause && Number(cause.errcode) === SQLITE_BUSY
  )
}

function readHolder(db: DatabaseSync): number | undefined {
  // Others that come at the same time hold it for a moment each.
  db.exec('pragma busy_timeout = 500')
  const pid = db.prepare('select pid from holder').get()?.['pid']
  return typeof pid === 'number' ? pid : undefined
}
