// Every child process that the code under test starts, so that none outlives its test unseen.

import type { ChildProcess } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'
import { existsSync, readFileSync } from 'node:fs'

const started: ChildProcess[] = []
subscribe('child_process', (message) => started.push((message as { process: ChildProcess }).process))

/** A moment in the life of this process: how many children it had started. */
export function childrenSoFar(): number {
  return started.length
}

/** The pids of children started since then that still run. */
export function childrenLeft(since = 0): number[] {
  return started.slice(since).flatMap(({ pid }) => (pid === undefined || !isRunning(pid) ? [] : [pid]))
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return !isZombie(pid)
  } catch {
    return false
  }
}

/** Ended, but not yet taken note of by its parent: in a container there may be nobody who does. */
function isZombie(pid: number): boolean {
  const file = `/proc/${pid}/stat`
  return existsSync(file) && /^\d+ \(.*\) [ZX]/s.test(readFileSync(file, 'utf8'))
}
