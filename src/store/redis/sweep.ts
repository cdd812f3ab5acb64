// The tidying of jobs in Redis: what time alone does to them. Whichever server comes first does it, each thing once.

import { script, type Script } from './script.ts'
import type { Scripts } from './scripts.ts'

/** Jobs of one kind in one script: while it runs Redis does nothing else. */
const ROUND = 500

// Time in which nobody swept was not served: leases and deadlines move on by it. A server that has just come gives every
// lease a whole one when nobody else was there.
const sweep = script(
  'sweep',
  `
local leaseMs, servedMs, isFirst, round = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1', tonumber(ARGV[5])
local sweptAt = tonumber(call('HGET', P, 'swept') or nil)
if not sweptAt or now > sweptAt then call('HSET', P, 'swept', now) end
local gap = sweptAt and now - sweptAt or 0
if isFirst and (not sweptAt or gap > servedMs) or gap > servedMs then
  local atLeast = isFirst and now + leaseMs or 0
  for _, set in ipairs({ LEASED, DEADLINES }) do
    local flat = call('ZRANGE', set, 0, -1, 'WITHSCORES')
    for at = 1, #flat, 2 do call('ZADD', set, math.max(tonumber(flat[at + 1]) + gap, atLeast), flat[at]) end
  end
end
local swept = 0
local function due(set) return call('ZRANGE', set, '-inf', now, 'BYSCORE', 'LIMIT', 0, round) end
for _, id in ipairs(due(GONE)) do
  removeGone(load(id))
  swept = swept + 1
end
for _, id in ipairs(due(DEADLINES)) do
  local found = present(id)
  if found then
    local failure = cjson.encode({ type = 'TimeoutError', code = 'TIMED_OUT', message = 'The job ran longer than its executionTimeout, and worker '
      .. found.worker .. ' did not report its end. Raise policy.executionTimeout, or look at that worker.' })
    fail(found, 'timeOut', nil, failure, 'timeout')
    swept = swept + 1
  end
end
for _, id in ipairs(due(LEASED)) do
  local found = present(id)
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
for _, id in ipairs(due(SECRETS)) do
  call('HDEL', data(id), 's3')
  call('ZREM', SECRETS, id)
  swept = swept + 1
end
return swept`,
)

export const sweepScripts: readonly Script[] = [sweep]

export class RedisSweep {
  readonly #scripts: Scripts
  readonly #endpoints: () => Promise<string[]>
  /** Endpoints that this server has swept before. */
  readonly #known = new Set<string>()

  constructor(scripts: Scripts, endpoints: () => Promise<string[]>) {
    this.#scripts = scripts
    this.#endpoints = endpoints
  }

  async sweep(now: number, { leaseMs, servedMs }: { leaseMs: number; servedMs: number }): Promise<number> {
    const swept = await Promise.all(
      (await this.#endpoints()).map(async (endpoint) => {
        const isFirst = !this.#known.has(endpoint)
        const args = [now, leaseMs, servedMs, isFirst ? 1 : 0, ROUND]
        const jobs = (await this.#scripts.run(sweep, endpoint, args)) as number
        this.#known.add(endpoint)
        return jobs
      }),
    )
    return swept.reduce((sum, jobs) => sum + jobs, 0)
  }
}
