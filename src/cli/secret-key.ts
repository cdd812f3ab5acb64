// The secret that seals s3Config: from the environment, or from a file beside the store that is its owner's alone.

import { randomBytes } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { CommandError } from './fail.ts'

/** Fewer characters than this are soon guessed by whoever has the queue file. */
const LEAST_CHARS = 16

/**
 * The secret for a store in this file, or in memory without one. What is unwise is told to `warn` and taken all the same: under
 * another secret the jobs that wait with an s3Config could not be run, so that no service may be kept from its own.
 */
export function secretKey(
  given: string | undefined,
  file: string | undefined,
  warn: (sentence: string) => void,
): string {
  if (given === undefined || given === '') return secretBeside(file, warn)
  if (given.length < LEAST_CHARS) {
    warn(
      `LONGSHORE_SECRET_KEY has ${given.length} characters and can be guessed. Set one of at least ${LEAST_CHARS} random ones once no job with an s3Config waits.`,
    )
  }
  return given
}

function secretBeside(file: string | undefined, warn: (sentence: string) => void): string {
  const fresh = randomBytes(32).toString('base64url')
  if (file === undefined) return fresh
  const path = `${file}.key`
  if (!existsSync(path)) writeWhole(path, `${fresh}\n`)
  const secret = readFileSync(path, 'utf8').trim()
  if (secret === '') {
    throw new CommandError(
      `${path} is empty, and it should hold the secret that seals s3Config. Bring it back from a backup, or remove it when no job waits that has an s3Config.`,
    )
  }
  const mode = statSync(path).mode & 0o777
  if ((mode & 0o077) !== 0 && process.platform !== 'win32') {
    warn(
      `${path} has mode ${mode.toString(8)}: others than its owner can get at the secret that seals s3Config. Set it to 600.`,
    )
  }
  return secret
}

/** On disk before its name is: a power cut leaves all of it or nothing. Nobody else may read it at any moment. */
function writeWhole(path: string, text: string): void {
  const draft = `${path}.${process.pid}`
  // A mode is given to new files only: what a process by the same number left behind has its own, or is a link.
  rmSync(draft, { force: true })
  writeFileSync(draft, text, { mode: 0o600, flag: 'wx', flush: true })
  renameSync(draft, path)
  const folder = openSync(dirname(path), 'r')
  fsyncSync(folder)
  closeSync(folder)
}
