// The tidying of jobs in Redis: what time alone does to them. Whichever server comes first does it, each thing once.

import { askEach } from './each-endpoint.ts'
import { script, type Script } from './script.ts'
import type { Scripts } from './scripts.ts'

/** Jobs of one kind in one script: while it runs Redis does nothing else. */
const ROUND = 500

// Time in which nobody swept was not served: leases and deadlines move on by it. A server that has just come gives every
// lease a whole one when nobody else was there; each is given it when it would lapse, or when its job starts.
const sweep = script(
  'sweep',
  `
local leaseMs, servedMs, isFirst, round = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1', tonumber(ARGV[5])
local sweptAt = tonumber(call('HGET', P, 'swept') or nil)
local _, wasAway, at = goOn(sweptAt, servedMs)
call('HSET', P, 'swept', at, 'sweptClock', redisNow(), 'served', servedMs)
local isUnserved = call('HDEL', P, 'away') == 1 or wasAway
local served = now - unserved()
if isFirst and (isUnserved or not sweptAt) then
  call('HSET', P, 'granted', served + leaseMs)
  call('HINCRBY', P, 'grants', 1)
end
local swept, granted = 0, 0
local function due(set, at) return call('ZRANGE', set, '-inf', at, 'BYSCORE', 'LIMIT', 0, round) end
-- One that is granted more is not due, and no longer before those that are.
local function presentAndDue(id, set)
  local found = load(id)
  if not found then clear(id) end
  if not found or tonumber(found.gone) <= now then return nil end
  grant(found)
  if tonumber(call('ZSCORE', set, id)) <= served then return found end
  granted = granted + 1
  return nil
end
for _, id in ipairs(due(GONE, now)) do
  local found = load(id)
  if found then removeGone(found) else clear(id) end
  swept = swept + 1
end
for _, id in ipairs(due(DEADLINES, served)) do
  local found = presentAndDue(id, DEADLINES)
  if found then
    local failure = cjson.encode({ type = 'TimeoutError', code = 'TIMED_OUT', message = 'The job ran longer than its executionTimeout, and worker '
      .. found.worker .. ' did not report its end. Raise policy.executionTimeout, or look at that worker.' })
    fail(found, 'timeOut', nil, failure, 'timeout')
    swept = swept + 1
  end
end
for _, id in ipairs(due(LEASED, served)) do
  local found = presentAndDue(id, LEASED)
  if found then
    local attempt = tonumber(found.attempt)
    -- A lease that its worker never spoke of was lost on the way; the job did not run.
    local wasLost = not found.confirmed and not found.start
    call('HSET', job(id), 'lapsed', now, 'lostBy', found.worker)
    if wasLost or attempt < tonumber(call('HGET', P, 'attempts')) then
      emitStop(found, 'lease-lost')
      if wasLost then handBack(found, 'release', 0) else handBack(found, 'lapse', 1) end
    else
      local failure = cjson.encode({ type = 'WorkerLostError', code = 'WORKER_LOST', message = 'Worker ' .. found.worker
        .. ' was not heard of for longer than its lease, in attempt ' .. attempt .. ' of ' .. attempt .. '. Look at why it died, then retry the job.' })
      fail(found, 'lapseLast', REASON.lapseLast, failure, 'lease-lost')
    end
    swept = swept + 1
  end
end
for _, id in ipairs(due(SECRETS, now)) do
  call('HDEL', data(id), 's3')
  call('ZREM', SECRETS, id)
  swept = swept + 1
end
-- Who was told of once and is gone by now, some at a time; nobody waits for it.
local cursor = call('HGET', P, 'pruned') or '0'
local next, workers = unpack(call('HSCAN', P .. ':workers', cursor, 'COUNT', round))
for at = 1, #workers, 2 do
  local _, isOver = presenceOf(workers[at + 1])
  if isOver then call('HDEL', P .. ':workers', workers[at]) end
end
if next == '0' then call('HDEL', P, 'pruned') else call('HSET', P, 'pruned', next) end
return { swept, granted, math.abs(now - redisNow()) > 1000 and 1 or 0 }`,
)

export const sweepScripts: readonly Script[] = [sweep]

export class RedisSweep {
  readonly #scripts: Scripts
  readonly #endpoints: () => Promise<string[]>
  readonly #onClockOff: () => void
  /** Endpoints that this server has swept before. */
  readonly #known = new Set<string>()

  /** `onClockOff`: told when the time that a sweep came with is not Redis' own. */
  constructor(scripts: Scripts, endpoints: () => Promise<string[]>, onClockOff: () => void) {
    this.#scripts = scripts
    this.#endpoints = endpoints
    this.#onClockOff = onClockOff
  }

  async sweep(now: number, served: { leaseMs: number; servedMs: number }): Promise<number> {
    const sweepOne = (endpoint: string): Promise<number> => this.#sweep(endpoint, now, served)
    const { answers, failure } = await askEach(await this.#endpoints(), sweepOne)
    if (failure !== undefined) throw failure
    return answers.reduce((sum, { answer }) => sum + answer, 0)
  }

  async #sweep(
    endpoint: string,
    now: number,
    { leaseMs, servedMs }: { leaseMs: number; servedMs: number },
  ): Promise<number> {
    let all = 0
    let granted = ROUND
    // Those that were granted more stood before others, which are due.
    while (granted >= ROUND) {
      const isFirst = this.#known.has(endpoint) ? 0 : 1
      const args = [now, leaseMs, servedMs, isFirst, ROUND]
      const answer = (await this.#scripts.run(sweep, endpoint, args)) as [number, number, number]
      if (answer[2] === 1) this.#onClockOff()
      this.#known.add(endpoint)
      all += answer[0]
      granted = answer[1]
    }
    return all
  }
}
