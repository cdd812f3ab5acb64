// A control group of one pod: the kernel holds its processes to a memory limit and knows them all.

import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

interface Hierarchy {
  root: string
  limit: string
  /** Swap would let a pod go over its limit, slowly and at the cost of all others. */
  swap: { file: string; value(bytes: number): string }
  kills: string
}

const hierarchies: readonly Hierarchy[] = [
  {
    root: '/sys/fs/cgroup/memory',
    limit: 'memory.limit_in_bytes',
    swap: { file: 'memory.memsw.limit_in_bytes', value: String },
    kills: 'memory.oom_control',
  },
  {
    root: '/sys/fs/cgroup',
    limit: 'memory.max',
    swap: { file: 'memory.swap.max', value: () => '0' },
    kills: 'memory.events',
  },
]

export class MemoryGroup {
  readonly #dir: string
  readonly #hierarchy: Hierarchy

  private constructor(hierarchy: Hierarchy, podId: string) {
    this.#hierarchy = hierarchy
    this.#dir = dirOf(hierarchy, podId)
  }

  /** Undefined where none can be made: no such kernel, or no right to. */
  static make(podId: string, bytes: number): MemoryGroup | undefined {
    for (const hierarchy of hierarchies) {
      const dir = dirOf(hierarchy, podId)
      try {
        // Not the folders above it: in the other hierarchy each would be a group.
        mkdirSync(dir)
      } catch (cause) {
        // The other kind, perhaps; or one that a start before could not remove.
        if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') continue
      }
      const group = new MemoryGroup(hierarchy, podId)
      if (group.#limit(bytes)) return group
      rmdirSync(dir)
    }
    return undefined
  }

  /** The one that was made before, if it is still there. */
  static find(podId: string): MemoryGroup | undefined {
    const hierarchy = hierarchies.find((one) => existsSync(join(dirOf(one, podId), one.limit)))
    return hierarchy && new MemoryGroup(hierarchy, podId)
  }

  /** A process that writes its number there belongs to it from then on, with all that it starts. */
  get membersFile(): string {
    return join(this.#dir, 'cgroup.procs')
  }

  get members(): number[] {
    return this.#read('cgroup.procs').split('\n').filter(Boolean).map(Number)
  }

  /** How many processes the kernel ended here for want of memory. */
  get kills(): number {
    return Number(/^oom_kill (\d+)$/m.exec(this.#read(this.#hierarchy.kills))?.[1] ?? 0)
  }

  /** False while the kernel still holds on to it, which it does for a moment after the last process. */
  remove(): boolean {
    try {
      rmdirSync(this.#dir)
      return true
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      if (code === 'ENOENT') return true
      if (code === 'EBUSY') return false
      throw cause
    }
  }

  /** Nothing once it is removed. */
  #read(file: string): string {
    try {
      return readFileSync(join(this.#dir, file), 'utf8')
    } catch (cause) {
      const { code } = cause as NodeJS.ErrnoException
      if (code === 'ENOENT' || code === 'ENODEV') return ''
      throw cause
    }
  }

  #limit(bytes: number): boolean {
    const { limit, swap } = this.#hierarchy
    if (!existsSync(join(this.#dir, limit))) return false
    writeFileSync(join(this.#dir, limit), String(bytes))
    if (existsSync(join(this.#dir, swap.file))) writeFileSync(join(this.#dir, swap.file), swap.value(bytes))
    return true
  }
}

function dirOf({ root }: Hierarchy, podId: string): string {
  return join(root, `longshore-${podId}`)
}
