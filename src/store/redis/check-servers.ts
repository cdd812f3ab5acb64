// Whether the servers are of a kind that keeps jobs: new enough, and dropping nothing by themselves.

import { limits } from '../../job/limits.ts'
import { shownStore } from '../shown-store.ts'
import { StoreError } from '../store-error.ts'
import type { Connection } from './connection.ts'

const OLDEST = 7

/** Throws StoreError STORE_MISCONFIGURED with the mend. */
export async function checkServers(connection: Connection, url: string): Promise<void> {
  const problem =
    (await connection.info('server')).map(ageProblem).find(Boolean) ??
    (await connection.info('memory')).map(evictionProblem).find(Boolean) ??
    (await settingsOf(connection, 'proto-max-bulk-len')).map(bulkProblem).find(Boolean)
  if (problem) throw new StoreError('STORE_MISCONFIGURED', `The store ${shownStore(url)} ${problem}`)
}

/** `server` is what a server says of itself under that heading. Valkey says with which Redis it goes. */
export function ageProblem(server: string): string | undefined {
  const version = valueOf(server, 'redis_version')
  if (version === undefined || Number.parseInt(version, 10) >= OLDEST) return undefined
  return `is Redis ${version}. Use Redis ${OLDEST} or newer.`
}

/** What evicts keys loses jobs. */
export function evictionProblem(memory: string): string | undefined {
  const policy = valueOf(memory, 'maxmemory_policy')
  if (policy === undefined || policy === 'noeviction') return undefined
  return `may drop jobs when its memory is full: its maxmemory-policy is '${policy}'. Set it with: redis-cli CONFIG SET maxmemory-policy noeviction, and in its configuration.`
}

/** What is larger than this ends the connection, and whatever else was asked on it is left without an answer. */
export function bulkProblem(protoMaxBulkLen: string): string | undefined {
  const bytes = Number(protoMaxBulkLen)
  if (!(bytes < limits.reportBodyBytes)) return undefined
  return `takes no values of more than ${bytes} bytes: inputs and outputs may have ${limits.reportBodyBytes}. Set it with: redis-cli CONFIG SET proto-max-bulk-len 512mb, and in its configuration.`
}

/** Of every server that writes; none where they may not be read, as with one that is rented. */
export async function settingsOf(connection: Connection, name: string): Promise<string[]> {
  try {
    return await connection.settings(name)
  } catch {
    return []
  }
}

/** A value of what INFO answers. */
export function valueOf(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.+)$`, 'm').exec(info)?.[1]?.trim()
}
