// The fleet's records in Redis: a hash for each kind, one of its names, and the duties; all in one slot.

import type { z } from 'zod'
import { recordKinds, type FleetStore, type RecordKind, type Records, type Stored } from '../fleet-store.ts'
import type { Connection } from './connection.ts'
import { textOf } from './reply.ts'
import { plainScript, slotScript } from './script.ts'

/** No endpoint can be named so. */
export const FLEET = 'longshore:{:fleet}'

/** The hash of a kind's records. */
export function recordsKey(kind: RecordKind): string {
  return `${FLEET}:${kind}`
}

// KEYS[1] is the hash of the kind; that of its names goes by the same with `:names`. A record is `<revision>:<JSON>`.
const add = slotScript(
  'addRecord',
  `
local id, name, body = ARGV[1], ARGV[2], ARGV[3]
local names = KEYS[1] .. ':names'
if redis.call('HEXISTS', KEYS[1], id) == 1 then return 0 end
if name ~= '' and redis.call('HSETNX', names, name, id) == 0 then return 0 end
redis.call('HSET', KEYS[1], id, '1:' .. body)
return 1`,
)

const replace = slotScript(
  'replaceRecord',
  `
local id, name, body, revision = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local names = KEYS[1] .. ':names'
local found = redis.call('HGET', KEYS[1], id)
if not found or string.match(found, '^(%d+):') ~= revision then return 'changed' end
if name ~= '' then
  local owner = redis.call('HGET', names, name)
  if owner and owner ~= id then return 'taken' end
  local before = cjson.decode(string.sub(found, #revision + 2)).name
  if before ~= name then redis.call('HDEL', names, before) end
  redis.call('HSET', names, name, id)
end
redis.call('HSET', KEYS[1], id, (revision + 1) .. ':' .. body)
return 'replaced'`,
)

const remove = slotScript(
  'removeRecord',
  `
local found = redis.call('HGET', KEYS[1], ARGV[1])
if not found then return 0 end
local name = cjson.decode(string.match(found, '^%d+:(.*)$')).name
if name and redis.call('HGET', KEYS[1] .. ':names', name) == ARGV[1] then
  redis.call('HDEL', KEYS[1] .. ':names', name)
end
return redis.call('HDEL', KEYS[1], ARGV[1])`,
)

const hold = plainScript(
  'holdDuty',
  `
local duty, holder, forMs, now = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local found = redis.call('HGET', KEYS[1], duty)
if found then
  local till, heldMs, other = string.match(found, '^(%d+):(%-?%d+):(.*)$')
  local leftMs = till and tonumber(till) - now or 0
  -- One that lasts longer than it was held for is of a clock that was set back since.
  if other ~= holder and leftMs > 0 and leftMs <= tonumber(heldMs) + 1000 then return 0 end
end
redis.call('HSET', KEYS[1], duty, string.format('%d:%d:%s', now + forMs, forMs, holder))
return 1`,
)

const letGo = plainScript(
  'letGoDuty',
  `
local found = redis.call('HGET', KEYS[1], ARGV[1])
if found and string.match(found, '^%d+:%-?%d+:(.*)$') == ARGV[2] then redis.call('HDEL', KEYS[1], ARGV[1]) end
return 1`,
)

export const fleetScripts = [add, replace, remove, hold, letGo]

export function makeFleet(connection: Connection): FleetStore {
  const duties = `${FLEET}:duties`
  return {
    templates: recordsOf('templates', connection),
    endpoints: recordsOf('endpoints', connection),
    pods: recordsOf('pods', connection),
    endedPods: recordsOf('endedPods', connection),
    releases: recordsOf('releases', connection),
    scalings: recordsOf('scalings', connection),
    registryAuths: recordsOf('registryAuths', connection),
    hold: async (duty, { holder, forMs, now }) =>
      (await connection.run(hold, duties, [duty, holder, forMs, now])) === 1,
    letGo: async (duty, holder) => void (await connection.run(letGo, duties, [duty, holder])),
  }
}

type ValueOf<K extends RecordKind> = z.output<(typeof recordKinds)[K]['schema']>

function recordsOf<K extends RecordKind>(kind: K, connection: Connection): Records<ValueOf<K>> {
  const { schema, hasUniqueNames } = recordKinds[kind]
  const key = recordsKey(kind)
  const read = (found: Buffer): Stored<ValueOf<K>> => {
    const at = found.indexOf(':')
    return {
      revision: Number(found.toString('utf8', 0, at)),
      value: schema.parse(JSON.parse(found.toString('utf8', at + 1))) as ValueOf<K>,
    }
  }
  const wordsOf = (value: ValueOf<K>): string[] => [
    value.id,
    hasUniqueNames && 'name' in value ? value.name : '',
    JSON.stringify(value),
  ]
  return {
    add: async (value) => (await connection.run(add, key, wordsOf(value))) === 1,
    async find(id) {
      const found = (await connection.told('hget', key, id)) as Buffer | null
      return found === null ? undefined : read(found)
    },
    async list() {
      const found = (await connection.told('hvals', key)) as Buffer[]
      return found.map(read).toSorted((a, b) => (a.value.id < b.value.id ? -1 : 1))
    },
    replace: async (value, revision) =>
      textOf((await connection.run(replace, key, [...wordsOf(value), revision])) as Buffer) as
        'replaced' | 'changed' | 'taken',
    remove: async (id) => (await connection.run(remove, key, [id])) === 1,
  }
}
