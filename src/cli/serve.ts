// longshore serve: opens the store, listens, and ends cleanly on SIGTERM or SIGINT.

import type { AddressInfo } from 'node:net'
import { systemClock } from '../lib/clock.ts'
import { permissions } from '../resource/key.ts'
import type { Settled } from '../config/settings.ts'
import { buildApp, type App } from '../server/app.ts'
import { hashKey, newKey } from '../resource/key-text.ts'
import { newKeyId } from '../server/auth.ts'
import { isShared, openStore, storeFile } from '../store/open-store.ts'
import { shownStore } from '../store/shown-store.ts'
import type { Store } from '../store/store.ts'
import { FleetHost, reachProblems, volumeProblems } from './fleet-host.ts'
import { ensureEndpoints, keepEndpoints } from './kept-endpoints.ts'
import { listenError } from './listen-problem.ts'
import { createLogger } from './logger.ts'
import { secretKey } from './secret-key.ts'
import { gather, settingsFor, type Flags } from './sources.ts'
import { stopSignal } from './stop-signal.ts'
import { version } from './version.ts'

/** Serves until it is told to stop. */
export async function serve(flags: Flags): Promise<void> {
  const stop = stopSignal()
  const warnings: string[] = []
  const options = settingsFor('serve', await gather(flags), (sentence) => warnings.push(sentence))
  const logger = await createLogger('longshore-serve', options.logLevel)
  const warn = (sentence: string): void => logger.warn(sentence)
  for (const sentence of [...warnings, ...reachProblems(options), ...volumeProblems(options)]) warn(sentence)
  const store = await openStore(options.store, { replicas: options.redisWait, warn })
  try {
    const endpoints = await ensureEndpoints(store, options.endpoints)
    const storesFile = await storeFile(options.store)
    const host = new FleetHost({
      settings: options,
      storeFile: storesFile,
      url: () => addressOf(app, options),
      onTrouble: (pod, err) => logger.error({ err, pod }, 'looking after a pod failed'),
    })
    const secret = secretOf(options, storesFile, warn)
    const app = buildApp({
      ...appOptions(options),
      store,
      clock: store.clock,
      logger,
      endpoints,
      fleet: { host },
      ...secret,
    })
    const stopping = new AbortController()
    const onError = (err: unknown): void => {
      if (!app.http.noteStoreTrouble?.(err))
        logger.error({ err, endpoints }, 'the endpoints are not looked for')
    }
    try {
      // Those of the fleet come and go.
      const fleets = new Set((await app.fleet.endpoints.list()).map(({ id }) => id))
      const kept = endpoints.filter((endpoint) => !fleets.has(endpoint))
      if (isShared(options.store))
        void keepEndpoints({ store, endpoints: kept, logger, onError }, stopping.signal)
      await app.http.listen({ host: options.host, port: options.port })
      const base = addressOf(app, options)
      // Nothing that can fail comes after it says that it serves.
      const key = options.apiKey === undefined ? await firstKey(store) : undefined
      for (const endpoint of endpoints) process.stdout.write(`Serving ${base}/v2/${endpoint}\n`)
      if (key !== undefined) process.stdout.write(`API key (shown only now, keep it): ${key}\n`)
      logger.info({ store: shownStore(options.store), base, endpoints }, 'serving')
      await app.fleet.start()
      logger.info({ signal: await stop.told }, 'stopping')
    } catch (cause) {
      throw listenError(cause, options)
    } finally {
      stopping.abort()
      await app.close()
      host.close()
    }
  } finally {
    await store.close()
    stop.release()
  }
}

/** Once it listens. */
function addressOf(app: App, { host }: Settled<'serve'>): string {
  const { port } = app.http.server.address() as AddressInfo
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Servers that share a store have to share the secret, and only their operator can give it to all of them. */
function secretOf(
  { store, secretKey: given }: Settled<'serve'>,
  file: string | undefined,
  warn: (sentence: string) => void,
): { secret?: string } {
  if (isShared(store) && given === undefined) return {}
  return { secret: secretKey(given, file, warn) }
}

function appOptions(options: Settled<'serve'>) {
  const { apiKey, allowPrivateWebhooks, rateLimits, requestsPerWorker, webhookSecret } = options
  return {
    ...(apiKey !== undefined && { ownerKey: apiKey }),
    allowPrivateWebhooks,
    hasRateLimits: rateLimits,
    version: version(),
    requestsPerWorker,
    ...(webhookSecret !== undefined && { webhookSecret }),
  }
}

/** For a store that has none yet. */
async function firstKey(store: Store): Promise<string | undefined> {
  if ((await store.keys.listKeys()).length > 0) return undefined
  const key = newKey()
  // Servers that start together make one.
  const isAdded = await store.keys.addFirstKey({
    hash: hashKey(key),
    id: newKeyId(),
    name: 'owner',
    permissions: [...permissions],
    createdAt: systemClock.now(),
  })
  return isAdded ? key : undefined
}
