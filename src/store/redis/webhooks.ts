// The deliveries that webhooks are owed, in Redis: each endpoint's with its jobs, by origin.

import type { TraceContext } from '../../job/job.ts'
import type { Dialect } from '../job-store.ts'
import type { Delivery, WebhookStore } from '../webhook-store.ts'
import { askEach } from './each-endpoint.ts'
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

/** Nothing is owed so late but by a clock that was set back since. */
const FAR_MS = 30_000

// What stands too late is held as if it were called just now: it may be, by another server.
const dueTimes = script(
  'dueTimes',
  `
local holdMs = tonumber(ARGV[3])
local tooLate = '(' .. string.format('%.0f', now + ${FAR_MS})
for _, origin in ipairs(call('ZRANGE', P .. ':origins', tooLate, '+inf', 'BYSCORE', 'LIMIT', 0, 100)) do
  for _, number in ipairs(call('ZRANGE', P .. ':owed:' .. origin, tooLate, '+inf', 'BYSCORE', 'LIMIT', 0, 100)) do
    call('ZADD', P .. ':owed:' .. origin, now + holdMs, number)
  end
  rankOrigin(origin)
end
${DUE}
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
  local fields = call('HGETALL', P .. ':delivery:' .. number)
  if #fields > 0 then
    claimed[#claimed + 1] = { number, fields, string.format('%.0f', dueAt) }
  else
    call('ZREM', P .. ':owed:' .. origin, number)
    rankOrigin(origin)
  end
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

  /** What was claimed is answered though an endpoint failed: nobody else is given it for a while. */
  async claimDeliveries(ask: Parameters<WebhookStore['claimDeliveries']>[0]): Promise<Delivery[]> {
    const { holdMs, without, now } = ask
    const { counts, failure: unasked } = await this.#longestDue(ask)
    const { answers, failure = unasked } = await askEach([...counts.keys()], async (endpoint) => {
      const args = [now, counts.get(endpoint)!, holdMs, ...without]
      return (await this.#scripts.run(claim, endpoint, args)) as [Buffer, Buffer[], Buffer][]
    })
    if (answers.length === 0 && failure !== undefined) throw failure
    const claimed = answers.flatMap(({ endpoint, answer }) =>
      answer.map(([number, flat, dueAt]) => ({
        dueAt: numberOf(dueAt),
        delivery: readDelivery(endpoint, textOf(number), fieldsOf(flat), now),
      })),
    )
    return claimed.toSorted((a, b) => a.dueAt - b.dueAt).map(({ delivery }) => delivery)
  }

  /** How many of the longest due are each endpoint's; one with nothing due is not asked. */
  async #longestDue({
    count,
    holdMs,
    without,
    now,
  }: Parameters<WebhookStore['claimDeliveries']>[0]): Promise<{
    counts: Map<string, number>
    failure: unknown
  }> {
    const { due, failure: unasked } = await this.#nextDue()
    const owing = due
      .filter(({ dueAt }) => dueAt <= now || dueAt > now + FAR_MS)
      .map(({ endpoint }) => endpoint)
    const { answers, failure = unasked } = await askEach(
      owing,
      async (endpoint) =>
        (await this.#scripts.run(dueTimes, endpoint, [now, count, holdMs, ...without])) as Buffer[],
    )
    const longest = answers
      .flatMap(({ endpoint, answer }) => answer.map((dueAt) => ({ endpoint, dueAt: numberOf(dueAt) })))
      .toSorted((a, b) => a.dueAt - b.dueAt)
    const counts = new Map<string, number>()
    for (const { endpoint } of longest.slice(0, count)) counts.set(endpoint, (counts.get(endpoint) ?? 0) + 1)
    return { counts, failure }
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
    const { due, failure } = await this.#nextDue()
    if (failure !== undefined) throw failure
    return due.length === 0 ? undefined : Math.min(...due.map(({ dueAt }) => dueAt))
  }

  async #nextDue(): Promise<{ due: { endpoint: string; dueAt: number }[]; failure: unknown }> {
    const { answers, failure } = await askEach(
      await this.#endpoints(),
      async (endpoint) => (await this.#scripts.run(nextDue, endpoint, [0])) as Buffer | null,
    )
    const due = answers.flatMap(({ endpoint, answer }) =>
      answer === null ? [] : [{ endpoint, dueAt: numberOf(answer) }],
    )
    return { due, failure }
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
