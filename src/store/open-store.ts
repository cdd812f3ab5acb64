// From the --store setting to an open store.

import { shownStore } from './shown-store.ts'
import type { OpenKeys, Store } from './store.ts'
import { StoreError } from './store.ts'

/** `sqlite:<path>`, `sqlite::memory:`, `redis://host:port` or `redis+cluster://host:port,…`, the last two with TLS as rediss. */
export async function openStore(url: string, { replicas = 0 } = {}): Promise<Store> {
  if (isRedis(url)) {
    const { openRedisStore } = await import('./redis/redis-store.ts')
    return openRedisStore({ url, replicas })
  }
  if (replicas > 0) {
    throw new StoreError(
      'STORE_MISCONFIGURED',
      `--redis-wait is for a store in Redis, and ${shownStore(url)} is none. Leave it out, or give --store redis://<host>:<port>.`,
    )
  }
  const file = sqlitePath(url)
  const { openSqliteStore } = await import('./sqlite/sqlite-store.ts')
  return openSqliteStore({ file })
}

/** The keys of a store that exists, whether or not a service is running on it. Throws StoreError. */
export async function openKeys(url: string): Promise<OpenKeys> {
  // Any number of programs may have one of these open.
  if (isRedis(url)) return openStore(url)
  const file = sqlitePath(url)
  const { openSqliteKeys } = await import('./sqlite/open-keys.ts')
  return openSqliteKeys(file)
}

/** Whether it is one that several servers share. */
export function isShared(url: string): boolean {
  return isRedis(url)
}

export function isRedis(url: string): boolean {
  return /^rediss?(?:\+cluster)?:\/\//.test(url)
}

/** Throws StoreError for what names no kind of store. */
export function sqlitePath(url: string): string {
  const path = /^sqlite:(.+)$/.exec(url)?.[1]
  if (path !== undefined) return path
  throw new StoreError(
    'STORE_UNREADABLE',
    `Unknown store '${shownStore(url)}'. Use sqlite:<file> or redis://<host>:<port>, for example --store sqlite:queue.db.`,
  )
}

/** The file of an embedded store, links followed, beside which the files that belong to it live. */
export async function storeFile(url: string): Promise<string | undefined> {
  const path = /^sqlite:(.+)$/.exec(url)?.[1]
  if (path === undefined || path === ':memory:') return undefined
  const { realFile } = await import('./sqlite/real-file.ts')
  return realFile(path)
}
