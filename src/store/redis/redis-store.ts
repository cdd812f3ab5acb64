// The engine for many servers: every verb a script that Redis runs whole, an endpoint's keys together on one node.

import type { Clock } from '../../lib/clock.ts'
import { systemClock } from '../../lib/clock.ts'
import { StoreError, type JobStore, type Store, type StoreEvent } from '../store.ts'
import { clientScripts, RedisClientVerbs } from './client-verbs.ts'
import { Connection, shown } from './connection.ts'
import { RedisEndpoints } from './endpoints.ts'
import { RedisKeys } from './keys.ts'
import { News } from './news.ts'
import { readScripts, RedisReads } from './reads.ts'
import { Scripts } from './scripts.ts'
import { RedisPresence, RedisRates, trafficScripts } from './traffic.ts'
import { SharedClock } from './shared-clock.ts'
import { RedisSweep, sweepScripts } from './sweep.ts'
import { RedisWebhooks, webhookScripts } from './webhooks.ts'
import { RedisWorkerVerbs, workerScripts } from './worker-verbs.ts'

export interface RedisStoreOptions {
  url: string
  clock?: Clock
}

/** Of the keys and of what is in them. */
const VERSION = 1
const VERSION_KEY = 'longshore:version'

/** Connects. Throws StoreError when Redis cannot be reached, or holds what another version has written. */
export async function openRedisStore({ url, clock = systemClock }: RedisStoreOptions): Promise<Store> {
  const connection = await Connection.open(url)
  try {
    await checkVersion(connection, url)
    await checkEviction(connection, url)
    await connection.load([
      ...clientScripts,
      ...workerScripts,
      ...readScripts,
      ...sweepScripts,
      ...webhookScripts,
      ...trafficScripts,
    ])
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
      jobs: composeJobs(scripts, names),
      endpoints,
      keys: new RedisKeys(connection),
      webhooks: new RedisWebhooks(scripts, names),
      rates: new RedisRates(scripts),
      presence: new RedisPresence(scripts),
      watch(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
      ping: async () => void (await connection.call('ping')),
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

async function checkVersion(connection: Connection, url: string): Promise<void> {
  await connection.call('setnx', VERSION_KEY, VERSION)
  const found = Number(await connection.call('get', VERSION_KEY))
  if (found === VERSION) return
  throw new StoreError(
    'STORE_TOO_NEW',
    `The store ${shown(url)} has version ${found} of the keys, and this longshore knows version ${VERSION}. Run the same longshore on all servers.`,
  )
}

/** What evicts keys loses jobs. */
async function checkEviction(connection: Connection, url: string): Promise<void> {
  for (const memory of await connection.info('memory')) {
    const policy = /^maxmemory_policy:(.+)$/m.exec(memory)?.[1]?.trim()
    if (policy === undefined || policy === 'noeviction') continue
    throw new StoreError(
      'STORE_MISCONFIGURED',
      `The store ${shown(url)} may drop jobs when its memory is full: its maxmemory-policy is '${policy}'. Set it with: redis-cli CONFIG SET maxmemory-policy noeviction, and in its configuration.`,
    )
  }
}

function composeJobs(scripts: Scripts, endpoints: () => Promise<string[]>): JobStore {
  const client = new RedisClientVerbs(scripts)
  const worker = new RedisWorkerVerbs(scripts)
  const reads = new RedisReads(scripts)
  const sweep = new RedisSweep(scripts, endpoints)
  return {
    enqueue: (job) => client.enqueue(job),
    cancel: (...ask) => client.cancel(...ask),
    retry: (...ask) => client.retry(...ask),
    purge: (...ask) => client.purge(...ask),
    setTtl: (...ask) => client.setTtl(...ask),
    lease: (ask) => worker.lease(ask),
    start: (...report) => worker.start(...report),
    extend: (...ask) => worker.extend(...ask),
    extendHeldBy: (...ask) => worker.extendHeldBy(...ask),
    appendChunks: (...report) => worker.appendChunks(...report),
    setProgress: (...report) => worker.setProgress(...report),
    settle: (...report) => worker.settle(...report),
    release: (...ask) => worker.release(...ask),
    lose: (...report) => worker.lose(...report),
    find: (...ask) => reads.find(...ask),
    list: (...ask) => reads.list(...ask),
    readChunks: (...ask) => reads.readChunks(...ask),
    markRead: (...ask) => reads.markRead(...ask),
    count: (endpoint) => reads.count(endpoint),
    headWaitedMs: (...ask) => reads.headWaitedMs(...ask),
    sweep: (...ask) => sweep.sweep(...ask),
  }
}
