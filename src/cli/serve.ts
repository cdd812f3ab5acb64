// longshore serve: opens the store, listens, and ends cleanly on SIGTERM or SIGINT.

import type { AddressInfo } from 'node:net'
import { systemClock } from '../lib/clock.ts'
import { endpointIdSchema } from '../job/job.ts'
import { permissions } from '../resource/key.ts'
import { buildApp, type AppOptions } from '../server/app.ts'
import { hashKey, newKey, newKeyId } from '../server/auth.ts'
import { isShared, openStore, storeFile } from '../store/open-store.ts'
import { shownStore } from '../store/shown-store.ts'
import type { Store } from '../store/store.ts'
import { CommandError } from './fail.ts'
import { createLogger } from './logger.ts'
import { secretKey } from './secret-key.ts'
import { stopSignal } from './stop-signal.ts'
import { version } from './version.ts'

export interface ServeOptions {
  store: string
  port: number
  host: string
  endpoints: string[]
  allowPrivateWebhooks: boolean
  rateLimits: boolean
  requestsPerWorker: number
  /** Replicas of Redis that have every write before it is answered. */
  redisWait: number
}

/** Serves until it is told to stop. */
export async function serve(options: ServeOptions): Promise<void> {
  const stop = stopSignal()
  const logger = await createLogger('longshore-serve')
  for (const name of options.endpoints) checkEndpointName(name)
  const ownerKey = ownerKeyOf(process.env)
  const store = await openStore(options.store, { replicas: options.redisWait })
  try {
    const endpoints = await ensureEndpoints(store, options.endpoints)
    const file = await storeFile(options.store)
    const given = process.env['LONGSHORE_SECRET_KEY']
    // Servers that share a store have to share the secret, and only their operator can give it to all of them.
    const secret =
      isShared(options.store) && !given
        ? undefined
        : secretKey(given, file, (sentence) => logger.warn(sentence))
    const app = buildApp({
      store,
      clock: store.clock,
      logger,
      ...(secret !== undefined && { secret }),
      ...(ownerKey !== undefined && { ownerKey }),
      allowPrivateWebhooks: options.allowPrivateWebhooks,
      hasRateLimits: options.rateLimits,
      version: version(),
      requestsPerWorker: options.requestsPerWorker,
      ...webhookSecretOf(process.env),
    })
    try {
      await app.http.listen({ host: options.host, port: options.port })
      const { port } = app.http.server.address() as AddressInfo
      const host = options.host.includes(':') ? `[${options.host}]` : options.host
      const base = `http://${host}:${port}`
      for (const endpoint of endpoints) process.stdout.write(`Serving ${base}/v2/${endpoint}\n`)
      await showFirstKey(store, ownerKey)
      logger.info({ store: shownStore(options.store), base, endpoints }, 'serving')
      logger.info({ signal: await stop.told }, 'stopping')
    } catch (cause) {
      throw listenError(cause, options)
    } finally {
      await app.close()
    }
  } finally {
    await store.close()
    stop.release()
  }
}

function checkEndpointName(name: string): void {
  if (!endpointIdSchema.safeParse(name).success) {
    throw new CommandError(
      `--endpoint must be letters, digits, "-" and "_", at most 64 of them, starting with a letter or digit, got '${name}'.`,
    )
  }
}

async function ensureEndpoints(store: Store, names: readonly string[]): Promise<string[]> {
  const stored = await store.endpoints.listEndpoints()
  const wanted = names.length === 0 && stored.length === 0 ? ['default'] : names
  for (const name of wanted) await store.endpoints.ensureEndpoint(name)
  return (await store.endpoints.listEndpoints()).map(({ id }) => id)
}

function ownerKeyOf({ LONGSHORE_API_KEY: key }: NodeJS.ProcessEnv): string | undefined {
  if (key === undefined || key === '') return undefined
  if (/^[\x21-\x7e]+$/.test(key)) return key
  throw new CommandError(
    'LONGSHORE_API_KEY must be printable ASCII without spaces: no request could carry it in a header otherwise.',
  )
}

function webhookSecretOf({
  LONGSHORE_WEBHOOK_SECRET: webhookSecret,
}: NodeJS.ProcessEnv): Pick<AppOptions, 'webhookSecret'> {
  return webhookSecret ? { webhookSecret } : {}
}

async function showFirstKey(store: Store, ownerKey: string | undefined): Promise<void> {
  if (ownerKey !== undefined || (await store.keys.listKeys()).length > 0) return
  const key = newKey()
  await store.keys.addKey({
    hash: hashKey(key),
    id: newKeyId(),
    name: 'owner',
    permissions: [...permissions],
    createdAt: systemClock.now(),
  })
  process.stdout.write(`API key (shown only now, keep it): ${key}\n`)
}

function listenError(cause: unknown, { host, port }: ServeOptions): unknown {
  const code = (cause as NodeJS.ErrnoException).code
  if (code === 'EADDRINUSE')
    return new CommandError(
      `Port ${port} on ${host} is in use. Stop what listens there, or choose another with --port.`,
    )
  if (code === 'EACCES')
    return new CommandError(
      `Port ${port} on ${host} may not be listened on by this user. Choose one above 1023 with --port.`,
    )
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return new CommandError(`This machine has no address '${host}'. Choose another with --host.`)
  return cause
}
