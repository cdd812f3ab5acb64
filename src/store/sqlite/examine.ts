// A queue file as it lies there, also while a service runs on it.

import { accessSync, constants, existsSync, statfsSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { realFile } from './real-file.ts'
import { SCHEMA_VERSION } from './schema.ts'

/** With less than this the next few large jobs fill the disk. */
const LEAST_BYTES = 100_000_000

/** Throws StoreError when the name can be no queue file's. */
export async function examineFile(name: string): Promise<string[]> {
  const file = realFile(name)
  if (!existsSync(file)) {
    return [`There is no queue file ${name}. Check the name; longshore serve makes it at its first start.`]
  }
  const problem = readProblem(name, file) ?? writeProblem(name, file)
  const { bavail, bsize } = statfsSync(dirname(file))
  const free = bavail * bsize
  const space =
    free >= LEAST_BYTES
      ? undefined
      : `The disk of ${name} has ${Math.floor(free / 1_000_000)} MB left. Free some: a full disk refuses submissions.`
  return [problem, space].filter((one) => one !== undefined)
}

function readProblem(name: string, file: string): string | undefined {
  let db: DatabaseSync | undefined
  try {
    db = new DatabaseSync(file, { readOnly: true })
    const version = Number(db.prepare('pragma user_version').get()?.['user_version'])
    const tables = db.prepare("select name from sqlite_schema where name in ('jobs', 'endpoints')").all()
    if (version === 0 || tables.length < 2) {
      return `The file ${name} is a SQLite database of another program, or nothing yet. Name a queue file.`
    }
    if (version > SCHEMA_VERSION) {
      return `The store ${name} has schema version ${version}, and this longshore knows versions up to ${SCHEMA_VERSION}. Use the newer longshore that wrote it.`
    }
    return undefined
  } catch (cause) {
    return `The store ${name} cannot be read: ${cause instanceof Error ? cause.message : String(cause)}. Name a queue file that this user may read.`
  } finally {
    db?.close()
  }
}

function writeProblem(name: string, file: string): string | undefined {
  try {
    accessSync(file, constants.W_OK)
    accessSync(dirname(file), constants.W_OK)
    return undefined
  } catch {
    return `The store ${name}, or its folder, cannot be written by this user. Give it the right to, or run as the user that serves.`
  }
}
