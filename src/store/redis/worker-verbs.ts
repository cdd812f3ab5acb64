// What workers do to jobs in Redis: lease, start, keep alive, stream, settle, give back.

import { randomBytes } from 'node:crypto'
import type { TraceContext } from '../../job/job.ts'
import { limits } from '../../job/limits.ts'
import type { End, Fence, FencedAnswer, JobStore, LeaseAsk, LeasedJob, NewChunk } from '../store.ts'
import type { JobParts } from '../compose-jobs.ts'
import { numberOf, optional, textOf } from './reply.ts'
import { script, type Script } from './script.ts'
import type { Argument, Scripts } from './scripts.ts'

type WorkerVerbs = JobParts['worker']

// What is past its ttl stands in the way of those behind it, and is removed where it is met.
const lease = script(
  'lease',
  `
local worker, most, untilAt, graceMs, lostSince, token = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7]
local leased, at = {}, 0
while #leased < most do
  local ids = call('ZRANGE', WAITING, at, at + most + 15)
  if #ids == 0 then break end
  for _, id in ipairs(ids) do
    if #leased == most then break end
    local found = load(id)
    if tonumber(found.gone) <= now then
      remove(found, 'expire')
    elseif found.lostBy == worker and tonumber(found.lapsed) > lostSince then
      at = at + 1
    else
      local name = job(id)
      local lease = token .. found.position .. '.' .. found.attempt
      local limit = limitOf(found)
      call('HSET', name, 'status', TO.lease, 'lease', lease, 'worker', worker, 'base', found.last)
      call('HDEL', name, 'reason', 'execution')
      call('ZREM', WAITING, id)
      call('ZADD', LEASED, untilAt, id)
      if graceMs ~= '' then
        call('HSET', name, 'start', now)
        call('ZADD', DEADLINES, now + tonumber(graceMs) + limit, id)
      end
      local kept = call('HMGET', data(id), 'input', 'webhook', 's3', 'trace')
      leased[#leased + 1] = { id, lease, found.attempt, tostring(limit), found.timeout or false, found.low, found.ttl,
        string.format('%.0f', math.max(0, now - tonumber(found.from) - tonumber(found.ran))), found.alone or '0', unpack(kept) }
    end
  end
end
return leased`,
)

const start = script(
  'start',
  `
local found = fenced(ARGV[2], 'start', ARGV[3], ARGV[4], true)
if not found then return 0 end
local startedAt, untilAt, graceMs = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
call('HSET', job(found.id), 'start', found.start or startedAt, 'confirmed', 1)
call('ZADD', LEASED, 'GT', untilAt, found.id)
call('ZADD', DEADLINES, 'NX', startedAt + graceMs + limitOf(found), found.id)
return 1`,
)

const extend = script(
  'extend',
  `
local stale = {}
for at = 4, #ARGV, 2 do
  local found = fenced(ARGV[at], 'start', ARGV[2], ARGV[at + 1], false)
  if found then
    call('HSET', job(found.id), 'confirmed', 1)
    call('ZADD', LEASED, 'GT', ARGV[3], found.id)
  else
    stale[#stale + 1] = ARGV[at]
    stale[#stale + 1] = ARGV[at + 1]
  end
end
return stale`,
)

// A chunk is its attempt, a line of JSON about it, and its bytes as they came.
const appendChunks = script(
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

const setProgress = script(
  'setProgress',
  `
local found = fenced(ARGV[2], 'start', ARGV[3], ARGV[4], false)
if not found then return 0 end
call('HSET', data(found.id), 'progress', ARGV[5])
emit('progress', found.id)
return 1`,
)

// The worker's monotonic measure is the truth; the wall clock stands in where the wire has none.
const settle = script(
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

const release = script(
  'release',
  `
local found = fenced(ARGV[2], 'release', ARGV[3], ARGV[4], true)
if not found then return 0 end
handBack(found, 'release', 0)
call('HDEL', job(found.id), 'worker')
return 1`,
)

const lose = script(
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

export class RedisWorkerVerbs implements WorkerVerbs {
  readonly #scripts: Scripts

  constructor(scripts: Scripts) {
    this.#scripts = scripts
  }

  async lease(ask: LeaseAsk): Promise<LeasedJob[]> {
    const { now, worker, count, leaseMs, startsAtLease, notLostSince } = ask
    const rows = (await this.#scripts.run(lease, ask.endpoint, [
      now,
      worker,
      count,
      now + leaseMs,
      startsAtLease ? startsAtLease.graceMs + limits.silentTimeoutMs : '',
      notLostSince ?? Number.MAX_SAFE_INTEGER,
      `${randomBytes(9).toString('base64url')}.`,
    ])) as (Buffer | null)[][]
    return rows.map(readLease)
  }

  async start(fence: Fence, report: Parameters<JobStore['start']>[1]): Promise<FencedAnswer> {
    const { now, agoMs, leaseMs, graceMs } = report
    const times = [now - agoMs, now + leaseMs, graceMs + limits.silentTimeoutMs]
    return answer(await this.#scripts.run(start, fence.endpoint, [now, ...holderOf(fence), ...times]))
  }

  async extend(
    endpoint: string,
    leases: readonly { id: string; lease: string }[],
    until: number,
  ): Promise<Set<string>> {
    const named = leases.flatMap(({ id, lease: token }) => [id, token])
    const stale = (await this.#scripts.run(extend, endpoint, [0, 'lease', until, ...named])) as Buffer[]
    return new Set(stale.filter((_one, at) => at % 2 === 1).map(textOf))
  }

  async extendHeldBy(
    endpoint: string,
    worker: string,
    ids: readonly string[],
    until: number,
  ): Promise<Set<string>> {
    const named = ids.flatMap((id) => [id, worker])
    const stale = (await this.#scripts.run(extend, endpoint, [0, 'worker', until, ...named])) as Buffer[]
    return new Set(stale.filter((_one, at) => at % 2 === 0).map(textOf))
  }

  async appendChunks(
    fence: Fence,
    report: Parameters<JobStore['appendChunks']>[1],
  ): ReturnType<JobStore['appendChunks']> {
    const { firstOrdinal, now } = report
    const stored = (await this.#scripts.run(appendChunks, fence.endpoint, [
      now,
      ...holderOf(fence),
      firstOrdinal ?? '',
      ...report.chunks.flatMap((chunk) => [headOf(chunk), asBuffer(chunk.output)]),
    ])) as number | null
    return stored === null ? { state: 'stale' } : { state: 'accepted', stored }
  }

  async setProgress(fence: Fence, progress: Uint8Array): Promise<FencedAnswer> {
    return answer(
      await this.#scripts.run(setProgress, fence.endpoint, [0, ...holderOf(fence), asBuffer(progress)]),
    )
  }

  async settle(...[fence, end, report]: Parameters<JobStore['settle']>): ReturnType<JobStore['settle']> {
    const { executionMs, chunks = 0, now } = report
    const said = await this.#scripts.run(settle, fence.endpoint, [
      now,
      ...holderOf(fence),
      end.event,
      executionMs ?? '',
      chunks,
      ...dataOf(end),
    ])
    return textOf(said as Buffer) as FencedAnswer | 'behind'
  }

  async release(fence: Fence, now: number): Promise<FencedAnswer> {
    return answer(await this.#scripts.run(release, fence.endpoint, [now, ...holderOf(fence)]))
  }

  async lose(...[fence, { error, executionMs, now }]: Parameters<JobStore['lose']>): Promise<FencedAnswer> {
    const args = [now, ...holderOf(fence), JSON.stringify(error), executionMs]
    return answer(await this.#scripts.run(lose, fence.endpoint, args))
  }
}

function holderOf(fence: Fence): string[] {
  return 'lease' in fence ? [fence.id, 'lease', fence.lease] : [fence.id, 'worker', fence.worker]
}

function answer(changed: unknown): FencedAnswer {
  return changed === 1 ? 'accepted' : 'stale'
}

function headOf({ metrics, part }: NewChunk): string {
  return JSON.stringify({ ...(metrics !== undefined && { metrics }), ...(part && { part }) })
}

function dataOf(end: End): Argument[] {
  const fields: Argument[] = []
  if ('output' in end && end.output) fields.push('output', asBuffer(end.output))
  if ('error' in end) fields.push('error', JSON.stringify(end.error))
  if ('errorText' in end && end.errorText !== undefined) fields.push('errorText', end.errorText)
  return fields
}

function readLease(row: (Buffer | null)[]): LeasedJob {
  const [id, token, attempt, limit, timeout, low, ttl, waited, alone, input, webhook, s3, trace] = row
  return {
    id: textOf(id),
    lease: textOf(token),
    attempt: numberOf(attempt),
    executionTimeoutMs: numberOf(limit),
    policy: {
      ...optional('executionTimeout', timeout, numberOf),
      lowPriority: textOf(low) === '1',
      ttl: numberOf(ttl),
    },
    input: input ?? Buffer.alloc(0),
    ...optional('webhook', webhook, textOf),
    ...optional('sealedS3Config', s3, (bytes) => bytes),
    ...optional('trace', trace, (value) => JSON.parse(textOf(value)) as TraceContext),
    waitedMs: numberOf(waited),
    isAlone: textOf(alone) === '1',
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
