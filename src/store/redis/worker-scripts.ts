// What workers do to jobs, as it runs inside Redis.

import { script, type Script } from './script.ts'

// What is past its ttl stands in the way of those behind it, and is removed where it is met. With nothing leased after
// all its looks it answers where to look on.
export const lease = script(
  'lease',
  `
local worker, most, leaseMs, graceMs, lostSince, token = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]), ARGV[7]
local after, looks = ARGV[8], tonumber(ARGV[9])
-- One that is being removed or made has no limits yet.
if call('HEXISTS', P, 'timeout') == 0 then return { {} } end
catchUp()
local leased, stopped, grants = {}, unserved(), call('HGET', P, 'grants')
while #leased < most do
  if looks <= 0 then return { leased, #leased == 0 and after } end
  local places = call('ZRANGE', WAITING, '(' .. after, '+inf', 'BYSCORE', 'LIMIT', 0, most + 16, 'WITHSCORES')
  if #places == 0 then break end
  for n = 1, #places, 2 do
    if #leased == most or looks <= 0 then break end
    local id = places[n]
    after = places[n + 1]
    local found = load(id)
    if not found then
      clear(id)
      looks = looks - 1
    elseif tonumber(found.gone) <= now then
      remove(found, 'expire')
      looks = looks - 1
    elseif found.lostBy == worker and tonumber(found.lapsed) > lostSince then
      looks = looks - 1
    else
      local name = job(id)
      local lease = token .. found.position .. '.' .. found.attempt
      local limit = limitOf(found)
      call('HSET', name, 'status', TO.lease, 'lease', lease, 'worker', worker, 'base', found.last)
      call('HDEL', name, 'reason', 'execution')
      leaveLine(found)
      call('ZADD', LEASED, now + leaseMs - stopped, id)
      if grants then call('HSET', name, 'grants', grants) end
      if graceMs ~= '' then
        call('HSET', name, 'start', now)
        call('ZADD', DEADLINES, now + tonumber(graceMs) + limit - stopped, id)
      end
      local kept = call('HMGET', data(id), 'input', 'webhook', 's3', 'trace')
      leased[#leased + 1] = { id, lease, found.attempt, tostring(limit), found.timeout or false, found.low, found.ttl,
        string.format('%.0f', math.max(0, now - tonumber(found.from) - tonumber(found.ran))), found.alone or '0', unpack(kept) }
    end
  end
end
return { leased }`,
)

export const start = script(
  'start',
  `
catchUp()
local found = fenced(ARGV[2], 'start', ARGV[3], ARGV[4], true)
if not found then return 0 end
local startedAt, untilAt, graceMs, stopped = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), unserved()
-- Before it has a deadline, which is not granted more.
grant(found)
call('HSET', job(found.id), 'start', found.start or startedAt, 'confirmed', 1)
call('ZADD', LEASED, 'GT', untilAt - stopped, found.id)
call('ZADD', DEADLINES, 'NX', startedAt + graceMs + limitOf(found) - stopped, found.id)
return 1`,
)

export const extend = script(
  'extend',
  `
catchUp()
local stale, untilAt = {}, tonumber(ARGV[3]) - unserved()
for at = 4, #ARGV, 2 do
  local found = fenced(ARGV[at], 'start', ARGV[2], ARGV[at + 1], false)
  if found then
    call('HSET', job(found.id), 'confirmed', 1)
    call('ZADD', LEASED, 'GT', untilAt, found.id)
  else
    stale[#stale + 1] = ARGV[at]
    stale[#stale + 1] = ARGV[at + 1]
  end
end
return stale`,
)

// A chunk is its attempt, a line of JSON about it, and its bytes as they came.
export const appendChunks = script(
  'appendChunks',
  `
local found = fenced(ARGV[2], 'start', ARGV[3], ARGV[4], true)
if not found then return false end
local stored = tonumber(found.last) - tonumber(found.base)
local first = ARGV[5] == '' and stored + 1 or tonumber(ARGV[5])
local given = (#ARGV - 5) / 2
if first > stored + 1 then return stored end
local fresh = 0
for at = stored + 1 - first, given - 1 do
  local index = tonumber(found.base) + first + at
  call('HSET', chunks(found.id), index, found.attempt .. ' ' .. ARGV[6 + at * 2] .. '\\n' .. ARGV[7 + at * 2])
  fresh = fresh + 1
end
if fresh > 0 then
  call('HINCRBY', job(found.id), 'last', fresh)
  emit('chunks', found.id)
end
return stored + fresh`,
)

export const setProgress = script(
  'setProgress',
  `
local found = fenced(ARGV[2], 'start', ARGV[3], ARGV[4], false)
if not found then return 0 end
call('HSET', data(found.id), 'progress', ARGV[5])
emit('progress', found.id)
return 1`,
)

// The worker's monotonic measure is the truth; the wall clock stands in where the wire has none.
export const settle = script(
  'settle',
  `
local event = ARGV[5]
local found = fenced(ARGV[2], event, ARGV[3], ARGV[4], true)
if not found then return 'stale' end
if tonumber(found.last) - tonumber(found.base) < tonumber(ARGV[7]) then return 'behind' end
for at = 8, #ARGV, 2 do call('HSET', data(found.id), ARGV[at], ARGV[at + 1]) end
endRun(found, tonumber(ARGV[6]))
finish(found, event)
return 'accepted'`,
)

export const release = script(
  'release',
  `
local found = fenced(ARGV[2], 'release', ARGV[3], ARGV[4], true)
if not found then return 0 end
handBack(found, 'release', 0)
call('HDEL', job(found.id), 'worker')
return 1`,
)

export const lose = script(
  'lose',
  `
local found = fenced(ARGV[2], 'lose', ARGV[3], ARGV[4], true)
if not found then return 0 end
if tonumber(found.attempt) < tonumber(call('HGET', P, 'attempts')) then
  handBack(found, 'lose', 1, tonumber(ARGV[6]))
  call('HSET', job(found.id), 'alone', 1)
  call('HDEL', job(found.id), 'worker')
else
  call('HSET', data(found.id), 'error', ARGV[5])
  endRun(found, tonumber(ARGV[6]))
  finish(found, 'fail')
end
return 1`,
)

export const workerScripts: readonly Script[] = [
  lease,
  start,
  extend,
  appendChunks,
  setProgress,
  settle,
  release,
  lose,
]
