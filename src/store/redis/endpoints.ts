// The endpoints in Redis: a set of their names, and each one's own hash with its defaults and counters.

import { limits } from '../../job/limits.ts'
import type { Endpoint, EndpointStore } from '../store.ts'
import type { Connection } from './connection.ts'
import { numberOf, textOf } from './reply.ts'

export const ENDPOINTS = 'longshore:endpoints'

/** The hash of an endpoint; its braces keep all that begins with it on one node of a cluster. */
export function endpointKey(endpoint: string): string {
  return `longshore:{${endpoint}}`
}

export class RedisEndpoints implements EndpointStore {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async ensureEndpoint(id: string): Promise<Endpoint> {
    const { call, write } = this.#connection
    // A Redis that is full refuses even what would change nothing.
    const known = await this.findEndpoint(id)
    if (known && (await call('sismember', ENDPOINTS, id)) === 1) return known
    await write('hsetnx', endpointKey(id), 'timeout', limits.executionTimeoutMs.default)
    await write('hsetnx', endpointKey(id), 'attempts', limits.maxAttempts.default)
    // The name comes last: whoever finds it finds the rest.
    await write('sadd', ENDPOINTS, id)
    const made = await this.findEndpoint(id)
    if (!made) throw new Error(`The endpoint '${id}' was made and cannot be found.`)
    return made
  }

  async findEndpoint(id: string): Promise<Endpoint | undefined> {
    const found = await this.#connection.call('hmget', endpointKey(id), 'timeout', 'attempts')
    const [timeout, attempts] = found as (Buffer | null)[]
    if (!timeout || !attempts) return undefined
    return { id, executionTimeoutMs: numberOf(timeout), maxAttempts: numberOf(attempts) }
  }

  async listEndpoints(): Promise<Endpoint[]> {
    const found = await Promise.all((await this.names()).map((id) => this.findEndpoint(id)))
    return found.filter((endpoint) => endpoint !== undefined)
  }

  /** In order. */
  async names(): Promise<string[]> {
    const names = (await this.#connection.call('smembers', ENDPOINTS)) as Buffer[]
    return names.map(textOf).toSorted()
  }
}
