// The engine for many servers: every verb a script that Redis runs whole, an endpoint's keys together on one node.

import type { Clock } from '../../lib/clock.ts'
import { systemClock } from '../../lib/clock.ts'
import { shownStore } from '../shown-store.ts'
import { composeJobs } from '../compose-jobs.ts'
import type { JobStore } from '../job-store.ts'
import type { Store } from '../store.ts'
import { StoreError } from '../store-error.ts'
import type { StoreEvent } from '../store-event.ts'
import { Attendance, attendanceScripts, MOVING } from './attendance.ts'
import { clientScripts, RedisClientVerbs } from './client-verbs.ts'
import { Connection } from './connection.ts'
import { endpointKey, ENDPOINTS } from './endpoint-key.ts'
import { endpointScripts, RedisEndpoints } from './endpoints.ts'
import { fleetScripts, makeFleet } from './fleet.ts'
import { RedisKeys } from './keys.ts'
import { News } from './news.ts'
import { permissionProblem, refusalOf } from './refusals.ts'
import { readScripts, RedisReads } from './reads.ts'
import { checkServers } from './check-servers.ts'
import { checkUser } from './check-user.ts'
import type { Script } from './script.ts'
import { Scripts } from './scripts.ts'
import { RedisPresence, RedisRates, trafficScripts } from './traffic.ts'
import { SharedClock } from './shared-clock.ts'
import { RedisSweep, sweepScripts } from './sweep.ts'
import { RedisWebhooks, webhookScripts } from './webhooks.ts'
import { RedisWorkerVerbs } from './worker-verbs.ts'
import { workerScripts } from './worker-scripts.ts'

export interface RedisStoreOptions {
  url: string
  clock?: Clock
  /** Replicas that have every write before it is answered; 0 by default. */
  replicas?: number
  /** Takes a sentence that whoever runs this server is to see. */
  warn?: (sentence: string) => void
}

export const allScripts: readonly Script[] = [
  ...clientScripts,
  ...workerScripts,
  ...readScripts,
  ...sweepScripts,
  ...webhookScripts,
  ...trafficScripts,
  ...attendanceScripts,
  ...fleetScripts,
  ...endpointScripts,
]

/** Of the keys and of what is in them. */
const VERSION = 1
const VERSION_KEY = 'longshore:version'

/** Connects. Throws StoreError when Redis cannot be reached, or holds what another version has written. */
export async function openRedisStore(options: RedisStoreOptions): Promise<Store> {
  const { url, clock = systemClock, replicas = 0 } = options
  const connection = await Connection.open({ url, replicas })
  try {
    await checkUser(connection, { replicas })
    await checkServers(connection, url)
    await checkReplicas(connection, url, replicas)
    await checkVersion(connection, url)
    await connection.load(allScripts)
    const attendance = new Attendance(connection, clock)
    await attendance.start(url)
    const listeners = new Set<(event: StoreEvent) => void>()
    const endpoints: RedisEndpoints = new RedisEndpoints(connection, () => scripts)
    const names = (): Promise<string[]> => endpoints.knownNames()
    const tell = (event: StoreEvent): void => {
      for (const listener of listeners) listener(event)
    }
    const { warn } = options
    const news = new News({ connection, clock, endpoints: names, tell, ...(warn && { warn }) })
    await news.start()
    const scripts = new Scripts(connection, news)
    const shared = new SharedClock(clock, connection)
    await shared.start()
    return {
      clock: shared,
      jobs: makeJobs(scripts, names, shared.look),
      endpoints,
      keys: new RedisKeys(connection, clock),
      webhooks: new RedisWebhooks(scripts, names),
      fleet: makeFleet(connection),
      rates: new RedisRates(scripts),
      presence: new RedisPresence(scripts),
      watch(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
      async ping(served = []) {
        if ((await connection.call('exists', MOVING)) === 1) throw movedTo(url)
        // A server may answer and take no writes. In a cluster each endpoint may be on another node, and one that is gone is
        // not asked. What is deleted is not there, so that a Redis which is full lets it be.
        const keys = [ENDPOINTS, ...[...new Set([...(await names()), ...served])].map(endpointKey)]
        await Promise.all(keys.map((key) => connection.write('del', `${key}:nothing`)))
        const isWhole = await Promise.all(
          served.map(async (one) => (await endpoints.isWhole(one)) || endpoints.wasRemoved(one)),
        )
        const lost = served.filter((_endpoint, at) => !isWhole[at])
        if (lost.length > 0) throw lostEndpoints(url, lost)
      },
      leave: () => connection.leave(),
      async close() {
        news.close()
        shared.stop()
        await connection.leave()
        await attendance.close()
        await connection.close()
      },
    }
  } catch (cause) {
    await connection.close()
    throw refusedUser(cause, { url, database: connection.database }) ?? cause
  }
}

function movedTo(url: string): StoreError {
  const words = `The store ${shownStore(url)} is being moved to by longshore migrate. It is served when that has ended.`
  return new StoreError('STORE_UNAVAILABLE', words)
}

function lostEndpoints(url: string, lost: readonly string[]): StoreError {
  const words = `The store ${shownStore(url)} has come back without all of '${lost.join("', '")}'. A server that serves it makes it anew.`
  return new StoreError('STORE_UNAVAILABLE', words)
}

/** A user that may not do all that a server does would fail it sooner or later. */
export function refusedUser(
  cause: unknown,
  { url, database }: { url: string; database: number },
): StoreError | undefined {
  const refusal = refusalOf(cause)
  if (!refusal) return undefined
  const words = `The store ${shownStore(url)} ${permissionProblem(refusal, database)}`
  return new StoreError('STORE_MISCONFIGURED', words, { cause })
}

/** Throws StoreError STORE_TOO_NEW. A Redis that has no version gets this one. */
export async function checkVersion(connection: Connection, url: string): Promise<void> {
  await markVersion(connection)
  const problem = await versionProblem(connection)
  if (problem !== undefined) throw new StoreError('STORE_TOO_NEW', `The store ${shownStore(url)} ${problem}`)
}

export async function versionProblem(connection: Connection): Promise<string | undefined> {
  const found = (await connection.call('get', VERSION_KEY)) as Buffer | null
  if (found === null || found.equals(Buffer.from(String(VERSION)))) return undefined
  return `has version ${shownVersion(found)} of the keys, and this longshore knows version ${VERSION}. Run the same longshore on all servers.`
}

/** It may be anything, of any length. */
function shownVersion(found: Buffer): string {
  const text = found.toString()
  return /^\d{1,9}$/.test(text) ? text : JSON.stringify(text.slice(0, 20))
}

async function markVersion(connection: Connection): Promise<void> {
  // Looked for first: a Redis that is full refuses to set even what is there.
  if ((await connection.call('get', VERSION_KEY)) === null)
    await connection.write('setnx', VERSION_KEY, VERSION)
}

async function checkReplicas(connection: Connection, url: string, wanted: number): Promise<void> {
  const problem = await replicasProblem(connection, url, wanted)
  if (problem !== undefined) throw new StoreError('STORE_MISCONFIGURED', problem)
}

export async function replicasProblem(
  connection: Connection,
  url: string,
  wanted: number,
): Promise<string | undefined> {
  if (wanted === 0) return undefined
  const [replication = ''] = await connection.info('replication')
  const online = replication.match(/^slave\d+:.*\bstate=online\b/gm)?.length ?? 0
  if (online >= wanted) return undefined
  return `--redis-wait ${wanted} asks for more replicas than ${shownStore(url)} has, which are ${online}. Start replicas of it (replicaof), or give a smaller number.`
}

function makeJobs(scripts: Scripts, endpoints: () => Promise<string[]>, onClockOff: () => void): JobStore {
  const client = new RedisClientVerbs(scripts)
  const worker = new RedisWorkerVerbs(scripts)
  const reads = new RedisReads(scripts)
  const sweep = new RedisSweep(scripts, endpoints, onClockOff)
  return composeJobs({ client, worker, reads, sweep })
}
