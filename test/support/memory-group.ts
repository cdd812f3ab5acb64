// A group of processes with a memory limit of its own, as a container is one: the kernel's own, where it may be made.

import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface MemoryGroup {
  /** A shell command that puts itself there and becomes the program. */
  command: string
  remove(): void
}

const hierarchies = [
  { root: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes' },
  { root: '/sys/fs/cgroup', limit: 'memory.max' },
]

/** Undefined where no such group can be made: no kernel support, or not root. */
export function makeMemoryGroup(bytes: number): MemoryGroup | undefined {
  for (const { root, limit } of hierarchies) {
    const dir = join(root, `longshore-test-${process.pid}`)
    try {
      mkdirSync(dir)
    } catch {
      // The other kind, perhaps.
      continue
    }
    const remove = (): void => rmdirSync(dir)
    if (existsSync(join(dir, limit))) {
      writeFileSync(join(dir, limit), String(bytes))
      return { command: `echo $$ > ${join(dir, 'cgroup.procs')} && exec "$@"`, remove }
    }
    remove()
  }
  return undefined
}
