// Whose a fleet's folder is: two services on one would both look after the same pods.

import { mkdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { isAlive, readBootId, readStat } from './process-identity.ts'
import { ProviderError } from './provider.ts'

const holderSchema = z.object({ pid: z.int(), startTicks: z.string(), bootId: z.string() })
type Holder = z.output<typeof holderSchema>

export interface FolderClaim {
  release(): void
}

/**
 * The folder is this process's until `release`, or until the process has ended, however. Throws the ProviderError
 * FOLDER_IN_USE with the pid of whoever has it. Linux only: a process is known by its number and its start.
 */
export function claimFolder(dir: string): FolderClaim {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const stat = readStat(process.pid)
  if (!stat)
    throw new ProviderError(
      'ENGINE_FAILED',
      `The folder ${dir} cannot be claimed for this service's pods: this system has no /proc. Run the service on Linux.`,
    )
  const own: Holder = { pid: stat.pid, startTicks: stat.startTicks, bootId: bootName() }
  const path = join(dir, 'claim')
  const holder = take(path, own)
  if (holder)
    throw new ProviderError(
      'FOLDER_IN_USE',
      `The folder ${dir} is in use by the service with pid ${holder.pid}, which runs its pods there. Stop that one first, or give this one a folder of its own with --fleet-dir.`,
    )
  return { release: () => release(path, own) }
}

/** Undefined once it is ours; else who has it. */
function take(path: string, own: Holder): Holder | undefined {
  for (;;) {
    if (link(path, own)) return undefined
    const holder = read(path)
    if (!holder) continue
    if (isThere(holder)) return holder
    // One at a time removes what a dead one has left: the second to see it would remove the claim of the first. That turn is
    // claimed in the same way, for its owner can die too.
    const turn = `${path}.next`
    const other = take(turn, own)
    if (other) return other
    try {
      const now = read(path)
      if (now && isSame(now, holder)) rmSync(path, { force: true })
    } finally {
      rmSync(turn, { force: true })
    }
  }
}

function release(path: string, own: Holder): void {
  const holder = read(path)
  if (holder && isSame(holder, own)) rmSync(path, { force: true })
}

function isThere(holder: Holder): boolean {
  return holder.bootId === bootName() && isAlive(holder)
}

function bootName(): string {
  return readBootId().replaceAll('-', '')
}

function isSame(a: Holder, b: Holder): boolean {
  return a.pid === b.pid && a.startTicks === b.startTicks && a.bootId === b.bootId
}

/**
 * False when there is one already. A claim is the target of a symbolic link: it is there whole or not at all, and so short that
 * a disk that is full has room for it. A service that cannot claim its folder can stop nothing that fills the disk.
 */
function link(path: string, { pid, startTicks, bootId }: Holder): boolean {
  try {
    symlinkSync([pid, startTicks, bootId].join('.'), path)
    return true
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw cause
  }
}

/** Undefined when it is gone. */
function read(path: string): Holder | undefined {
  try {
    const [pid, startTicks, bootId] = readlinkSync(path).split('.')
    return holderSchema.parse({ pid: Number(pid), startTicks, bootId })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw cause
  }
}
