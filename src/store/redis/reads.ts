// What can be read of the jobs in Redis: a record, a list, its chunks, the counts.

import { z } from 'zod'
import type { PartKind } from '../../job/chunk.ts'
import { jobErrorSchema } from '../../job/job.ts'
import type { JobStatus } from '../../job/lifecycle.ts'
import type { JobCounts, JobPage, JobRecord, QueueLoad, StoredChunk, StreamRead } from '../job-store.ts'
import type { JobParts } from '../compose-jobs.ts'
import { fieldsOf, numberOf, optional, textOf, type Fields } from './reply.ts'
import { script, type Script } from './script.ts'
import type { Argument, Scripts } from './scripts.ts'

type Reads = JobParts['reads']

const storedErrorSchema = z.string().transform((json) => jobErrorSchema.parse(JSON.parse(json)))

const find = script(
  'find',
  `
if not present(ARGV[2]) then return false end
return { call('HGETALL', job(ARGV[2])), call('HMGET', data(ARGV[2]), 'output', 'error', 'errorText', 'progress') }`,
)

/** Jobs that one script looks at for a page: those past their time are not on it, and may be many. */
const LOOKS = 1000

// Answers where to look on when there may be more than it has found.
const list = script(
  'list',
  `
local before, most, looks, jobs = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), {}
while #jobs < most do
  if looks <= 0 then return { jobs, before } end
  local wanted = math.min(looks, most + 1 - #jobs)
  local places = call('ZRANGE', ALL, '(' .. before, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, wanted, 'WITHSCORES')
  if #places == 0 then break end
  looks = looks - #places / 2
  for at = 1, #places, 2 do
    before = places[at + 1]
    if #jobs < most and present(places[at]) then
      jobs[#jobs + 1] = { places[at], before, call('HGETALL', job(places[at])), call('HGET', data(places[at]), 'error') }
    end
  end
end
return { jobs }`,
)

// Bounds the work of one read when chunks are tiny.
const readChunks = script(
  'readChunks',
  `
local found = present(ARGV[2])
if not found then return false end
local after = tonumber(ARGV[3] ~= '' and ARGV[3] or found.read)
local most, sum, read = tonumber(ARGV[4]), 0, {}
-- What came before this lease is gone: its chunks were removed when it ended. All that came after it are there, or, when
-- the job waits again, none.
local index = math.max(after, 0, call('EXISTS', chunks(found.id)) == 1 and tonumber(found.base) or tonumber(found.last)) + 1
local last = tonumber(found.last)
while index <= last and #read < 20000 do
  local chunk = call('HGET', chunks(found.id), index)
  if chunk then
    -- The line before the bytes counts where it carries more than a word or two.
    local head = string.find(chunk, '\\n', 1, true)
    sum = sum + #chunk - head + math.max(0, head - 100)
    if sum > most and #read > 0 then break end
    read[#read + 1] = tostring(index)
    read[#read + 1] = chunk
  end
  index = index + 1
end
return { found.status, found.last, found.base, read }`,
)

const markRead = script(
  'markRead',
  `
local found = load(ARGV[2])
if found and tonumber(ARGV[3]) > tonumber(found.read) then call('HSET', job(found.id), 'read', ARGV[3]) end
return 1`,
)

const count = script(
  'count',
  `return { call('HMGET', P, 'completed', 'failed', 'retried'), call('ZCARD', WAITING), call('ZCARD', LEASED) }`,
)

// Whoever is past its ttl stands before the head until it is swept; a few of them are looked past.
const headWaited = script(
  'headWaited',
  `
for _, id in ipairs(call('ZRANGE', WAITING, 0, 999)) do
  local found = present(id)
  if found then return string.format('%.0f', math.max(0, now - tonumber(found.from) - tonumber(found.ran))) end
end
return '0'`,
)

// The first in line that is not of low priority: where all up to a rank are of low priority, it is behind that, so that it
// is found by halves. Whoever is past its ttl is looked past, as far as that goes.
const load = script(
  'load',
  `
local waiting, low = call('ZCARD', WAITING), call('ZCARD', LOW)
local function at(rank) return call('ZRANGE', WAITING, rank, rank, 'WITHSCORES') end
local function behindLow(first)
  local from, to, start = first, waiting, at(first)[2]
  while from < to do
    local middle = math.floor((from + to) / 2)
    if call('ZCOUNT', LOW, start, at(middle)[2]) > middle - first then from = middle + 1 else to = middle end
  end
  return from
end
local rank, looks, waited = 0, 500, 0
while rank < waiting and looks > 0 do
  local id = at(rank)[1]
  if call('ZSCORE', LOW, id) then
    rank = behindLow(rank)
  else
    local found = present(id)
    if found then
      waited = math.max(0, now - tonumber(found.from) - tonumber(found.ran))
      break
    end
    rank = rank + 1
  end
  looks = looks - 1
end
return { waiting - low, low, string.format('%.0f', waited), call('HMGET', P, 'arrived', 'completed', 'failed') }`,
)

export const readScripts: readonly Script[] = [find, list, readChunks, markRead, count, headWaited, load]

/** Its id, its place, its fields, its error. */
type ListRow = [Buffer, Buffer, Buffer[], Buffer | null]

export class RedisReads implements Reads {
  readonly #scripts: Scripts

  constructor(scripts: Scripts) {
    this.#scripts = scripts
  }

  async find(endpoint: string, id: string, now: number): Promise<JobRecord | undefined> {
    const found = (await this.#scripts.run(find, endpoint, [now, id])) as [Buffer[], (Buffer | null)[]] | null
    if (found === null) return undefined
    const [flat, [output, error, errorText, progress]] = found
    return {
      ...readRecord(fieldsOf(flat), { endpoint, id, now }),
      ...optional('output', output, (bytes) => bytes),
      ...optional('error', error, (value) => storedErrorSchema.parse(textOf(value))),
      ...optional('errorText', errorText, textOf),
      ...optional('progress', progress, (bytes) => bytes),
    }
  }

  async list(endpoint: string, page: { count: number; before?: string; now: number }): Promise<JobPage> {
    const { count: most, before = 'inf', now } = page
    const rows: ListRow[] = []
    let place: Argument | undefined = before
    while (place !== undefined) {
      const wanted = most + 1 - rows.length
      const found = await this.#scripts.run(list, endpoint, [now, place, wanted, LOOKS])
      const [more, next] = found as [ListRow[], Buffer?]
      rows.push(...more)
      place = next
    }
    const jobs = rows.slice(0, most).map(([id, , flat, error]) => {
      const fields = fieldsOf(flat)
      return {
        ...readRecord(fields, { endpoint, id: textOf(id), now }),
        ...optional('error', error, (value) => storedErrorSchema.parse(textOf(value))),
        ...optional('endedAt', fields.get('end'), numberOf),
      }
    })
    const isMore = rows.length > most
    return { jobs, ...(isMore && { next: textOf(rows[most - 1]?.[1]) }) }
  }

  async readChunks(
    endpoint: string,
    id: string,
    read: { after?: number; maxBytes: number; now: number },
  ): Promise<StreamRead> {
    const { after, maxBytes, now } = read
    const found = (await this.#scripts.run(readChunks, endpoint, [now, id, after ?? '', maxBytes])) as
      [Buffer, Buffer, Buffer, Buffer[]] | null
    if (found === null) return { kind: 'gone' }
    const [status, last, base, flat] = found
    return {
      kind: 'read',
      status: textOf(status) as JobStatus,
      chunks: [...fieldsOf(flat)].map(([index, bytes]) => readChunk(Number(index), bytes)),
      lastIndex: numberOf(last),
      leaseIndex: numberOf(base),
    }
  }

  async markRead(endpoint: string, id: string, index: number): Promise<void> {
    await this.#scripts.run(markRead, endpoint, [0, id, index])
  }

  async count(endpoint: string): Promise<JobCounts> {
    const [totals, inQueue, inProgress] = (await this.#scripts.run(count, endpoint, [0])) as [
      (Buffer | null)[],
      number,
      number,
    ]
    const [completed, failed, retried] = totals.map((total) => (total ? numberOf(total) : 0))
    return { completed: completed ?? 0, failed: failed ?? 0, retried: retried ?? 0, inQueue, inProgress }
  }

  async headWaitedMs(endpoint: string, now: number): Promise<number> {
    return numberOf((await this.#scripts.run(headWaited, endpoint, [now])) as Buffer)
  }

  async load(endpoint: string, now: number): Promise<QueueLoad> {
    const [waiting, waitingLowPriority, waitedMs, totals] = (await this.#scripts.run(load, endpoint, [
      now,
    ])) as [number, number, Buffer, (Buffer | null)[]]
    const [arrived = 0, completed = 0, failed = 0] = totals.map((total) => (total ? numberOf(total) : 0))
    const oldestWaitMs = numberOf(waitedMs)
    return { waiting, waitingLowPriority, oldestWaitMs, arrived, ended: completed + failed }
  }
}

/** `fields` are those of a job's hash. */
export function readRecord(
  fields: Fields,
  { endpoint, id, now }: { endpoint: string; id: string; now: number },
): JobRecord {
  const startedAt = fields.get('start')
  const runningMs = startedAt && Math.max(0, now - numberOf(startedAt))
  const endedAt = fields.get('end')
  const executionMs = fields.get('execution')
  const until = endedAt ? numberOf(endedAt) : now
  const idleSince = numberOf(fields.get('from')) + numberOf(fields.get('ran'))
  return {
    id,
    endpoint,
    status: textOf(fields.get('status')) as JobStatus,
    ...optional('reason', fields.get('reason'), textOf),
    attempt: numberOf(fields.get('attempt')),
    ...optional('workerId', fields.get('worker'), textOf),
    submittedAt: numberOf(fields.get('submitted')),
    delayTime: Math.max(0, until - idleSince - (runningMs ?? 0)),
    executionTime: runningMs ?? (executionMs ? numberOf(executionMs) : 0),
  }
}

export { storedErrorSchema }

/** `attempt {"metrics"?,"part"?}\n` and then the bytes. */
function readChunk(index: number, bytes: Buffer): StoredChunk {
  const [space, line] = [bytes.indexOf(0x20), bytes.indexOf(0x0a)]
  const head = JSON.parse(bytes.toString('utf8', space + 1, line)) as {
    metrics?: string
    part?: { as: PartKind; back: number; last: boolean }
  }
  const { metrics, part } = head
  return {
    index,
    attempt: Number(bytes.toString('utf8', 0, space)),
    output: bytes.subarray(line + 1),
    ...(metrics !== undefined && { metrics }),
    ...(part && { part: { as: part.as, first: index - part.back, last: part.last } }),
  }
}
