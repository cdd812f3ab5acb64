// The start of a pod's program as a process in a session of its own.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, closeSync, constants, openSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'
import { parseStat, readStatLine, type ProcessIdentity } from './process-identity.ts'
import { ProviderError } from './provider.ts'

/**
 * Only the process itself can say who it is before its program runs, and join its control group before it uses memory. So it
 * does both and then becomes the program: a service that dies right after the start leaves no pod that the next one does not
 * find. The words of the program are arguments of this script, not part of it.
 */
const LAUNCHER = `
if [ ! -s "$1" ]; then read -r stat </proc/$$/stat && printf '%s\\n' "$stat" >"$1" || exit 125; fi
if [ -n "$2" ]; then echo $$ >"$2" || exit 125; fi
unset $3
shift 3
exec "$@"`

/** What a shell adds to the environment by itself. */
const ADDED = ['PWD', 'OLDPWD', 'SHLVL', '_']
/** What one or another shell reads as meant for itself: it changes them, or does not start. */
const READ =
  /^(PWD|OLDPWD|SHLVL|_|OPT(IND|ARG|ERR)|IFS|PS[124]|ENV|MAIL.*|PPID|LINENO|S?RANDOM|SECONDS|E?UID|SHELLOPTS|BASH.*|HISTCMD|FUNCNAME|GROUPS|DIRSTACK|EPOCH(SECONDS|REALTIME))$/

export interface Launch {
  podId: string
  command: readonly string[]
  env: Readonly<Record<string, string>>
  disk: string
  log: string
  identityFile: string
  /** Of its control group. */
  membersFile: string | undefined
}

export interface Launched {
  child: ChildProcess
  identity: ProcessIdentity
}

export async function launch(options: Launch): Promise<Launched> {
  const { podId, command, env, disk, log, identityFile, membersFile = '' } = options
  requireProgram(options)
  const pairs = Object.entries(env)
  // Those are set behind the shell's back. They are seen among the words of a program for a moment; nothing secret has such a name.
  const late = pairs.filter(([name]) => READ.test(name)).map((pair) => pair.join('='))
  const words = late.length > 0 ? ['/usr/bin/env', ...late, ...command] : command
  const output = openSync(log, 'a', 0o600)
  let child: ChildProcess
  try {
    child = spawn('/bin/sh', ['-c', LAUNCHER, 'sh', identityFile, membersFile, ADDED.join(' '), ...words], {
      cwd: disk,
      env: Object.fromEntries(pairs.filter(([name]) => !READ.test(name))),
      stdio: ['ignore', output, output],
      // A session of its own: it outlives this service, and is ended with all that it starts.
      detached: true,
    })
  } finally {
    closeSync(output)
  }
  if (child.pid === undefined) {
    const [cause] = (await once(child, 'error')) as [Error]
    throw new ProviderError('ENGINE_FAILED', `Pod ${podId} cannot be started: ${cause.message}.`, cause)
  }
  // Not reaped before this turn ends, so that it is there even when it has ended already.
  const line = readStatLine(child.pid) ?? ''
  const stat = parseStat(line)
  if (!stat) throw new Error(`There is no /proc/${child.pid}/stat of the process just started.`)
  try {
    writeFileSync(`${identityFile}.new`, line)
    renameSync(`${identityFile}.new`, identityFile)
  } catch (cause) {
    // Nobody would know it again.
    process.kill(-child.pid, 'SIGKILL')
    throw cause
  }
  child.unref()
  return { child, identity: { pid: stat.pid, startTicks: stat.startTicks } }
}

/** Told before anything runs, as container engines do. */
function requireProgram({ podId, command, env, disk }: Launch): void {
  const [program = ''] = command
  const places = program.includes('/')
    ? [isAbsolute(program) ? program : join(disk, program)]
    : (env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, program))
  if (program !== '' && places.some(isProgram)) return
  throw new ProviderError(
    'COMMAND_NOT_FOUND',
    `Pod ${podId} cannot be started: there is no program '${program}' on this machine. Give its whole path, or a PATH with its folder, in the template's dockerStartCmd or env.`,
  )
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
