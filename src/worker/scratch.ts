// Folders of jobs, removed whatever the job has made of them.

import { chmod, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

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
