// The connection to Redis: one server, or a cluster of them. The one door to the client library.

import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { backoffMs } from '../../lib/backoff.ts'
import { StoreError } from '../store.ts'
import type { Script } from './script.ts'

export type Argument = string | number | Buffer

const CONNECT_MS = 5_000
/** A cluster of which no node answers goes on asking. */
const OPEN_MS = 10_000
/** What takes longer is not known to have happened; whoever asked is told that the store is not available. */
const COMMAND_MS = 5_000
const RECONNECT = { baseMs: 50, maxMs: 1_000 }

const redisOptions = {
  protocol: 2,
  connectTimeout: CONNECT_MS,
  commandTimeout: COMMAND_MS,
  keepAlive: 10_000,
  // A command whose answer was lost may have happened: whoever sent it decides whether to send it again.
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  // A server that became a replica is no longer the one to write to.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
} as const satisfies RedisOptions

const retry = (times: number): number => backoffMs(times, RECONNECT)

export class Connection {
  readonly #url: string
  readonly #client: Redis | Cluster
  readonly #subscriber: Redis | Cluster

  private constructor(url: string, client: Redis | Cluster) {
    this.#url = url
    this.#client = client
    this.#subscriber = client instanceof Cluster ? client : client.duplicate()
  }

  /** Throws StoreError when nobody answers there. */
  static async open(url: string): Promise<Connection> {
    const client = clientFor(url)
    const connection = new Connection(url, client)
    let latest: unknown
    const listen = (cause: unknown): void => void (latest = cause)
    for (const one of new Set([client, connection.#subscriber])) one.on('error', listen)
    try {
      const connected = [...new Set([client, connection.#subscriber])].map((one) => one.connect())
      await within(OPEN_MS, Promise.all(connected))
      return connection
    } catch (cause) {
      connection.#disconnect()
      throw new StoreError(
        'STORE_UNREADABLE',
        `The store ${shown(url)} cannot be reached: ${wordsOf(latest ?? cause)}. Check the address and that Redis runs there.`,
        { cause },
      )
    }
  }

  /** Sends one command. Throws StoreError. */
  readonly call = async (command: string, ...args: Argument[]): Promise<unknown> => {
    try {
      return await this.#client.callBuffer(command, ...args)
    } catch (cause) {
      throw this.#trouble(cause)
    }
  }

  /** Runs a script over the keys that begin with this one. Throws StoreError. */
  async run({ sha, text }: Script, key: string, args: readonly Argument[]): Promise<unknown> {
    try {
      try {
        return await this.#client.callBuffer('evalsha', sha, 1, key, ...args)
      } catch (cause) {
        // A server that was restarted or has taken over does not know it.
        if (!(cause instanceof Error) || !cause.message.startsWith('NOSCRIPT')) throw cause
        return await this.#client.callBuffer('eval', text, 1, key, ...args)
      }
    } catch (cause) {
      throw this.#trouble(cause)
    }
  }

  /** Loads scripts on every server that writes. */
  async load(scripts: readonly Script[]): Promise<void> {
    await Promise.all(this.#masters().flatMap((node) => scripts.map(({ text }) => node.script('LOAD', text))))
  }

  /** What every server that writes says of itself. */
  async info(section: string): Promise<string[]> {
    try {
      return await Promise.all(this.#masters().map((node) => node.info(section)))
    } catch (cause) {
      throw this.#trouble(cause)
    }
  }

  /** Calls back for each message on the channels of this pattern; `onGap` when some may have been lost. */
  async subscribe(
    pattern: string,
    onMessage: (channel: string, message: Buffer) => void,
    onGap: () => void,
  ): Promise<void> {
    this.#subscriber.on('pmessageBuffer', (_pattern: Buffer, channel: Buffer, message: Buffer) =>
      onMessage(channel.toString(), message),
    )
    await this.#subscriber.psubscribe(pattern)
    this.#subscriber.on('ready', onGap)
  }

  async close(): Promise<void> {
    const clients = [...new Set([this.#client, this.#subscriber])]
    // What was asked is answered first.
    await Promise.all(clients.map((client) => client.quit().catch(() => undefined)))
    this.#disconnect()
  }

  #masters(): Redis[] {
    return this.#client instanceof Cluster ? this.#client.nodes('master') : [this.#client]
  }

  #disconnect(): void {
    for (const client of new Set([this.#client, this.#subscriber])) client.disconnect()
  }

  #trouble(cause: unknown): unknown {
    if (cause instanceof StoreError || !(cause instanceof Error)) return cause
    const { message } = cause
    if (/^OOM |^MISCONF .*No space/i.test(message)) {
      return new StoreError(
        'STORE_FULL',
        `The store ${shown(this.#url)} is full. Give Redis more memory or disk.`,
        { cause },
      )
    }
    // A fault of a script is ours, and not to be waited out.
    if (/^(?:ERR|WRONGTYPE|CROSSSLOT|NOPERM)/.test(message)) return cause
    return new StoreError(
      'STORE_UNAVAILABLE',
      `The store ${shown(this.#url)} does not answer: ${wordsOf(cause)}.`,
      { cause },
    )
  }
}

function clientFor(url: string): Redis | Cluster {
  const [, tls, userinfo, hosts] = /^redis(s?)\+cluster:\/\/(?:([^@]*)@)?([^/]+)\/?$/.exec(url) ?? []
  if (hosts === undefined) {
    return new Redis(url, { ...redisOptions, retryStrategy: retry, lazyConnect: true })
  }
  const [username, password] = (userinfo ?? '').split(':').map(decodeURIComponent)
  const nodes = hosts.split(',').map((host) => {
    const { hostname, port } = new URL(`redis://${host}`)
    return { host: hostname, port: Number(port || 6379) }
  })
  const { enableOfflineQueue: _queue, ...nodeOptions } = redisOptions
  return new Cluster(nodes, {
    lazyConnect: true,
    enableOfflineQueue: false,
    clusterRetryStrategy: retry,
    redisOptions: {
      ...nodeOptions,
      ...(username ? { username } : {}),
      ...(password ? { password } : {}),
      ...(tls === 's' && { tls: {} }),
    },
  })
}

/** The address without its password. */
export function shown(url: string): string {
  return url.replace(/\/\/[^@/]*@/, '//')
}

async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`there was no answer within ${ms} ms`)), ms)
  try {
    await Promise.race([promise, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

function wordsOf(cause: unknown): string {
  const text = cause instanceof Error ? cause.message || cause.name : String(cause)
  return text.replace(/\.\s*$/, '')
}
