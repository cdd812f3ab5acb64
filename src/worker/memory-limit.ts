// Whether the kernel ended something for going over the memory limit of this container.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** How many processes of this container were ended for want of memory so far; undefined where nobody counts. */
export function oomKills(): number | undefined {
  for (const file of counters()) {
    try {
      const count = /^oom_kill (\d+)$/m.exec(readFileSync(file, 'utf8'))?.[1]
      if (count !== undefined) return Number(count)
    } catch {
      // This kernel counts elsewhere, or not at all.
    }
  }
  return undefined
}

/** Within a container its own group is the root; beside it, /proc tells which one this process is in. */
function counters(): string[] {
  const files = ['/sys/fs/cgroup/memory.events', '/sys/fs/cgroup/memory/memory.oom_control']
  let groups: string
  try {
    groups = readFileSync('/proc/self/cgroup', 'utf8')
  } catch {
    return files
  }
  const v1 = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m.exec(groups)?.[1]
  const v2 = /^0::(.*)$/m.exec(groups)?.[1]
  if (v1 !== undefined) files.unshift(join('/sys/fs/cgroup/memory', v1, 'memory.oom_control'))
  if (v2 !== undefined) files.unshift(join('/sys/fs/cgroup', v2, 'memory.events'))
  return files
}
