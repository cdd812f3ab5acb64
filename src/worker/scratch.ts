// Folders of jobs, removed whatever the job has made of them.

import { randomBytes } from 'node:crypto'
import { chmod, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Where the runs of one executor may have their folders; each is made by its run, and removed here. */
export class ScratchFolders {
  /** A container may come back with the same pid and the same disk. */
  readonly #root = join(tmpdir(), `longshore-${process.pid}-${randomBytes(4).toString('hex')}`)
  readonly #removals = new Set<Promise<void>>()

  pathOf(run: number): string {
    return `${this.#root}-${run}`
  }

  /** Begins to remove the folder of a run. */
  remove(run: number): void {
    const removal = removeFolder(this.pathOf(run)).finally(() => this.#removals.delete(removal))
    this.#removals.add(removal)
  }

  /** Resolves once those are gone that are to be removed now. */
  get removed(): Promise<unknown> {
    return Promise.all(this.#removals)
  }
}

/** Removes a folder with all that is in it. Never rejects: what cannot be removed at all is left to the system. */
export async function removeFolder(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true })
  } catch {
    // A job may leave folders that nothing can be removed from, as some package caches are.
    await makeWritable(folder)
    await rm(folder, { recursive: true, force: true }).catch(() => undefined)
  }
}

async function makeWritable(folder: string): Promise<void> {
  await chmod(folder, 0o700).catch(() => undefined)
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) if (entry.isDirectory()) await makeWritable(join(folder, entry.name))
}
