// The secret that seals s3Config: from the environment, or from a file beside the store that is its owner's alone.

import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  type Stats,
} from 'node:fs'
import { dirname } from 'node:path'
import { problem, warning, type Finding } from '../lib/finding.ts'
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
  for (const { sentence } of examineSecret(given, 'LONGSHORE_SECRET_KEY')) warn(sentence)
  return given
}

/** What is unwise with a secret that was said in this place. */
export function examineSecret(given: string, origin: string): Finding[] {
  if (given.length >= LEAST_CHARS) return []
  return [
    warning(
      `${origin} has ${given.length} characters and can be guessed. Set one of at least ${LEAST_CHARS} random ones once no job with an s3Config waits.`,
    ),
  ]
}

function secretBeside(file: string | undefined, warn: (sentence: string) => void): string {
  const fresh = randomBytes(32).toString('base64url')
  if (file === undefined) return fresh
  const path = `${file}.key`
  if (!existsSync(path)) writeWhole(path, `${fresh}\n`)
  const secret = readFileSync(path, 'utf8').trim()
  if (secret === '') throw new CommandError(emptyKey(path))
  const mode = statSync(path).mode & 0o777
  if (isForOthers(path)) {
    warn(
      `${path} has mode ${mode.toString(8)}: others than its owner can get at the secret that seals s3Config. Set it to 600.`,
    )
  }
  return secret
}

/** What is wrong with the file that holds the secret of a store; nothing when there is none yet. */
export function examineKeyFile(file: string): Finding[] {
  const path = `${file}.key`
  if (!existsSync(path)) return []
  const stat = statSync(path)
  return [...modeFindings(path, stat), ...(stat.size > 0 ? [] : [problem(emptyKey(path))])]
}

function modeFindings(path: string, { mode, uid, gid }: Stats): Finding[] {
  if (!isForOthers(path)) return []
  const words = `${path} can be got at by others than its owner, and it holds the secret that seals s3Config.`
  const mend = `Set it to mode 600 with: chmod 600 ${path}`
  // A group of its own is how the files of a store are shared with those who are to read them: that is not ours to take.
  const isOfAGroup = (mode & 0o007) === 0 && primaryGroupOf(uid) !== gid
  if (isOfAGroup) return [problem(`${words} ${mend}, when its group ${gid} is not to have it.`)]
  return [
    problem(`${words} ${mend}, or with --fix.`, {
      apply: () => chmodSync(path, 0o600),
      done: `Set ${path} to mode 600.`,
    }),
  ]
}

/** Undefined where it is not known. */
function primaryGroupOf(uid: number): number | undefined {
  if (uid === process.getuid?.()) return process.getgid?.()
  try {
    const lines = readFileSync('/etc/passwd', 'utf8').split('\n')
    const fields = lines.map((line) => line.split(':')).find(([, , id]) => id === String(uid))
    return fields === undefined ? undefined : Number(fields[3])
  } catch {
    // Without that file nothing is known of others, and their files are only reported.
    return undefined
  }
}

function isForOthers(path: string): boolean {
  return (statSync(path).mode & 0o077) !== 0 && process.platform !== 'win32'
}

function emptyKey(path: string): string {
  return `${path} is empty, and it should hold the secret that seals s3Config. Bring it back from a backup, or remove it when no job waits that has an s3Config.`
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
