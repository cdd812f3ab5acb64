// A service in this process, without a port, on a store in memory.

import { pino } from 'pino'
import type { FastifyInstance, LightMyRequestResponse } from 'fastify'
import { systemClock, type Clock } from '../../src/lib/clock.ts'
import { buildApp, type AppOptions } from '../../src/server/app.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { openRedisStore } from '../../src/store/redis/redis-store.ts'
import type { Store } from '../../src/store/store.ts'
import { Contract } from './contract.ts'
import { startRedis } from './redis.ts'

export const KEY = 'test-key'

export interface TestService {
  http: FastifyInstance
  store: Store
  /** What the service logged, as JSON lines. */
  logged: string[]
  /** One request with the owner's key; a body that is no text or bytes is sent as JSON. */
  ask(
    method: 'GET' | 'POST',
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
  ): Promise<LightMyRequestResponse>
  close(): Promise<void>
}

export interface TestServiceOptions {
  leaseMs?: number
  maxPages?: number
  /** In memory by default. */
  file?: string
  /** `test-secret` by default; `null` for a service that has none. */
  secret?: string | null
  /** What runs pods; nothing by default. */
  fleet?: NonNullable<AppOptions['fleet']>
  /** False by default: tests may ask as often as they like. */
  hasRateLimits?: boolean
  requestsPerWorker?: number
  allowPrivateWebhooks?: boolean
  webhookSecret?: string
  /** `debug` by default. */
  logLevel?: 'trace'
  /** The system's by default. */
  clock?: Clock
}

export async function startTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const { maxPages, file = ':memory:', logLevel = 'debug', secret = 'test-secret', ...settings } = options
  const { store, dispose } = await openTestStore(file, maxPages)
  await store.endpoints.ensureEndpoint('default')
  const logged: string[] = []
  const logger = pino({ level: logLevel }, { write: (line: string) => void logged.push(line) })
  const app = buildApp({
    clock: systemClock,
    hasRateLimits: false,
    ...settings,
    ...(secret !== null && { secret }),
    store,
    logger,
    ownerKey: KEY,
  })
  const judge = judgeReplies(app.http)
  await app.http.ready()
  return {
    http: app.http,
    store,
    logged,
    ask: (method, path, body, headers = {}) =>
      app.http.inject({
        method,
        url: `/v2/default${path}`,
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', ...headers },
        ...(body !== undefined && { payload: payloadOf(body) }),
      }),
    async close() {
      await app.close()
      // Requests that came past the network are not waited for by the server.
      for (let n = 0; n < 5 && storesElsewhere.has(store); n += 1) await store.ping()
      await store.close()
      await dispose()
      judge()
    },
  }
}

/** Stores of services in this process that are a process of their own. */
export const storesElsewhere = new Set<Store>()

/** By LONGSHORE_TEST_STORE=redis each service that needs no file has a Redis of its own. */
async function openTestStore(
  file: string,
  maxPages: number | undefined,
): Promise<{ store: Store; dispose: () => Promise<void> }> {
  const isRedis =
    process.env['LONGSHORE_TEST_STORE'] === 'redis' && file === ':memory:' && maxPages === undefined
  if (!isRedis)
    return {
      store: openSqliteStore({ file, ...(maxPages !== undefined && { maxPages }) }),
      dispose: async () => undefined,
    }
  const server = await startRedis()
  const store = await openRedisStore({ url: server.url })
  storesElsewhere.add(store)
  return {
    store,
    async dispose() {
      storesElsewhere.delete(store)
      await server.stop()
    },
  }
}

function payloadOf(body: unknown): string | Buffer {
  return typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
}

/** Of the first service that was asked: no option of a service changes its document, and to read one takes long. */
let contract: Contract | undefined

/** Holds every reply against the OpenAPI document; the answer throws when one did not fit. */
function judgeReplies(http: FastifyInstance): () => void {
  const problems: string[] = []
  http.addHook('onSend', async (request, reply, payload) => {
    contract ??= new Contract(http.swagger())
    const { method, url } = request
    const isPage = url.startsWith('/docs') || url.startsWith('/openapi.json')
    const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload)
    const problem = contract.problemOf({
      method,
      url,
      status: reply.statusCode,
      type: String(reply.getHeader('content-type') ?? ''),
      body: isWhole ? payload.toString() : undefined,
    })
    if (problem !== undefined && !isPage) problems.push(problem)
    return payload
  })
  return () => {
    if (problems.length > 0) throw new Error([...new Set(problems)].join('\n'))
  }
}
