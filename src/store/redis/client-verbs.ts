// What clients do to jobs in Redis: submit, cancel, retry, purge, move the ttl.

import type { JobStatus } from '../../job/lifecycle.ts'
import type { Enqueued, JobStore, NewJob } from '../job-store.ts'
import type { JobParts } from '../compose-jobs.ts'
import { textOf } from './reply.ts'
import { script, type Script } from './script.ts'
import type { Argument, Scripts } from './scripts.ts'

type ClientVerbs = JobParts['client']

// A repeat of the same id is the same submission, of which the first answer was lost.
const enqueue = script(
  'enqueue',
  `
local id, gone, retention, ttl, low, key, bodyHash = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
-- It was let in before the endpoint was removed, and is gone with all the others.
if isRemoved() then return { 'created', id, 'IN_QUEUE' } end
if key ~= '' then
  local earlier = call('HGET', IDEMPOTENCY, key)
  local found = earlier and load(earlier)
  if found and tonumber(found.gone) > now then
    return { found.bodyHash == bodyHash and 'duplicate' or 'conflict', earlier, found.status }
  end
  if found then removeGone(found) end
end
local known = load(id)
if known then return { 'created', id, known.status } end
local position = call('HINCRBY', P, 'position', 1)
call('HSET', job(id), 'status', 'IN_QUEUE', 'position', position, 'attempt', 1, 'submitted', now, 'from', now, 'ran', 0,
  'gone', gone, 'retention', retention, 'ttl', ttl, 'low', low, 'last', 0, 'base', 0, 'read', 0)
if key ~= '' then
  call('HSET', job(id), 'key', key, 'bodyHash', bodyHash)
  call('HSET', IDEMPOTENCY, key, id)
end
if ARGV[9] ~= '' then call('HSET', job(id), 'timeout', ARGV[9]) end
call('HSET', data(id), unpack(ARGV, 10))
joinLine(id, position, low)
if low ~= '1' then call('HINCRBY', P, 'arrived', 1) end
call('ZADD', ALL, position, id)
call('ZADD', GONE, gone, id)
emit('queued')
return { 'created', id, 'IN_QUEUE' }`,
)

const cancel = script(
  'cancel',
  `
local found = present(ARGV[2])
if not found then return false end
if not FROM.cancel[found.status] then return found.status end
leaveLine(found)
emitStop(found, 'cancelled')
-- One that waits has no run to end, and keeps the time of its last one.
if found.lease then endRun(found) end
finish(found, 'cancel', REASON.cancel)
return TO.cancel`,
)

const retry = script(
  'retry',
  `
local found = present(ARGV[2])
if not found then return { 'not-found' } end
if not FROM.retry[found.status] then return { 'wrong-status', found.status } end
local expiresAt = tonumber(found.submitted) + tonumber(found.ttl)
if expiresAt <= now then return { 'ttl-passed' } end
call('UNLINK', chunks(found.id))
for _, number in ipairs(call('SMEMBERS', P .. ':deliveries:' .. found.id)) do removeDelivery(number) end
local position = call('HINCRBY', P, 'position', 1)
call('HSET', job(found.id), 'status', TO.retry, 'reason', REASON.retry, 'position', position, 'attempt', 1, 'from', now, 'ran', 0)
call('HDEL', job(found.id), 'alone', 'execution', 'worker', 'end')
call('HDEL', data(found.id), 'output', 'error', 'errorText')
setGone(found, expiresAt)
call('ZREM', SECRETS, found.id)
joinLine(found.id, position, found.low)
count('retry')
emit('changed', found.id, TO.retry)
emit('queued')
return { 'done', TO.retry }`,
)

/** Jobs that one script cancels: while it runs Redis does nothing else. */
const ROUND = 500

// The first round says up to which place the jobs waited then. One that was handed back since has its old place again,
// and shows by the number of the purge that it did not wait when that began.
const purge = script(
  'purge',
  `
local number, before, after, round = tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5])
if number == 0 then
  local last = call('ZRANGE', WAITING, -1, -1, 'WITHSCORES')
  if not last[2] then return { 0 } end
  number, before, after = call('HINCRBY', P, 'purges', 1), last[2], '-inf'
end
local purged = 0
local places = call('ZRANGE', WAITING, '(' .. after, before, 'BYSCORE', 'LIMIT', 0, round, 'WITHSCORES')
for at = 1, #places, 2 do
  local found = present(places[at])
  after = places[at + 1]
  if found and tonumber(found.purges or 0) < number then
    leaveLine(found)
    finish(found, 'purge', REASON.purge)
    purged = purged + 1
  end
end
if #places < 2 * round then return { purged } end
return { purged, number, before, after }`,
)

const setTtl = script(
  'setTtl',
  `
local found = present(ARGV[2])
if not found or not FROM.expire[found.status] then return false end
local expiresAt = tonumber(found.submitted) + tonumber(ARGV[3])
call('HSET', job(found.id), 'ttl', ARGV[3])
setGone(found, expiresAt)
if expiresAt <= now then remove(found, 'expire') end
return true`,
)

export const clientScripts: readonly Script[] = [enqueue, cancel, retry, purge, setTtl]

/** How many, and where to go on, when there is more. */
type Purged = [number, ...place: (number | Buffer)[]]

export class RedisClientVerbs implements ClientVerbs {
  readonly #scripts: Scripts

  constructor(scripts: Scripts) {
    this.#scripts = scripts
  }

  async enqueue(job: NewJob): Promise<Enqueued> {
    const { policy, idempotency, now } = job
    const [kind, id, status] = (await this.#scripts.run(enqueue, job.endpoint, [
      now,
      job.id,
      now + policy.ttl,
      job.retentionMs,
      policy.ttl,
      policy.lowPriority ? 1 : 0,
      idempotency?.key ?? '',
      idempotency?.bodyHash ?? '',
      policy.executionTimeout ?? '',
      ...dataOf(job),
    ])) as Buffer[]
    const told = textOf(kind) as Enqueued['kind']
    if (told === 'conflict') return { kind: told, id: textOf(id) }
    return { kind: told, id: textOf(id), status: textOf(status) as JobStatus }
  }

  async cancel(endpoint: string, id: string, now: number): ReturnType<JobStore['cancel']> {
    const status = (await this.#scripts.run(cancel, endpoint, [now, id])) as Buffer | null
    return status === null ? { kind: 'not-found' } : { kind: 'done', status: textOf(status) as JobStatus }
  }

  async retry(endpoint: string, id: string, now: number): ReturnType<JobStore['retry']> {
    const [kind, status] = (await this.#scripts.run(retry, endpoint, [now, id])) as Buffer[]
    return (
      status === undefined ? { kind: textOf(kind) } : { kind: textOf(kind), status: textOf(status) }
    ) as Awaited<ReturnType<JobStore['retry']>>
  }

  async purge(endpoint: string, now: number): Promise<number> {
    let purged = 0
    let place: Argument[] | undefined = [0, '', '-inf']
    while (place) {
      const [more, ...next] = (await this.#scripts.run(purge, endpoint, [now, ...place, ROUND])) as Purged
      purged += more
      place = next.length > 0 ? next : undefined
    }
    return purged
  }

  async setTtl(endpoint: string, id: string, ttlMs: number, now: number): Promise<void> {
    await this.#scripts.run(setTtl, endpoint, [now, id, ttlMs])
  }
}

/** What is large or rare, kept apart: moving a job through its life does not touch it. */
function dataOf({ input, webhook, dialect, sealedS3Config, trace }: NewJob): (string | Buffer)[] {
  const fields: (string | Buffer)[] = ['input', asBuffer(input)]
  if (webhook !== undefined) fields.push('webhook', webhook, 'origin', new URL(webhook).origin)
  if (dialect !== undefined) fields.push('dialect', dialect)
  if (sealedS3Config) fields.push('s3', asBuffer(sealedS3Config))
  if (trace) fields.push('trace', JSON.stringify(trace))
  return fields
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
