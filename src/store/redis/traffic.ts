// What the servers on one Redis share of the traffic: rates by key, and the workers that each has heard.

import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { limits } from '../../job/limits.ts'
import type { Presence, PresenceStore, RateAsk, RateCount, RateStore } from '../traffic.ts'
import { textOf } from './reply.ts'
import { script, type Script } from './script.ts'
import type { Scripts } from './scripts.ts'

const STEPS = 100
const STEP_MS = limits.rateWindowMs / STEPS
/** A request that is under way for longer has lost its server. */
const UNDER_WAY_MS = 600_000

// One hash per bucket, a field per step; it goes by itself when nobody asks any more. That is a broom: what counts is the step.
const enter = script(
  'enter',
  `
local window, inside, limit, most, ticket = P .. ':rate:' .. ARGV[2], P .. ':inside:' .. ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local step, oldest, sum, first = math.floor(now / ${STEP_MS}), nil, 0, nil
local flat = call('HGETALL', window)
for at = 1, #flat, 2 do
  local one = tonumber(flat[at])
  if one < step - ${STEPS} then
    call('HDEL', window, flat[at])
  else
    sum = sum + tonumber(flat[at + 1])
    if not first or one < first then first = one end
  end
end
local function told(state)
  local room = first and (first + ${STEPS} + 1 - step) * ${STEP_MS} or 0
  return { state, sum, room }
end
if sum >= limit then return told('too-many') end
call('ZREMRANGEBYSCORE', inside, '-inf', now - ${UNDER_WAY_MS})
if most ~= '' and call('ZCARD', inside) >= tonumber(most) then return told('too-many-at-a-time') end
call('HINCRBY', window, step, 1)
call('PEXPIRE', window, ${2 * limits.rateWindowMs})
call('ZADD', inside, now, ticket)
call('PEXPIRE', inside, ${UNDER_WAY_MS})
sum = sum + 1
first = first or step
return told('in')`,
)

const leave = script('leave', `return call('ZREM', P .. ':inside:' .. ARGV[2], ARGV[3])`)

const tell = script(
  'tell',
  `
for at = 2, #ARGV, 2 do call('HSET', P .. ':workers', ARGV[at], ARGV[at + 1]) end
return 1`,
)

const list = script(
  'listWorkers',
  `
local alive, flat = {}, call('HGETALL', P .. ':workers')
for at = 1, #flat, 2 do
  if cjson.decode(flat[at + 1]).aliveUntil > now then
    alive[#alive + 1] = flat[at + 1]
  else
    call('HDEL', P .. ':workers', flat[at])
  end
end
return alive`,
)

export const trafficScripts: readonly Script[] = [enter, leave, tell, list]

export class RedisRates implements RateStore {
  readonly #scripts: Scripts

  constructor(scripts: Scripts) {
    this.#scripts = scripts
  }

  async enter({ endpoint, bucket, limit, atATime, now }: RateAsk): Promise<RateCount> {
    const ticket = randomBytes(9).toString('base64url')
    const args = [now, bucket, limit, atATime ?? '', ticket]
    const [state, counted, roomInMs] = (await this.#scripts.run(enter, endpoint, args)) as [
      Buffer,
      number,
      number,
    ]
    return { state: textOf(state) as RateCount['state'], counted, roomInMs, ticket }
  }

  async leave({ endpoint, bucket, ticket }: Parameters<RateStore['leave']>[0]): Promise<void> {
    await this.#scripts.run(leave, endpoint, [0, bucket, ticket])
  }
}

const presenceSchema = z.object({
  worker: z.string(),
  aliveUntil: z.number(),
  holds: z.number(),
  isUnhealthy: z.boolean(),
})

export class RedisPresence implements PresenceStore {
  readonly #scripts: Scripts

  constructor(scripts: Scripts) {
    this.#scripts = scripts
  }

  async tell(endpoint: string, heard: readonly Presence[]): Promise<void> {
    const named = heard.flatMap((one) => [one.worker, JSON.stringify(one)])
    await this.#scripts.run(tell, endpoint, [0, ...named])
  }

  async list(endpoint: string, now: number): Promise<Presence[]> {
    const alive = (await this.#scripts.run(list, endpoint, [now])) as Buffer[]
    return alive.map((one) => presenceSchema.parse(JSON.parse(textOf(one))))
  }
}
