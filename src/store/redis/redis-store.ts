// The engine for many servers: every verb a script that Redis runs whole, an endpoint's keys together on one node.

import type { Clock } from '../../lib/clock.ts'
import { systemClock } from '../../lib/clock.ts'
import { shownStore } from '../shown-store.ts'
import { composeJobs } from '../compose-jobs.ts'
import { StoreError, type JobStore, type Store, type StoreEvent } from '../store.ts'
import { clientScripts, RedisClientVerbs } from './client-verbs.ts'
import { Connection } from './connection.ts'
import { RedisEndpoints } from './endpoints.ts'
import { RedisKeys } from './keys.ts'
import { News } from './news.ts'
import { readScripts, RedisReads } from './reads.ts'
import { checkServers } from './check-servers.ts'
import type { Script } from './script.ts'
import { Scripts } from './scripts.ts'
import { RedisPresence, RedisRates, trafficScripts } from './traffic.ts'
import { SharedClock } from './shared-clock.ts'
import { RedisSweep, sweepScripts } from './sweep.ts'
import { RedisWebhooks, webhookScripts } from './webhooks.ts'
import { RedisWorkerVerbs, workerScripts } from './worker-verbs.ts'

export interface RedisStoreOptions {
  url: string
  clock?: Clock
  /** Replicas that have every write before it is answered; 0 by default. */
  replicas?: number
}

export const allScripts: readonly Script[] = [
  ...clientScripts,
  ...workerScripts,
  ...readScripts,
  ...sweepScripts,
  ...webhookScripts,
  ...trafficScripts,
]

/** Of the keys and of what is in them. */
const VERSION = 1
const VERSION_KEY = 'longshore:version'
/** There while a queue is being moved here. */
export const MOVING = 'longshore:moving'

/** Connects. Throws StoreError when Redis cannot be reached, or holds what another version has written. */
export async function openRedisStore(options: RedisStoreOptions): Promise<Store> {
  const { url, clock = systemClock, replicas = 0 } = options
  if (replicas > 0 && /\+cluster:/.test(url)) {
    throw new StoreError(
      'STORE_MISCONFIGURED',
      '--redis-wait waits for the replicas of one server, and this is a cluster. Leave it out, or use one server with replicas.',
    )
  }
  const connection = await Connection.open({ url, replicas })
  try {
    await checkServers(connection, url)
    await checkReplicas(connection, url, replicas)
    await checkVersion(connection, url)
    await checkWhole(connection, url)
    await connection.load(allScripts)
    const listeners = new Set<(event: StoreEvent) => void>()
    const endpoints = new RedisEndpoints(connection)
    const names = (): Promise<string[]> => endpoints.names()
    const tell = (event: StoreEvent): void => {
      for (const listener of listeners) listener(event)
    }
    const news = new News({ connection, clock, endpoints: names, tell })
    await news.start()
    const scripts = new Scripts(connection, news)
    const shared = new SharedClock(clock, connection)
    await shared.start()
    return {
      clock: shared,
      jobs: makeJobs(scripts, names),
      endpoints,
      keys: new RedisKeys(connection),
      webhooks: new RedisWebhooks(scripts, names),
      rates: new RedisRates(scripts),
      presence: new RedisPresence(scripts),
      watch(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
      async ping() {
        await connection.ping()
        // In a cluster each may be on another node, and one that is gone is not asked.
        await endpoints.listEndpoints()
      },
      async close() {
        news.close()
        shared.stop()
        await connection.close()
      },
    }
  } catch (cause) {
    await connection.close()
    throw cause
  }
}

export async function checkVersion(connection: Connection, url: string): Promise<void> {
  const found = await readVersion(connection)
  if (found === VERSION) return
  throw new StoreError(
    'STORE_TOO_NEW',
    `The store ${shownStore(url)} has version ${found} of the keys, and this longshore knows version ${VERSION}. Run the same longshore on all servers.`,
  )
}

async function checkWhole(connection: Connection, url: string): Promise<void> {
  if ((await connection.call('exists', MOVING)) === 0) return
  throw new StoreError(
    'STORE_IN_USE',
    `The store ${shownStore(url)} has only a part of a queue: longshore migrate is under way, or was broken off. Let it end, or run it again; it begins anew.`,
  )
}

async function readVersion(connection: Connection): Promise<number> {
  // Looked for first: a Redis that is full refuses to set even what is there.
  const found = await connection.call('get', VERSION_KEY)
  if (found !== null) return Number(found)
  await connection.write('setnx', VERSION_KEY, VERSION)
  return Number(await connection.call('get', VERSION_KEY))
}

async function checkReplicas(connection: Connection, url: string, wanted: number): Promise<void> {
  if (wanted === 0) return
  const [replication = ''] = await connection.info('replication')
  const online = replication.match(/^slave\d+:.*\bstate=online\b/gm)?.length ?? 0
  if (online >= wanted) return
  throw new StoreError(
    'STORE_MISCONFIGURED',
    `--redis-wait ${wanted} asks for more replicas than ${shownStore(url)} has, which are ${online}. Start replicas of it (replicaof), or give a smaller number.`,
  )
}

function makeJobs(scripts: Scripts, endpoints: () => Promise<string[]>): JobStore {
  const client = new RedisClientVerbs(scripts)
  const worker = new RedisWorkerVerbs(scripts)
  const reads = new RedisReads(scripts)
  const sweep = new RedisSweep(scripts, endpoints)
  return composeJobs({ client, worker, reads, sweep })
}
