// Redis as the target of a queue that moves: the same keys that the verbs make, marked as unfinished until all are there.

import { isEnded } from '../../job/lifecycle.ts'
import type { MovedDelivery, MovedEndpoint, MovedJob, MovedRun, QueueTarget } from '../moved.ts'
import { shownStore } from '../shown-store.ts'
import { StoreError, type StoredChunk } from '../store.ts'
import { checkServers } from './check-servers.ts'
import { Connection, type Argument } from './connection.ts'
import { endpointKey, ENDPOINTS, RedisEndpoints } from './endpoints.ts'
import { KEYS } from './keys.ts'
import { checkVersion, MOVING } from './redis-store.ts'

/** What may be on its way at once. */
const BATCH_BYTES = 8_000_000
const BATCH_COMMANDS = 1_000

/** Throws StoreError when there are jobs. What a broken-off move has left there is removed first. */
export async function openRedisTarget(url: string): Promise<QueueTarget> {
  const connection = await Connection.open({ url })
  try {
    await checkServers(connection, url)
    await checkVersion(connection, url)
    if ((await connection.call('exists', MOVING)) === 1) await connection.removeAll('longshore:{*')
    else await checkEmpty(connection, url)
    await connection.call('set', MOVING, 1)
    return new RedisTarget(connection)
  } catch (cause) {
    await connection.close()
    throw cause
  }
}

async function checkEmpty(connection: Connection, url: string): Promise<void> {
  for (const endpoint of await new RedisEndpoints(connection).names()) {
    const jobs = (await connection.call('zcard', `${endpointKey(endpoint)}:all`)) as number
    if (jobs === 0) continue
    throw new StoreError(
      'STORE_IN_USE',
      `The store ${shownStore(url)} has ${jobs} jobs of the endpoint '${endpoint}' already, and a queue can only be moved to an empty one. Name another Redis, or another database of it.`,
    )
  }
}

class RedisTarget implements QueueTarget {
  readonly #connection: Connection
  readonly #underWay: Promise<unknown>[] = []
  #bytes = 0
  /** By endpoint: the newest place, and how many deliveries there are. */
  readonly #newest = new Map<string, { position: number; deliveries: number }>()

  constructor(connection: Connection) {
    this.#connection = connection
  }

  async addKey({ hash, ...key }: Parameters<QueueTarget['addKey']>[0]): Promise<void> {
    await this.#send('hsetnx', KEYS, hash, JSON.stringify(key))
  }

  async addJob(job: MovedJob): Promise<void> {
    const { id, position, submission, idempotency } = job
    const p = endpointKey(job.endpoint)
    const newest = this.#of(job.endpoint)
    newest.position = Math.max(newest.position, position, submission)
    await this.#send('hset', `${p}:job:${id}`, ...flat(hashOf(job)))
    await this.#send('hset', `${p}:data:${id}`, ...flat(dataOf(job)))
    for (const chunk of job.chunks) await this.#send('hset', `${p}:chunks:${id}`, chunk.index, chunkOf(chunk))
    if (idempotency) await this.#send('hset', `${p}:idempotency`, idempotency.key, id)
    if (job.status === 'IN_QUEUE') await this.#send('zadd', `${p}:waiting`, position, id)
    await this.#send('zadd', `${p}:all`, submission, id)
    await this.#send('zadd', `${p}:gone`, job.goneAt, id)
    if (job.sealedS3Config && isEnded(job.status))
      await this.#send('zadd', `${p}:secrets`, job.submittedAt + job.ttlMs, id)
  }

  async addDelivery(delivery: MovedDelivery): Promise<void> {
    const { endpoint, id, url, origin, dueAt, attempts } = delivery
    const p = endpointKey(endpoint)
    const number = (this.#of(endpoint).deliveries += 1)
    const job = Object.entries(runOf(delivery)).map(([name, value]) => [`job.${name}`, value] as const)
    const own = { ...textsOf(delivery), id, url, origin, attempts }
    await this.#send('hset', `${p}:delivery:${number}`, ...flat({ ...Object.fromEntries(job), ...own }))
    await this.#send('zadd', `${p}:owed:${origin}`, dueAt, number)
    await this.#send('sadd', `${p}:deliveries:${id}`, number)
    // An origin is due when its first delivery is: NX and LT together are no option, and a new one takes the first.
    await this.#send('zadd', `${p}:origins`, 'LT', dueAt, origin)
  }

  async addEndpoint(endpoint: MovedEndpoint): Promise<void> {
    const { id, executionTimeoutMs, maxAttempts, completed, failed, retried } = endpoint
    const { position, deliveries } = this.#of(id)
    const fields = {
      timeout: executionTimeoutMs,
      attempts: maxAttempts,
      completed,
      failed,
      retried,
      position,
      deliveries,
    }
    await this.#send('hset', endpointKey(id), ...flat(fields))
    await this.#flush()
    await this.#send('sadd', ENDPOINTS, id)
  }

  async finish(): Promise<void> {
    await this.#flush()
    await this.#connection.call('del', MOVING)
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#underWay)
    await this.#connection.close()
  }

  #of(endpoint: string): { position: number; deliveries: number } {
    const found = this.#newest.get(endpoint) ?? { position: 0, deliveries: 0 }
    this.#newest.set(endpoint, found)
    return found
  }

  async #send(command: string, ...args: Argument[]): Promise<void> {
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
