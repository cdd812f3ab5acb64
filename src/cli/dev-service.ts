// The queue service of `longshore dev`: one endpoint, in memory unless told otherwise, with a key that ends with it.

import type { AddressInfo } from 'node:net'
import type { Settled } from '../config/settings.ts'
import { buildApp, type App } from '../server/app.ts'
import { newKey } from '../resource/key-text.ts'
import { isShared, openStore, storeFile } from '../store/open-store.ts'
import { listenError } from './listen-problem.ts'
import { createWordLogger, type LogLevel } from './logger.ts'
import { secretKey } from './secret-key.ts'
import { version } from './version.ts'

export interface DevServiceOptions {
  settings: Settled<'dev'>
  /** 8000 without one, or a free one where that is taken. */
  port?: number
  logLevel: LogLevel
  /** What has to be told beside all else. */
  say: (line: string) => void
}

export interface DevService {
  endpointUrl: string
  /** Opens everything, as long as the service runs. */
  key: string
  close(): Promise<void>
}

const ENDPOINT = 'default'
const USUAL_PORT = 8000

export async function startDevService(options: DevServiceOptions): Promise<DevService> {
  const { settings, port, logLevel, say } = options
  const { devStore: url, host, apiKey, secretKey: given, webhookSecret } = settings
  const logger = createWordLogger('longshore-dev', logLevel, say)
  const key = newKey()
  const store = await openStore(url)
  try {
    await store.endpoints.ensureEndpoint(ENDPOINT)
    const secret = isShared(url) && !given ? undefined : secretKey(given, await storeFile(url), say)
    const app = buildApp({
      store,
      clock: store.clock,
      logger,
      // A key of its own, which may be seen on a screen, beside the one that the environment has for clients.
      ownerKey: apiKey === undefined ? [key] : [key, apiKey],
      ...(secret !== undefined && { secret }),
      ...(webhookSecret !== undefined && { webhookSecret }),
      version: version(),
      // Whoever writes a handler has the receiver of its webhooks on this machine, and only their own clients.
      allowPrivateWebhooks: true,
      hasRateLimits: false,
    })
    try {
      const shown = shownHost(host)
      const base = `http://${shown}:${await listen(app.http, host, port)}`
      const close = async (): Promise<void> => {
        await app.close()
        await store.close()
      }
      return { endpointUrl: `${base}/v2/${ENDPOINT}`, key, close }
    } catch (cause) {
      await app.close()
      throw cause
    }
  } catch (cause) {
    await store.close()
    throw cause
  }
}

async function listen(http: App['http'], host: string, port: number | undefined): Promise<number> {
  try {
    await http.listen({ host, port: port ?? USUAL_PORT })
  } catch (cause) {
    const isTaken = (cause as NodeJS.ErrnoException).code === 'EADDRINUSE'
    if (!isTaken || port !== undefined) throw listenError(cause, { host, port: port ?? USUAL_PORT })
    await http.listen({ host, port: 0 })
  }
  return (http.server.address() as AddressInfo).port
}

/** As others on this machine reach it. */
function shownHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}
