// The endpoints in Redis: a set of their names, and each one's own hash with its defaults and counters.

import { limits } from '../../job/limits.ts'
import type { Endpoint, EndpointStore } from '../endpoint-store.ts'
import type { Connection } from './connection.ts'
import { endpointKey, ENDPOINTS } from './endpoint-key.ts'
import { numberOf, textOf } from './reply.ts'
import { script, type Script } from './script.ts'
import type { Scripts } from './scripts.ts'

/** Jobs and deliveries in one script: while it runs Redis does nothing else. */
const ROUND = 500

// What is left of it is the mark, so that nobody makes it anew who only keeps it, and the number of its last message. The
// one that makes it anew takes the mark away with the last rows, so that nothing of what comes then is removed.
const removeSome = script(
  'removeEndpoint',
  `
local round, step, removed = tonumber(ARGV[2]), ARGV[3], 0
if step == 'begin' then call('HSET', P, 'removed', 1) end
if not isRemoved() then return 0 end
for _, id in ipairs(call('ZRANGE', ALL, 0, round - 1)) do
  local found = load(id)
  if found then removeGone(found) else clear(id) end
  removed = removed + 1
end
for _, origin in ipairs(call('ZRANGE', P .. ':origins', 0, round - 1)) do
  if removed >= round then break end
  for _, number in ipairs(call('ZRANGE', P .. ':owed:' .. origin, 0, round - removed - 1)) do
    removeDelivery(number)
    -- One that cannot be read says not where it stands.
    call('ZREM', P .. ':owed:' .. origin, number)
    removed = removed + 1
  end
  rankOrigin(origin)
  removed = removed + 1
end
if removed > 0 then return removed end
for _, field in ipairs(call('HKEYS', P)) do
  if field ~= 'removed' and field ~= 'events' then call('HDEL', P, field) end
end
call('UNLINK', WAITING, LOW, LEASED, DEADLINES, GONE, SECRETS, IDEMPOTENCY, P .. ':workers')
if step == 'anew' then call('HDEL', P, 'removed') end
return 0`,
)

const make = script(
  'makeEndpoint',
  `
if isRemoved() then return 0 end
call('HSETNX', P, 'timeout', ARGV[2])
call('HSETNX', P, 'attempts', ARGV[3])
return 1`,
)

export const endpointScripts: readonly Script[] = [removeSome, make]

/** In order. */
export async function endpointNames(connection: Connection): Promise<string[]> {
  const names = (await connection.call('smembers', ENDPOINTS)) as Buffer[]
  return names.map(textOf).toSorted()
}

export class RedisEndpoints implements EndpointStore {
  readonly #connection: Connection
  #known: string[] | undefined
  /** Those that were found missing, until all of them is written, and is where it is waited for. */
  readonly #unfinished = new Set<string>()

  readonly #scripts: () => Scripts

  /** `scripts`: they are made of what knows the endpoints. */
  constructor(connection: Connection, scripts: () => Scripts) {
    this.#connection = connection
    this.#scripts = scripts
  }

  async ensureEndpoint(id: string): Promise<boolean> {
    for (;;) {
      if (await this.wasRemoved(id)) await this.#remove(id, 'anew')
      const made = await this.#make(id)
      // Otherwise another server has removed it meanwhile.
      if (made !== 'removed') return made
    }
  }

  async keepEndpoint(id: string): Promise<boolean> {
    return (await this.wasRemoved(id)) ? false : (await this.#make(id)) === true
  }

  async wasRemoved(id: string): Promise<boolean> {
    return (await this.#connection.call('hexists', endpointKey(id), 'removed')) === 1
  }

  async removeEndpoint(id: string): Promise<void> {
    const isKnown = (await this.findEndpoint(id)) !== undefined || (await this.wasRemoved(id))
    if (!isKnown) return
    await this.#remove(id, 'begin')
    await this.#nameAsItIs(id)
  }

  async #remove(id: string, first: 'begin' | 'anew'): Promise<void> {
    const next = first === 'begin' ? 'go on' : first
    let step: string = first
    while (((await this.#scripts().run(removeSome, id, [0, ROUND, step])) as number) > 0) step = next
  }

  /** The names may be on another node than the endpoint, and another server may make or remove it meanwhile. */
  async #nameAsItIs(id: string): Promise<void> {
    const isThere = async (): Promise<boolean> => (await this.#find(id, this.#connection.call)) !== undefined
    let named: boolean
    do {
      named = await isThere()
      await this.#connection.write(named ? 'sadd' : 'srem', ENDPOINTS, id)
    } while (named !== (await isThere()))
  }

  async #make(id: string): Promise<boolean | 'removed'> {
    // A Redis that is full refuses even what would change nothing.
    if (!this.#unfinished.has(id) && (await this.isWhole(id))) return false
    this.#unfinished.add(id)
    const defaults = [limits.executionTimeoutMs.default, limits.maxAttempts.default]
    const isMade = (await this.#scripts().run(make, id, [0, ...defaults])) === 1
    // The name comes last: whoever finds it finds the rest.
    if (isMade) await this.#nameAsItIs(id)
    this.#unfinished.delete(id)
    return isMade || 'removed'
  }

  /** Its hash and its name may be on two nodes, and one of them may come back without it. */
  async isWhole(id: string): Promise<boolean> {
    const [found, isNamed] = await Promise.all([
      this.#find(id, this.#connection.call),
      this.#connection.call('sismember', ENDPOINTS, id),
    ])
    return found !== undefined && isNamed === 1
  }

  async setEndpoint(id: string, { executionTimeoutMs }: { executionTimeoutMs: number }): Promise<void> {
    const { call, write } = this.#connection
    // Never taken away again, so that what is there now is there below.
    if ((await call('hexists', endpointKey(id), 'timeout')) === 1)
      await write('hset', endpointKey(id), 'timeout', executionTimeoutMs)
  }

  async findEndpoint(id: string): Promise<Endpoint | undefined> {
    return this.#find(id, this.#connection.told)
  }

  async #find(id: string, ask: Connection['call']): Promise<Endpoint | undefined> {
    const found = await ask('hmget', endpointKey(id), 'timeout', 'attempts', 'removed')
    const [timeout, attempts, removed] = found as (Buffer | null)[]
    if (!timeout || !attempts || removed) return undefined
    return { id, executionTimeoutMs: numberOf(timeout), maxAttempts: numberOf(attempts) }
  }

  async listEndpoints(): Promise<Endpoint[]> {
    const found = await Promise.all((await this.names()).map((id) => this.findEndpoint(id)))
    return found.filter((endpoint) => endpoint !== undefined)
  }

  async names(): Promise<string[]> {
    this.#known = await endpointNames(this.#connection)
    return this.#known
  }

  /**
   * The same, or as they were last when they cannot be asked for: in a cluster they are on one node, and what is to be
   * done for an endpoint on another does not wait for that.
   */
  async knownNames(): Promise<string[]> {
    try {
      return await this.names()
    } catch (cause) {
      if (this.#known) return this.#known
      throw cause
    }
  }
}
