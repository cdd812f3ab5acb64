// Which process is meant: a number alone may by now be that of another.

import { readdirSync, readFileSync } from 'node:fs'

export interface ProcessIdentity {
  pid: number
  /** Since the machine's start, in the kernel's ticks; with the number it names one process of this start. */
  startTicks: string
}

/** A line of /proc/<pid>/stat. */
export interface ProcessStat extends ProcessIdentity {
  state: string
  session: number
}

/** The name of the program is in parentheses and may hold any of the signs around it. */
export function parseStat(line: string): ProcessStat | undefined {
  const end = line.lastIndexOf(')')
  const pid = Number.parseInt(line, 10)
  const [state = '', , , session = ''] = line.slice(end + 2).split(' ')
  const startTicks = line
    .slice(end + 2)
    .trimEnd()
    .split(' ')[19]
  if (end < 0 || !Number.isSafeInteger(pid) || startTicks === undefined) return undefined
  return { pid, state, session: Number(session), startTicks }
}

/** Undefined when there is none of this number. */
export function readStat(pid: number): ProcessStat | undefined {
  return parseStat(readStatLine(pid) ?? '')
}

export function readStatLine(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    throw cause
  }
}

/** Whether this very process runs. One that has ended and was not yet reaped does not. */
export function isAlive(identity: ProcessIdentity): boolean {
  const stat = readStat(identity.pid)
  return stat?.startTicks === identity.startTicks && !hasEnded(stat)
}

/**
 * Who is left of the session that this process led. The kernel gives the number of a session to nobody else while it has
 * members; so if another process has it now, there were none left.
 */
export function sessionMembers(leader: ProcessIdentity): number[] {
  const now = readStat(leader.pid)
  if (now && now.startTicks !== leader.startTicks) return []
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      const stat = pid > 0 ? readStat(pid) : undefined
      return stat?.session === leader.pid && !hasEnded(stat)
    })
}

/** Another one for each start of the machine. */
export function readBootId(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
}

function hasEnded({ state }: ProcessStat): boolean {
  return state === 'Z' || state === 'X'
}
