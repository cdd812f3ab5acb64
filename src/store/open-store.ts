// From the --store setting to an open store.

import { shownStore } from './shown-store.ts'
import type { OpenKeys } from './key-store.ts'
import type { Store } from './store.ts'
import { StoreError } from './store-error.ts'

export interface OpenOptions {
  /** Replicas that have every write before it is answered; 0 by default. */
  replicas?: number
  /** Takes a sentence that whoever runs this server is to see. */
  warn?: (sentence: string) => void
}

/** `sqlite:<path>`, `sqlite::memory:`, `redis://host:port`, `redis+sentinel://host:port,…/name` or `redis+cluster://host:port,…`; with TLS rediss. */
export async function openStore(url: string, options: OpenOptions = {}): Promise<Store> {
  const problem = waitProblem(url, options.replicas)
  if (problem !== undefined) throw new StoreError('STORE_MISCONFIGURED', problem)
  if (isRedis(url)) {
    const { openRedisStore } = await import('./redis/redis-store.ts')
    return openRedisStore({ url, ...options })
  }
  const file = sqlitePath(url)
  const { openSqliteStore } = await import('./sqlite/sqlite-store.ts')
  return openSqliteStore({ file })
}

/** Why this kind of store has no replicas that could be waited for. */
export function waitProblem(url: string, replicas = 0): string | undefined {
  if (replicas === 0) return undefined
  if (!isRedis(url))
    return `--redis-wait is for a store in Redis, and ${shownStore(url)} is none. Leave it out, or give --store redis://<host>:<port>.`
  if (!/\+cluster:/.test(url)) return undefined
  return '--redis-wait waits for the replicas of one server, and this is a cluster. Leave it out, or use one server with replicas.'
}

/** The keys of a store that exists, whether or not a service is running on it. Throws StoreError. */
export async function openKeys(url: string, options: OpenOptions = {}): Promise<OpenKeys> {
  const problem = waitProblem(url, options.replicas)
  if (problem !== undefined) throw new StoreError('STORE_MISCONFIGURED', problem)
  // Any number of programs may have one of these open.
  if (isRedis(url)) return openStore(url, options)
  const file = sqlitePath(url)
  const { openSqliteKeys } = await import('./sqlite/open-keys.ts')
  return openSqliteKeys(file)
}

/** Whether it is one that several servers share. */
export function isShared(url: string): boolean {
  return isRedis(url)
}

export function isRedis(url: string): boolean {
  return /^rediss?(?:\+(?:cluster|sentinel))?:\/\//.test(url)
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
