// Scripts that run whole inside Redis: a common part made from the lifecycle table, and a body for each verb.

import { createHash } from 'node:crypto'
import { finalStatuses, transitions } from '../../job/lifecycle.ts'

export interface Script {
  readonly name: string
  readonly text: string
  readonly sha: string
  /** Whether somebody is told that what it did lasts. */
  readonly promises: boolean
}

/** They take in what is new. A Redis that is full refuses them before they have written anything. */
const GROW = new Set(['enqueue', 'appendChunks', 'setProgress'])
const READ = new Set(['find', 'list', 'readChunks', 'count', 'headWaited', 'nextDue'])
/** Of passing interest: rates, and who was heard. */
const PASSING = new Set(['enter', 'leave', 'tell', 'listWorkers', 'markRead'])

/** The rest make room, or lead there: jobs are leased, end and go also while Redis is full. */
const ALSO_WHEN_FULL = '#!lua flags=allow-oom\n'

/** A table for Lua of what the lifecycle says: `FROM.cancel.IN_QUEUE`, `TO.cancel`, `REASON.cancel`, `FINAL.COMPLETED`. */
function lifecycleTables(): string {
  const from: string[] = []
  const to: string[] = []
  const reason: string[] = []
  for (const [event, transition] of Object.entries(transitions)) {
    from.push(`${event} = { ${transition.from.map((status) => `${status} = true`).join(', ')} }`)
    to.push(`${event} = '${transition.to}'`)
    if ('reason' in transition) reason.push(`${event} = '${transition.reason}'`)
  }
  const final = finalStatuses.map((status) => `${status} = true`)
  return [
    `local FROM = { ${from.join(', ')} }`,
    `local TO = { ${to.join(', ')} }`,
    `local REASON = { ${reason.join(', ')} }`,
    `local FINAL = { ${final.join(', ')} }`,
  ].join('\n')
}

// KEYS[1] is the endpoint's own hash; all its other keys begin with that name, and so share its hash tag. ARGV[1] is `now:server`.
const PRELUDE = `
local P = KEYS[1]
local stamp, sender = string.match(ARGV[1], '^(%d+):(.*)$')
local now = tonumber(stamp)
local call = redis.call
${lifecycleTables()}
local function job(id) return P .. ':job:' .. id end
local function data(id) return P .. ':data:' .. id end
local function chunks(id) return P .. ':chunks:' .. id end
local WAITING, LEASED, DEADLINES = P .. ':waiting', P .. ':leased', P .. ':deadlines'
local GONE, ALL, SECRETS, IDEMPOTENCY = P .. ':gone', P .. ':all', P .. ':secrets', P .. ':idempotency'

local events = {}
local function emit(...) events[#events + 1] = { ... } end

local function load(id)
  local flat = call('HGETALL', job(id))
  if #flat == 0 then return nil end
  local found = { id = id }
  for at = 1, #flat, 2 do found[flat[at]] = flat[at + 1] end
  return found
end

-- A job that is past its ttl or retention is not there, swept or not.
local function present(id)
  local found = load(id)
  if found and tonumber(found.gone) > now then return found end
  return nil
end

local function count(event, status)
  local to = TO[event]
  if to == 'COMPLETED' then call('HINCRBY', P, 'completed', 1) end
  if to == 'FAILED' or to == 'TIMED_OUT' then call('HINCRBY', P, 'failed', 1) end
  if event == 'lapse' or event == 'lose' or event == 'retry' then call('HINCRBY', P, 'retried', 1) end
end

-- Whoever speaks for a running job holds its lease, or is its worker where the wire has no tokens.
local function fenced(id, event, kind, token, mustBePresent)
  local found = load(id)
  if not found or not FROM[event][found.status] then return nil end
  if mustBePresent and tonumber(found.gone) <= now then return nil end
  if (kind == 'lease' and found.lease or found.worker) ~= token then return nil end
  return found
end

local function limitOf(found)
  return tonumber(found.timeout or call('HGET', P, 'timeout'))
end

local function emitStop(found, reason)
  if found.lease then emit('stop', found.worker, found.id, found.lease, reason) end
end

local function setGone(found, at)
  call('HSET', job(found.id), 'gone', at)
  call('ZADD', GONE, at, found.id)
end

-- A run is over: its time is added up, its lease and all that hung on it is gone.
local function endRun(found, executionMs)
  local ranMs = executionMs or (found.start and math.max(0, now - tonumber(found.start))) or 0
  call('HSET', job(found.id), 'ran', tonumber(found.ran) + ranMs, 'execution', ranMs)
  call('HDEL', job(found.id), 'start', 'lease', 'confirmed')
  call('HDEL', data(found.id), 'progress')
  call('ZREM', LEASED, found.id)
  call('ZREM', DEADLINES, found.id)
end

-- An origin is due when its first delivery is.
local function rankOrigin(origin)
  local first = call('ZRANGE', P .. ':owed:' .. origin, 0, 0, 'WITHSCORES')
  if first[2] then call('ZADD', P .. ':origins', first[2], origin) else call('ZREM', P .. ':origins', origin) end
end

local function removeDelivery(number)
  local delivery = P .. ':delivery:' .. number
  local found = call('HMGET', delivery, 'origin', 'id')
  if not found[1] then return end
  call('UNLINK', delivery)
  call('ZREM', P .. ':owed:' .. found[1], number)
  call('SREM', P .. ':deliveries:' .. found[2], number)
  rankOrigin(found[1])
end

-- The copy is what the receiver is told, whatever becomes of the job.
local function oweWebhook(id)
  local kept = data(id)
  local url, origin = unpack(call('HMGET', kept, 'webhook', 'origin'))
  if not url then return end
  local number = call('HINCRBY', P, 'deliveries', 1)
  local delivery = P .. ':delivery:' .. number
  local fields = call('HGETALL', job(id))
  for at = 1, #fields, 2 do call('HSET', delivery, 'job.' .. fields[at], fields[at + 1]) end
  for _, field in ipairs({ 'input', 'output', 'error', 'errorText', 'trace', 'dialect' }) do
    local value = call('HGET', kept, field)
    if value then call('HSET', delivery, field, value) end
  end
  call('HSET', delivery, 'id', id, 'url', url, 'origin', origin, 'attempts', 0)
  call('ZADD', P .. ':owed:' .. origin, now, number)
  call('SADD', P .. ':deliveries:' .. id, number)
  rankOrigin(origin)
  emit('webhook')
end

local function finish(found, event, reason)
  local status = TO[event]
  call('HSET', job(found.id), 'status', status, 'end', now)
  if reason then call('HSET', job(found.id), 'reason', reason) else call('HDEL', job(found.id), 'reason') end
  setGone(found, now + tonumber(found.retention))
  if FINAL[status] then
    call('HDEL', data(found.id), 's3')
  elseif call('HEXISTS', data(found.id), 's3') == 1 then
    call('ZADD', SECRETS, tonumber(found.submitted) + tonumber(found.ttl), found.id)
  end
  count(event)
  oweWebhook(found.id)
  emit('changed', found.id, status)
end

local function fail(found, event, reason, failure, stop)
  call('HSET', data(found.id), 'error', failure)
  emitStop(found, stop)
  endRun(found)
  finish(found, event, reason)
end

local function handBack(found, event, counted, executionMs)
  call('UNLINK', chunks(found.id))
  endRun(found, executionMs)
  call('HSET', job(found.id), 'status', TO[event], 'reason', REASON[event], 'attempt', tonumber(found.attempt) + counted)
  call('ZADD', WAITING, found.position, found.id)
  count(event)
  emit('changed', found.id, TO[event])
  emit('queued')
end

local function remove(found, event)
  local id = found.id
  call('UNLINK', job(id), data(id), chunks(id))
  for _, set in ipairs({ WAITING, LEASED, DEADLINES, GONE, ALL, SECRETS }) do call('ZREM', set, id) end
  if found.key and call('HGET', IDEMPOTENCY, found.key) == id then call('HDEL', IDEMPOTENCY, found.key) end
  if event == 'forget' then return end
  emitStop(found, 'expired')
  emit('changed', id, 'deleted')
end
local function removeGone(found)
  if FROM.forget[found.status] then remove(found, 'forget') else remove(found, 'expire') end
end
`

// Everything is told in one message, to the other servers and to whoever asked; its number shows whoever misses one.
//
// While a slot of a cluster moves, its keys are on two nodes. A script that comes upon one that is not here would end
// half-way, and one that is let in by ASKING would take it for a key that there is not. So it looks before it writes:
// asking for two keys that nobody ever makes is refused then, and the client tries again until the slot has moved.
const TELL = `
if type(redis.pcall('EXISTS', P .. ':never', P .. ':ever')) == 'table' then
  return redis.error_reply('TRYAGAIN the slot of this endpoint is being moved')
end
local result = main()
if #events == 0 then return { result } end
local message = cjson.encode({ call('HINCRBY', P, 'events', 1), sender, events })
call('PUBLISH', P .. ':events', message)
return { result, message }`

/** A script over the keys of an endpoint; `body` returns its result. */
export function script(name: string, body: string): Script {
  const flags = GROW.has(name) || READ.has(name) ? '' : ALSO_WHEN_FULL
  return plainScript(name, `${flags}${PRELUDE}\nlocal function main()\n${body}\nend\n${TELL}`)
}

/** A script without the common part. */
export function plainScript(name: string, text: string): Script {
  const sha = createHash('sha1').update(text).digest('hex')
  return { name, text, sha, promises: !READ.has(name) && !PASSING.has(name) }
}
