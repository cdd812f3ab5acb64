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
/** Workers, or requests without a server, that one script looks at: while it runs Redis does nothing else. */
const ROUND = 500

// One hash per bucket, a field per step; it goes by itself when nobody asks any more. That is a broom: what counts is the step.
const enter = script(
  'enter',
  `
local window, inside, limit, most, ticket = P .. ':rate:' .. ARGV[2], P .. ':inside:' .. ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local step, oldest, sum, first = math.floor(now / ${STEP_MS}), nil, 0, nil
local flat = call('HGETALL', window)
for at = 1, #flat, 2 do
  local one = tonumber(flat[at])
  -- One far ahead is of a clock that was set back since.
  if math.abs(one - step) > ${STEPS} then
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
local lost = call('ZRANGE', inside, '-inf', now - ${UNDER_WAY_MS}, 'BYSCORE', 'LIMIT', 0, ${ROUND})
if #lost > 0 then call('ZREM', inside, unpack(lost)) end
if most ~= '' and call('ZCOUNT', inside, '(' .. now - ${UNDER_WAY_MS}, '+inf') >= tonumber(most) then return told('too-many-at-a-time') end
-- What a user may not do, or cannot be done to what is there, is refused here, before anything is counted.
call('ZADD', inside, 'XX', now, ticket)
call('PEXPIRE', inside, ${UNDER_WAY_MS})
call('PEXPIRE', window, ${2 * limits.rateWindowMs})
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
local next, flat = unpack(call('HSCAN', P .. ':workers', ARGV[2], 'COUNT', ARGV[3]))
local alive = {}
for at = 1, #flat, 2 do
  local isAlive, isOver = presenceOf(flat[at + 1])
  if isAlive then alive[#alive + 1] = flat[at + 1] end
  if isOver then call('HDEL', P .. ':workers', flat[at]) end
end
return { next, alive }`,
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
  aliveMs: z.number().optional(),
  holds: z.number(),
  // Servers of an earlier version do not tell it.
  lowPriority: z.number().default(0),
  isUnhealthy: z.boolean(),
  isStarting: z.boolean().optional(),
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
    const found = new Map<string, Presence>()
    let cursor = '0'
    do {
      const answered = await this.#scripts.run(list, endpoint, [now, cursor, ROUND])
      const [next, alive] = answered as [Buffer, Buffer[]]
      // While the hash grows one may come twice.
      for (const one of alive.flatMap(
        (text) => presenceSchema.safeParse(JSON.parse(textOf(text))).data ?? [],
      ))
        found.set(one.worker, one)
      cursor = textOf(next)
    } while (cursor !== '0')
    return [...found.values()]
  }
}
