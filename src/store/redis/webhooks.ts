// The deliveries that webhooks are owed, in Redis: each endpoint's with its jobs, by origin.

import type { TraceContext } from '../../job/job.ts'
import type { Delivery, Dialect, WebhookStore } from '../store.ts'
import { fieldsOf, numberOf, optional, textOf, type Fields } from './reply.ts'
import { readRecord, storedErrorSchema } from './reads.ts'
import { script, type Script } from './script.ts'
import type { Scripts } from './scripts.ts'

// Origin by origin: what one of them is owed, however much that is, costs the others nothing.
const DUE = `
local most, without = tonumber(ARGV[2]), {}
for at = 4, #ARGV do without[ARGV[at]] = true end
local due, at = {}, 0
while true do
  local origins = call('ZRANGE', P .. ':origins', '-inf', now, 'BYSCORE', 'LIMIT', at, 100)
  if #origins == 0 then break end
  for _, origin in ipairs(origins) do
    if not without[origin] then
      local flat = call('ZRANGE', P .. ':owed:' .. origin, '-inf', now, 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES')
      for n = 1, #flat, 2 do due[#due + 1] = { flat[n], tonumber(flat[n + 1]), origin } end
    end
  end
  -- Origins come by their longest due: those behind have nothing that is longer due than what is there.
  if #due >= most then break end
  at = at + 100
end
table.sort(due, function(a, b) return a[2] < b[2] or (a[2] == b[2] and tonumber(a[1]) < tonumber(b[1])) end)
`

const dueTimes = script(
  'dueTimes',
  `${DUE}
local times = {}
for n = 1, math.min(most, #due) do times[n] = string.format('%.0f', due[n][2]) end
return times`,
)

const claim = script(
  'claim',
  `${DUE}
local holdMs, claimed = tonumber(ARGV[3]), {}
for n = 1, math.min(most, #due) do
  local number, dueAt, origin = unpack(due[n])
  call('ZADD', P .. ':owed:' .. origin, now + holdMs, number)
  rankOrigin(origin)
  claimed[n] = { number, call('HGETALL', P .. ':delivery:' .. number), string.format('%.0f', dueAt) }
end
return claimed`,
)

const drop = script('drop', `removeDelivery(ARGV[2]) return 1`)

const postpone = script(
  'postpone',
  `
local delivery = P .. ':delivery:' .. ARGV[2]
local origin = call('HGET', delivery, 'origin')
if not origin then return 0 end
call('HINCRBY', delivery, 'attempts', 1)
call('ZADD', P .. ':owed:' .. origin, ARGV[3], ARGV[2])
rankOrigin(origin)
return 1`,
)

const nextDue = script(
  'nextDue',
  `
local first = call('ZRANGE', P .. ':origins', 0, 0, 'WITHSCORES')
return first[2] or false`,
)

export const webhookScripts: readonly Script[] = [dueTimes, claim, drop, postpone, nextDue]

export class RedisWebhooks implements WebhookStore {
  readonly #scripts: Scripts
  readonly #endpoints: () => Promise<string[]>

  constructor(scripts: Scripts, endpoints: () => Promise<string[]>) {
    this.#scripts = scripts
    this.#endpoints = endpoints
  }

  async claimDeliveries(ask: Parameters<WebhookStore['claimDeliveries']>[0]): Promise<Delivery[]> {
    const { holdMs, without, now } = ask
    const claimed: { dueAt: number; delivery: Delivery }[] = []
    for (const [endpoint, count] of await this.#longestDue(ask)) {
      const rows = await this.#scripts.run(claim, endpoint, [now, count, holdMs, ...without])
      for (const [number, flat, dueAt] of rows as [Buffer, Buffer[], Buffer][]) {
        const delivery = readDelivery(endpoint, textOf(number), fieldsOf(flat), now)
        claimed.push({ dueAt: numberOf(dueAt), delivery })
      }
    }
    return claimed.toSorted((a, b) => a.dueAt - b.dueAt).map(({ delivery }) => delivery)
  }

  /** How many of the longest due are each endpoint's; one with nothing due is not asked. */
  async #longestDue({
    count,
    without,
    now,
  }: Parameters<WebhookStore['claimDeliveries']>[0]): Promise<Map<string, number>> {
    const owing = (await this.#nextDue()).filter(({ dueAt }) => dueAt <= now)
    const times = await Promise.all(
      owing.map(async ({ endpoint }) => {
        const due = await this.#scripts.run(dueTimes, endpoint, [now, count, 0, ...without])
        return (due as Buffer[]).map((dueAt) => ({ endpoint, dueAt: numberOf(dueAt) }))
      }),
    )
    const longest = times.flat().toSorted((a, b) => a.dueAt - b.dueAt)
    const counts = new Map<string, number>()
    for (const { endpoint } of longest.slice(0, count)) counts.set(endpoint, (counts.get(endpoint) ?? 0) + 1)
    return counts
  }

  async dropDelivery(id: string): Promise<void> {
    const { endpoint, number } = placeOf(id)
    await this.#scripts.run(drop, endpoint, [0, number])
  }

  async postponeDelivery(id: string, dueAt: number): Promise<void> {
    const { endpoint, number } = placeOf(id)
    await this.#scripts.run(postpone, endpoint, [0, number, dueAt])
  }

  async nextDeliveryAt(): Promise<number | undefined> {
    const due = await this.#nextDue()
    return due.length === 0 ? undefined : Math.min(...due.map(({ dueAt }) => dueAt))
  }

  async #nextDue(): Promise<{ endpoint: string; dueAt: number }[]> {
    const endpoints = await this.#endpoints()
    const times = await Promise.all(endpoints.map((endpoint) => this.#scripts.run(nextDue, endpoint, [0])))
    return endpoints.flatMap((endpoint, at) => {
      const dueAt = times[at] as Buffer | null
      return dueAt === null ? [] : [{ endpoint, dueAt: numberOf(dueAt) }]
    })
  }
}

/** A delivery's id says with which endpoint's jobs it is kept. */
function placeOf(id: string): { endpoint: string; number: string } {
  const [endpoint = '', number = ''] = id.split('/')
  return { endpoint, number }
}

function readDelivery(endpoint: string, number: string, fields: Fields, now: number): Delivery {
  const job: Fields = new Map()
  for (const [name, value] of fields) if (name.startsWith('job.')) job.set(name.slice(4), value)
  return {
    id: `${endpoint}/${number}`,
    url: textOf(fields.get('url')),
    record: {
      ...readRecord(job, { endpoint, id: textOf(fields.get('id')), now }),
      ...optional('output', fields.get('output'), (bytes) => bytes),
      ...optional('error', fields.get('error'), (value) => storedErrorSchema.parse(textOf(value))),
      ...optional('errorText', fields.get('errorText'), textOf),
    },
    ...optional('dialect', fields.get('dialect'), (value) => textOf(value) as Dialect),
    input: fields.get('input') ?? Buffer.alloc(0),
    ...optional('trace', fields.get('trace'), (value) => JSON.parse(textOf(value)) as TraceContext),
    attempt: numberOf(fields.get('attempts')) + 1,
  }
}
