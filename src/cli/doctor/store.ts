// Whether the store of a service can be used, and what lies beside it.

import { existsSync } from 'node:fs'
import { problem, type Finding } from '../../lib/finding.ts'
import { examineStore } from '../../store/doctor.ts'
import { storeFile } from '../../store/open-store.ts'
import { StoreError } from '../../store/store-error.ts'
import { isForPeople } from '../fail.ts'
import { examineKeyFile } from '../secret-key.ts'

/** What is found of a store; what cannot even be looked at is found too. */
export async function examineNamedStore(url: string, { replicas }: { replicas: number }): Promise<Finding[]> {
  try {
    return await examineStore(url, { replicas })
  } catch (cause) {
    const file = fileOf(url)
    if (!isForPeople(cause) || file === undefined) throw cause
    return [
      problem(
        `The store ${file} cannot be opened: ${cause.message}. Name a queue file, or a new file in a folder that exists and can be written, with --store sqlite:<file>.`,
      ),
    ]
  }
}

/** Of the queue file of `longshore dev`, which makes it; what a store must keep is no matter there. */
export async function examineDevStore(url: string | undefined): Promise<Finding[]> {
  if (url === undefined || fileOf(url) === undefined) return []
  const findings = await examineNamedStore(url, { replicas: 0 })
  return findings.filter(({ level }) => level === 'problem')
}

/** Of the file that holds the secret of a queue file. A name that can be no queue file's is the matter of the store. */
export async function examineStoreKey(url: string): Promise<Finding[]> {
  const file = fileOf(url)
  if (file === undefined || !existsSync(file)) return []
  try {
    return examineKeyFile((await storeFile(url)) ?? file)
  } catch (cause) {
    if (cause instanceof StoreError) return []
    throw cause
  }
}

/** The file that an address names; undefined for stores in memory and in Redis. */
export function fileOf(url: string | undefined): string | undefined {
  const file = /^sqlite:(.+)$/.exec(url ?? '')?.[1]
  return file === ':memory:' ? undefined : file
}
