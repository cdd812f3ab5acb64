// A service in this process, without a port, on a store in memory.

import { pino } from 'pino'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import { systemClock, type Clock } from '../../src/lib/clock.ts'
import { buildApp } from '../../src/server/app.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { Store } from '../../src/store/store.ts'
import { Contract } from './contract.ts'

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
  secret?: string
  /** False by default: tests may ask as often as they like. */
  hasRateLimits?: boolean
  requestsPerWorker?: number
  allowPrivateWebhooks?: boolean
  webhookSecret?: string
  /** The system's by default. */
  clock?: Clock
}

export async function startTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const { maxPages, file = ':memory:', ...settings } = options
  const store = openSqliteStore({ file, ...(maxPages !== undefined && { maxPages }) })
  await store.endpoints.ensureEndpoint('default')
  const logged: string[] = []
  const logger = pino({ level: 'debug' }, { write: (line: string) => void logged.push(line) })
  const app = buildApp({
    clock: systemClock,
    secret: 'test-secret',
    hasRateLimits: false,
    ...settings,
    store,
    logger,
    ownerKey: KEY,
  })
  await app.http.ready()
  const contract = new Contract(app.http.swagger())
  const checked = async (
    asked: InjectOptions & { url: string; method: string },
  ): Promise<LightMyRequestResponse> => {
    const reply = await app.http.inject(asked)
    contract.check(asked, reply)
    return reply
  }
  return {
    http: app.http,
    store,
    logged,
    ask: (method, path, body, headers = {}) =>
      checked({
        method,
        url: `/v2/default${path}`,
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', ...headers },
        ...(body !== undefined && { payload: payloadOf(body) }),
      }),
    async close() {
      await app.close()
      await store.close()
    },
  }
}

function payloadOf(body: unknown): string | Buffer {
  return typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
}
