// A queue file as it lies there, also while a service runs on it.

import { accessSync, constants, existsSync, mkdirSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { LEAST_FREE_BYTES } from '../../lib/disk.ts'
import { problem, warning, type Finding } from '../../lib/finding.ts'
import { realFile } from './real-file.ts'
import { SCHEMA_VERSION } from './schema.ts'

/** Throws StoreError when the name can be no queue file's. */
export function examineFile(
  name: string,
  { freeBytes }: { freeBytes: (folder: string) => number },
): Finding[] {
  // One in memory is as well as its process.
  if (name === ':memory:') return []
  const missing = missingFolder(name)
  if (missing) return [missing]
  const file = realFile(name)
  if (!existsSync(file)) {
    return [
      warning(`There is no queue file ${name}. Check the name; longshore serve makes it at its first start.`),
    ]
  }
  const words = [
    // Where nothing can be written SQLite cannot even read, and says something else.
    writeProblem(name, file) ?? readProblem(name, file),
    spaceProblem(name, freeBytes(dirname(file))),
  ]
  return words.filter((one) => one !== undefined).map((one) => problem(one))
}

/** Nothing is lost by a folder more, and serve would not make it. */
function missingFolder(name: string): Finding | undefined {
  const folder = dirname(resolve(name))
  if (existsSync(folder)) return undefined
  return problem(
    `The folder of the store ${name} does not exist. Make it with: mkdir -p ${folder}, or with --fix; longshore serve makes the file.`,
    { apply: () => makeFolder(folder), done: `Made the folder ${folder}.` },
  )
}

/** One by one: below a folder that takes no others, /proc for one, a recursive mkdir of Node never comes back. */
function makeFolder(folder: string): void {
  const missing: string[] = []
  for (let one = folder; !existsSync(one); one = dirname(one)) missing.unshift(one)
  for (const one of missing) mkdirSync(one)
}

function spaceProblem(name: string, free: number): string | undefined {
  if (free >= LEAST_FREE_BYTES) return undefined
  return `The disk of ${name} has ${Math.floor(free / 1_000_000)} MB left. Free some: a full disk refuses submissions.`
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
