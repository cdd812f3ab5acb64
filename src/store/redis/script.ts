// Scripts that run whole inside Redis: a common part made from the lifecycle table, and a body for each verb.

import { createHash } from 'node:crypto'
import { finalStatuses, transitions } from '../../job/lifecycle.ts'

export interface Script {
  readonly name: string
  readonly text: string
  readonly sha: string
  /** Whether somebody is told what it did or found, and may count on it. */
  readonly promises: boolean
}

/** They take in what is new. A Redis that is full refuses them before they have written anything. */
const GROW = new Set(['makeEndpoint', 'enqueue', 'appendChunks', 'setProgress'])
const READ = new Set(['find', 'list', 'readChunks', 'count', 'headWaited', 'load', 'nextDue'])
/** What they answer lasts for nobody: when to look again, rates, who was heard. */
const PASSING = new Set([
  'sign',
  'renew',
  'letGo',
  'headWaited',
  'load',
  'nextDue',
  'enter',
  'leave',
  'tell',
  'listWorkers',
  'markRead',
  'time',
])

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

// KEYS[1] is the endpoint's own hash; all its other keys begin with that name, and so share its hash tag. ARGV[1] is `now:server`, and a server's name
// begins with the number of its database.
const PRELUDE = `
local P = KEYS[1]
local stamp, sender, database = string.match(ARGV[1], '^(%d+):((%d+).*)$')
local now = tonumber(stamp)
local call = redis.call
${lifecycleTables()}
local function job(id) return P .. ':job:' .. id end
local function data(id) return P .. ':data:' .. id end
local function chunks(id) return P .. ':chunks:' .. id end
local WAITING, LEASED, DEADLINES = P .. ':waiting', P .. ':leased', P .. ':deadlines'
local LOW = P .. ':low'
local GONE, ALL, SECRETS, IDEMPOTENCY = P .. ':gone', P .. ':all', P .. ':secrets', P .. ':idempotency'

local events = {}
local function emit(...) events[#events + 1] = { ... } end

-- One that lacks what each has, or has it in no way that can be read, is none: an error would end the script half-way.
local NUMBERS = { 'position', 'attempt', 'submitted', 'from', 'ran', 'gone', 'retention', 'ttl', 'last', 'base', 'read' }
local function load(id)
  local flat = redis.pcall('HGETALL', job(id))
  if flat.err or #flat == 0 then return nil end
  local found = { id = id }
  for at = 1, #flat, 2 do found[flat[at]] = flat[at + 1] end
  if not found.status then return nil end
  for _, name in ipairs(NUMBERS) do if not tonumber(found[name]) then return nil end end
  return found
end

-- What stands among the jobs and is none would stand in the way for ever.
local function clear(id)
  call('UNLINK', job(id), data(id), chunks(id))
  for _, set in ipairs({ WAITING, LOW, LEASED, DEADLINES, GONE, ALL, SECRETS }) do call('ZREM', set, id) end
end

-- Of a worker that somebody told of: whether it is there, and whether that is over. Where it is for longer than was told,
-- the clock was set back since, or whoever comes has not looked yet at one that was set forward: both may pass.
local function presenceOf(told)
  local isRead, worker = pcall(cjson.decode, told)
  local leftMs = isRead and type(worker) == 'table' and (tonumber(worker.aliveUntil) or 0) - now or 0
  return leftMs > 0 and leftMs <= (tonumber(worker.aliveMs) or leftMs) + 1000, leftMs <= 0
end

-- A job that is past its ttl or retention is not there, swept or not.
local function present(id)
  local found = load(id)
  if found and tonumber(found.gone) > now then return found end
  return nil
end

-- Those of low priority that wait stand in a set of their own too, since they count apart; of the others that takes nothing.
local function joinLine(id, position, low)
  call('ZADD', WAITING, position, id)
  if low == '1' then call('ZADD', LOW, position, id) end
end

local function leaveLine(found)
  call('ZREM', WAITING, found.id)
  if found.low == '1' then call('ZREM', LOW, found.id) end
end

local function count(event, status)
  local to = TO[event]
  if to == 'COMPLETED' then call('HINCRBY', P, 'completed', 1) end
  if to == 'FAILED' or to == 'TIMED_OUT' then call('HINCRBY', P, 'failed', 1) end
  if event == 'lapse' or event == 'lose' or event == 'retry' then call('HINCRBY', P, 'retried', 1) end
end

-- The clocks of servers follow it, each when it looks; it may be set, and another server may take its place.
local function redisNow()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function isRemoved() return call('HEXISTS', P, 'removed') == 1 end

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

-- Leases and deadlines stand in served time, which stops while nobody sweeps: what is to be added to it is in one place,
-- however many there are. 'granted' is the time up to which each of them holds that was there when a server came first;
-- a job that has had that has the number of it.
local function unserved() return tonumber(call('HGET', P, 'unserved') or 0) end
-- Served time goes on from when it was noted last, whatever clocks do meanwhile. Where now is long after that, nobody
-- served, or a clock was set. Where it is a little before, whoever comes was long on the way. Where it is long before, it
-- has another time than who came last; how much passed since, Redis itself may know, or nobody does.
local LATE = 6000
local function goOn(sweptAt, servedMs)
  local gap = sweptAt and now - sweptAt or 0
  if gap > servedMs then
    call('HINCRBY', P, 'unserved', gap)
    return false, true, now
  end
  if gap >= -math.max(LATE, servedMs) then return true, false, math.max(now, sweptAt or now) end
  local passed = redisNow() - tonumber(call('HGET', P, 'sweptClock') or 0)
  local isKnown = passed >= 0 and passed <= servedMs
  call('HINCRBY', P, 'unserved', gap - (isKnown and passed or 0))
  return false, not isKnown, now
end
-- Whoever is the first to come then takes note of it: a lease that is given before would last too long, or not long
-- enough. The next sweep still is the first after a gap.
local function catchUp()
  local sweptAt, servedMs = unpack(call('HMGET', P, 'swept', 'served'))
  if not sweptAt or not servedMs then return end
  local isOn, wasAway = goOn(tonumber(sweptAt), tonumber(servedMs))
  if isOn then return end
  call('HSET', P, 'swept', now, 'sweptClock', redisNow())
  if wasAway then call('HSET', P, 'away', 1) end
end
local function grant(found)
  local grants, granted = unpack(call('HMGET', P, 'grants', 'granted'))
  if not grants or found.grants == grants then return end
  call('HSET', job(found.id), 'grants', grants)
  call('ZADD', LEASED, 'XX', 'GT', granted, found.id)
  call('ZADD', DEADLINES, 'XX', 'GT', granted, found.id)
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
  call('HDEL', job(found.id), 'start', 'lease', 'confirmed', 'grants')
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
  local found = redis.pcall('HMGET', delivery, 'origin', 'id')
  call('UNLINK', delivery)
  if found.err or not found[1] then return end
  call('ZREM', P .. ':owed:' .. found[1], number)
  if found[2] then call('SREM', P .. ':deliveries:' .. found[2], number) end
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
  -- A purge that is under way leaves it: it did not wait when that began.
  local purges = call('HGET', P, 'purges')
  if purges then call('HSET', job(found.id), 'purges', purges) end
  joinLine(found.id, found.position, found.low)
  count(event)
  emit('changed', found.id, TO[event])
  emit('queued')
end

local function remove(found, event)
  local id = found.id
  call('UNLINK', job(id), data(id), chunks(id))
  leaveLine(found)
  for _, set in ipairs({ LEASED, DEADLINES, GONE, ALL, SECRETS }) do call('ZREM', set, id) end
  if found.key and call('HGET', IDEMPOTENCY, found.key) == id then call('HDEL', IDEMPOTENCY, found.key) end
  if event == 'forget' then return end
  emitStop(found, 'expired')
  emit('changed', id, 'deleted')
end
local function removeGone(found)
  if FROM.forget[found.status] then remove(found, 'forget') else remove(found, 'expire') end
end
`

// While a slot of a cluster moves, its keys are on two nodes. A script that comes upon one that is not here would end
// half-way, and one that is let in by ASKING would take it for a key that there is not. So it looks before it writes:
// asking for two keys, one of which nobody ever makes, is refused then, and the client tries again until the slot has
// moved. The other is there while a queue is moved to this Redis.
const WHOLE = `
local tag = string.match(KEYS[1], '^longshore:%b{}')
local moving = redis.pcall('EXISTS', tag .. ':moving', tag .. ':never')
if type(moving) == 'table' then return redis.error_reply('TRYAGAIN the slot of these keys is being moved') end
if moving > 0 then return redis.error_reply('MOVING a queue is being moved here by longshore migrate') end
`

// Everything is told in one message, to the other servers and to whoever asked; its number shows whoever misses one.
const TELL = `${WHOLE}
local result = main()
if #events == 0 then return { result } end
local message = cjson.encode({ call('HINCRBY', P, 'events', 1), sender, events })
call('PUBLISH', P .. ':events:' .. database, message)
return { result, message }`

/** A script over the keys of an endpoint; `body` returns its result. */
export function script(name: string, body: string): Script {
  const flags = GROW.has(name) || READ.has(name) ? '' : ALSO_WHEN_FULL
  return plainScript(name, `${flags}${PRELUDE}\nlocal function main()\n${body}\nend\n${TELL}`)
}

/** A script without the common part, over several keys of the slot of the one that it is given. */
export function slotScript(name: string, text: string): Script {
  return plainScript(name, `${WHOLE}${text}`)
}

/** A script without the common part, over the one key that it is given. */
export function plainScript(name: string, text: string): Script {
  const sha = createHash('sha1').update(text).digest('hex')
  return { name, text, sha, promises: !PASSING.has(name) }
}
