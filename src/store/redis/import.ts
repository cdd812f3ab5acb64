// Redis as the target of a queue that moves: the same keys that the verbs make, marked as unfinished until all are there.

import { isEnded } from '../../job/lifecycle.ts'
import { systemClock } from '../../lib/clock.ts'
import { recordKinds, type RecordKind } from '../fleet-store.ts'
import type { MovedDelivery, MovedEndpoint, MovedJob, MovedRecord, MovedRun, QueueTarget } from '../moved.ts'
import { shownStore } from '../shown-store.ts'
import type { StoredChunk } from '../job-store.ts'
import { StoreError } from '../store-error.ts'
import { MoveRight, MOVING } from './attendance.ts'
import { checkServers } from './check-servers.ts'
import { checkUser } from './check-user.ts'
import { Connection, type Argument } from './connection.ts'
import { endpointKey, ENDPOINTS } from './endpoint-key.ts'
import { endpointNames } from './endpoints.ts'
import { recordsKey } from './fleet.ts'
import { KEYS } from './keys.ts'
import { checkVersion, refusedUser } from './redis-store.ts'
import { Standstill, STANDSTILL } from './standstill.ts'

/** What may be on its way at once. */
const BATCH_BYTES = 8_000_000
const BATCH_COMMANDS = 1_000

/** Hashes of the keys that a move has put there, for one that begins anew. */
const MOVED_KEYS = 'longshore:moved-keys'

/** Throws StoreError when it was used, is served, or moved to. What a broken-off move has left there is removed first. */
export async function openRedisTarget(url: string): Promise<QueueTarget> {
  const connection = await Connection.open({ url })
  try {
    await checkUser(connection, { replicas: 0 })
    await checkServers(connection, url)
    await checkVersion(connection, url)
    const right = await MoveRight.take(connection, { url, clock: systemClock })
    let passing: Standstill | undefined
    try {
      const isAnew = (await connection.call('exists', MOVING)) === 1
      const standstill = new Standstill(connection, { lasts: isAnew })
      if (!isAnew) passing = standstill
      if (isAnew) await standstill.takeOver()
      await standstill.of(await endpointNames(connection))
      // The mark says that what is there is this kind's: it comes before the first row, and only where nothing was.
      if (isAnew) await removeMoved(connection)
      else await checkUnused(connection, url)
      await right.check()
      await connection.call('set', MOVING, 1)
      await standstill.last()
      return new RedisTarget(connection, right, standstill)
    } catch (cause) {
      // Those that are left go by themselves, or with the move that begins anew.
      if (cause instanceof StoreError && cause.code === 'STORE_IN_USE') await passing?.end()
      await right.release()
      throw cause
    }
  } catch (cause) {
    await connection.close()
    throw refusedUser(cause, { url, database: connection.database }) ?? cause
  }
}

async function checkUnused(connection: Connection, url: string): Promise<void> {
  await checkNoJobs(connection, url)
  await checkNoRecords(connection, url)
}

/** Counters and deliveries of jobs that are gone would be written over, so nothing may ever have been submitted. */
async function checkNoJobs(connection: Connection, url: string): Promise<void> {
  for (const endpoint of await endpointNames(connection)) {
    const submitted = Number(await connection.call('hget', endpointKey(endpoint), 'position'))
    if (submitted === 0) continue
    throw new StoreError(
      'STORE_IN_USE',
      `The store ${shownStore(url)} has had jobs of the endpoint '${endpoint}' already, and a queue can only be moved to one that was not used. Name another Redis, or another database of it.`,
    )
  }
}

/** A name of the file's would be given twice, and a move that begins anew would remove them. */
async function checkNoRecords(connection: Connection, url: string): Promise<void> {
  for (const kind of Object.keys(recordKinds) as RecordKind[]) {
    const count = Number(await connection.call('hlen', recordsKey(kind)))
    if (count === 0) continue
    throw new StoreError(
      'STORE_IN_USE',
      `The store ${shownStore(url)} has records of a fleet already (${kind}: ${count}), and a queue can only be moved to one that was not used. Name another Redis, or another database of it.`,
    )
  }
}

async function removeMoved(connection: Connection): Promise<void> {
  await connection.removeAll('longshore:{*', STANDSTILL)
  const moved = (await connection.call('smembers', MOVED_KEYS)) as Buffer[]
  for (const hash of moved) await connection.call('hdel', KEYS, hash)
  await connection.call('del', MOVED_KEYS)
}

class RedisTarget implements QueueTarget {
  readonly #connection: Connection
  readonly #right: MoveRight
  readonly #standstill: Standstill
  readonly #underWay: Promise<unknown>[] = []
  #bytes = 0
  /** By endpoint: the newest place, and how many deliveries there are. */
  readonly #newest = new Map<string, { position: number; deliveries: number }>()

  constructor(connection: Connection, right: MoveRight, standstill: Standstill) {
    this.#connection = connection
    this.#right = right
    this.#standstill = standstill
  }

  async addKey({ hash, ...key }: Parameters<QueueTarget['addKey']>[0]): Promise<void> {
    if ((await this.#connection.call('hexists', KEYS, hash)) === 1) return
    await this.#connection.call('sadd', MOVED_KEYS, hash)
    await this.#send('hset', KEYS, hash, JSON.stringify(key))
  }

  async addJob(job: MovedJob): Promise<void> {
    const { id, position, submission, idempotency } = job
    const p = endpointKey(job.endpoint)
    const newest = await this.#of(job.endpoint)
    newest.position = Math.max(newest.position, position, submission)
    await this.#send('hset', `${p}:job:${id}`, ...flat(hashOf(job)))
    await this.#send('hset', `${p}:data:${id}`, ...flat(dataOf(job)))
    for (const chunk of job.chunks) await this.#send('hset', `${p}:chunks:${id}`, chunk.index, chunkOf(chunk))
    if (idempotency) await this.#send('hset', `${p}:idempotency`, idempotency.key, id)
    if (job.status === 'IN_QUEUE') {
      await this.#send('zadd', `${p}:waiting`, position, id)
      if (job.isLowPriority) await this.#send('zadd', `${p}:low`, position, id)
    }
    await this.#send('zadd', `${p}:all`, submission, id)
    await this.#send('zadd', `${p}:gone`, job.goneAt, id)
    if (job.sealedS3Config && isEnded(job.status))
      await this.#send('zadd', `${p}:secrets`, job.submittedAt + job.ttlMs, id)
  }

  async addRecord({ kind, id, name, revision, body }: MovedRecord): Promise<void> {
    await this.#send('hset', recordsKey(kind), id, `${revision}:${body}`)
    if (name !== undefined) await this.#send('hset', `${recordsKey(kind)}:names`, name, id)
  }

  async addDelivery(delivery: MovedDelivery): Promise<void> {
    const { endpoint, id, url, origin, dueAt, attempts } = delivery
    const p = endpointKey(endpoint)
    const newest = await this.#of(endpoint)
    const number = (newest.deliveries += 1)
    const job = Object.entries(runOf(delivery)).map(([name, value]) => [`job.${name}`, value] as const)
    const own = { ...textsOf(delivery), id, url, origin, attempts }
    await this.#send('hset', `${p}:delivery:${number}`, ...flat({ ...Object.fromEntries(job), ...own }))
    await this.#send('zadd', `${p}:owed:${origin}`, dueAt, number)
    await this.#send('sadd', `${p}:deliveries:${id}`, number)
    // An origin is due when its first delivery is: NX and LT together are no option, and a new one takes the first.
    await this.#send('zadd', `${p}:origins`, 'LT', dueAt, origin)
  }

  async addEndpoint(endpoint: MovedEndpoint): Promise<void> {
    const { id, executionTimeoutMs, maxAttempts, completed, failed, retried, arrived } = endpoint
    const { position, deliveries } = await this.#of(id)
    const fields = {
      timeout: executionTimeoutMs,
      attempts: maxAttempts,
      completed,
      failed,
      retried,
      arrived,
      position,
      deliveries,
    }
    await this.#send('hset', endpointKey(id), ...flat(fields))
    // Nothing else is left of one that was removed there. With the mark its jobs would be deleted once it is asked for.
    await this.#send('hdel', endpointKey(id), 'removed')
    await this.#flush()
    await this.#send('sadd', ENDPOINTS, id)
  }

  async finish(): Promise<void> {
    await this.#flush()
    await this.#right.confirm()
    await this.#connection.call('del', MOVED_KEYS)
    // A server that came back meanwhile serves what is there from here on.
    await this.#standstill.pass()
    await this.#connection.call('del', MOVING)
    await this.#standstill.end()
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#underWay)
    await this.#right.release()
    await this.#connection.close()
  }

  async #of(endpoint: string): Promise<{ position: number; deliveries: number }> {
    const known = this.#newest.get(endpoint)
    if (known) return known
    await this.#standstill.of([endpoint])
    const fresh = { position: 0, deliveries: 0 }
    this.#newest.set(endpoint, fresh)
    return fresh
  }

  async #send(command: string, ...args: Argument[]): Promise<void> {
    await this.#right.check()
    const answer = this.#connection.call(command, ...args)
    // It is waited for with its batch; until then it is nobody's.
    answer.catch(() => undefined)
    this.#underWay.push(answer)
    for (const arg of args) this.#bytes += typeof arg === 'number' ? 8 : arg.length
    if (this.#bytes >= BATCH_BYTES || this.#underWay.length >= BATCH_COMMANDS) await this.#flush()
  }

  async #flush(): Promise<void> {
    this.#bytes = 0
    await Promise.all(this.#underWay.splice(0))
  }
}

type Values = Record<string, Argument | undefined>

/** The part of a job's hash that a webhook is told too. */
function runOf(run: MovedRun): Values {
  return {
    status: run.status,
    reason: run.reason,
    attempt: run.attempt,
    worker: run.worker,
    submitted: run.submittedAt,
    from: run.countedFrom,
    ran: run.ranMs,
    end: run.endedAt,
    execution: run.executionMs,
  }
}

function hashOf(job: MovedJob): Values {
  return {
    ...runOf(job),
    position: job.position,
    gone: job.goneAt,
    retention: job.retentionMs,
    ttl: job.ttlMs,
    low: job.isLowPriority ? 1 : 0,
    last: job.lastIndex,
    base: job.leaseIndex,
    read: job.readIndex,
    timeout: job.executionTimeoutMs,
    key: job.idempotency?.key,
    bodyHash: job.idempotency?.bodyHash,
    alone: job.isAlone ? 1 : undefined,
    lapsed: job.lapsed?.at,
    lostBy: job.lapsed?.by,
  }
}

function textsOf(run: MovedRun): Values {
  return {
    input: asBuffer(run.input),
    output: run.output && asBuffer(run.output),
    error: run.error,
    errorText: run.errorText,
    trace: run.trace,
    dialect: run.dialect,
  }
}

function dataOf(job: MovedJob): Values {
  const { webhook, sealedS3Config } = job
  return {
    ...textsOf(job),
    webhook,
    origin: webhook === undefined ? undefined : new URL(webhook).origin,
    s3: sealedS3Config && asBuffer(sealedS3Config),
  }
}

function chunkOf({ index, attempt, output, metrics, part }: StoredChunk): Buffer {
  const head = {
    ...(metrics !== undefined && { metrics }),
    ...(part && { part: { as: part.as, back: index - part.first, last: part.last } }),
  }
  return Buffer.concat([Buffer.from(`${attempt} ${JSON.stringify(head)}\n`), output])
}

function flat(values: Values): Argument[] {
  return Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [name, value]))
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
