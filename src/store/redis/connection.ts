// The connection to Redis: one server, or a cluster of them. The one door to the client library.

import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { backoffMs } from '../../lib/backoff.ts'
import { shownStore } from '../shown-store.ts'
import { StoreError } from '../store.ts'
import { ReplicaWait } from './replica-wait.ts'
import type { Script } from './script.ts'

export type Argument = string | number | Buffer

const CONNECT_MS = 5_000
/** A cluster of which no node answers goes on asking. */
const OPEN_MS = 10_000
/** What takes longer is not known to have happened; whoever asked is told that the store is not available. */
const COMMAND_MS = 5_000
const RECONNECT = { baseMs: 50, maxMs: 1_000 }
/** Where nothing is said for long, a connection that leads nowhere is found out by asking. */
const ASK_MS = 5_000
/** How often at most a connection is given up because its server only reads: the address may lead there for a while. */
const READONLY_MS = 1_000

const redisOptions = {
  protocol: 2,
  connectTimeout: CONNECT_MS,
  commandTimeout: COMMAND_MS,
  // One on which an answer is owed for so long may lead nowhere, and everything that is sent there would be lost with it.
  socketTimeout: COMMAND_MS,
  keepAlive: 10_000,
  // A command whose answer was lost may have happened: whoever sent it decides whether to send it again.
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
} as const satisfies RedisOptions

const retry = (times: number): number => backoffMs(times, RECONNECT)

export interface ConnectionOptions {
  url: string
  /** Replicas that have every write before it is answered; 0 by default. One server only, no cluster. */
  replicas?: number
}

export class Connection {
  readonly #url: string
  readonly #client: Redis | Cluster
  readonly #subscriber: Redis | Cluster
  readonly #asking: NodeJS.Timeout | undefined
  readonly #wait: ReplicaWait | undefined
  /** Counts the connections that there were: what is asked of the next one says nothing of what the last one was told. */
  #lives = 0

  private constructor({ url, replicas = 0 }: ConnectionOptions) {
    const client = clientFor(url)
    this.#url = url
    this.#client = client
    this.#subscriber = client instanceof Cluster ? client : client.duplicate()
    client.on('close', () => (this.#lives += 1))
    if (this.#subscriber instanceof Redis) this.#asking = askNowAndThen(this.#subscriber)
    if (replicas > 0) {
      this.#wait = new ReplicaWait({
        replicas,
        life: () => this.#lives,
        send: (...args) => client.callBuffer('wait', ...args),
      })
    }
  }

  static #make(options: ConnectionOptions): Connection {
    try {
      return new Connection(options)
    } catch {
      // The cause has the whole address in it.
      throw new StoreError(
        'STORE_UNREADABLE',
        `The address ${shownStore(options.url)} cannot be read. Write it as redis://:<password>@<host>:<port>, with %40 for an @ in the password and %2F for a slash.`,
      )
    }
  }

  /** Throws StoreError when nobody answers there. */
  static async open(options: ConnectionOptions): Promise<Connection> {
    const { url } = options
    const connection = Connection.#make(options)
    const client = connection.#client
    let latest: unknown
    const listen = (cause: unknown): void => void (latest = cause)
    for (const one of new Set([client, connection.#subscriber])) one.on('error', listen)
    try {
      await within(OPEN_MS, connection.#connect())
      return connection
    } catch (cause) {
      connection.#disconnect()
      throw new StoreError(
        'STORE_UNREADABLE',
        `The store ${shownStore(url)} cannot be reached: ${wordsOf(latest ?? cause)}. Check the address and that Redis runs there.`,
        { cause },
      )
    }
  }

  /** One after the other: a handshake that is cut short because another failed may fail where nobody listens any more. */
  async #connect(): Promise<void> {
    for (const one of new Set([this.#client, this.#subscriber])) await one.connect()
  }

  /** Sends one command that reads. Throws StoreError. */
  readonly call = async (command: string, ...args: Argument[]): Promise<unknown> => {
    try {
      return await this.#client.callBuffer(command, ...args)
    } catch (cause) {
      throw this.#trouble(cause)
    }
  }

  /** Sends one command that writes; resolves once as many replicas have it as are to. Throws StoreError. */
  readonly write = async (command: string, ...args: Argument[]): Promise<unknown> => {
    const life = this.#lives
    const answer = await this.call(command, ...args)
    await this.#replicated(life)
    return answer
  }

  /** Runs a script over the keys that begin with this one; what it promises is replicated first. Throws StoreError. */
  async run(script: Script, key: string, args: readonly Argument[]): Promise<unknown> {
    const life = this.#lives
    const answer = await this.#evaluate(script, key, args)
    if (script.promises) await this.#replicated(life)
    return answer
  }

  async #evaluate({ sha, text }: Script, key: string, args: readonly Argument[]): Promise<unknown> {
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

  /** Loads scripts on every server that writes. Throws StoreError. */
  async load(scripts: readonly Script[]): Promise<void> {
    await this.#ofMasters((node) => Promise.all(scripts.map(({ text }) => node.script('LOAD', text))))
  }

  /** Resolves while every server that is to write answers, and may write. Throws StoreError. */
  async ping(): Promise<void> {
    await this.#ofMasters(async (node) => {
      const [role] = (await node.role()) as [string]
      if (role !== 'master') throw new Error(`READONLY it is a ${role}`)
    })
  }

  /** What every server that writes says of itself. */
  async info(section: string): Promise<string[]> {
    return this.#ofMasters((node) => node.info(section))
  }

  /** Removes all keys of a pattern, some at a time. Throws StoreError. */
  async removeAll(pattern: string): Promise<void> {
    await this.#ofMasters(async (node) => {
      let cursor = '0'
      do {
        const [next, keys] = await node.scan(cursor, 'MATCH', pattern, 'COUNT', 1000)
        // One by one: in a cluster several at once would have to be of one slot.
        await Promise.all(keys.map((key) => node.unlink(key)))
        cursor = next
      } while (cursor !== '0')
    })
  }

  /** A setting of every server that writes. Throws StoreError, or Redis' own error where it may not be read. */
  async settings(name: string): Promise<string[]> {
    return this.#ofMasters(async (node) => String(((await node.call('config', 'get', name)) as string[])[1]))
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

  async #ofMasters<T>(ask: (node: Redis) => Promise<T>): Promise<T[]> {
    try {
      const masters = this.#client instanceof Cluster ? this.#client.nodes('master') : [this.#client]
      if (masters.length === 0) throw new Error('no node of the cluster is known to answer')
      return await Promise.all(masters.map(ask))
    } catch (cause) {
      throw this.#trouble(cause)
    }
  }

  async #replicated(life: number): Promise<void> {
    try {
      await this.#wait?.acknowledged(life)
    } catch (cause) {
      throw this.#unavailable(cause as Error)
    }
  }

  #disconnect(): void {
    clearInterval(this.#asking)
    for (const client of new Set([this.#client, this.#subscriber])) client.disconnect()
  }

  #trouble(cause: unknown): unknown {
    if (cause instanceof StoreError || !(cause instanceof Error)) return cause
    const { message } = cause
    // What was asked for has keys, passwords and inputs in it, and an error may be logged.
    if ('command' in cause) delete cause.command
    if (/^(?:READONLY|ERR .*\bcluster is down\b)/.test(message)) return this.#unavailable(cause)
    if (/^OOM |^MISCONF .*No space/i.test(message)) {
      return new StoreError(
        'STORE_FULL',
        `The store ${shownStore(this.#url)} is full. Give Redis more memory or disk.`,
        { cause },
      )
    }
    // A fault of a script is ours, and not to be waited out.
    if (/^(?:ERR|WRONGTYPE|CROSSSLOT|NOPERM)/.test(message)) return cause
    return this.#unavailable(cause)
  }

  #unavailable(cause: Error): StoreError {
    const words = `The store ${shownStore(this.#url)} does not answer as it should: ${wordsOf(cause)}.`
    return new StoreError('STORE_UNAVAILABLE', words, { cause })
  }
}

function clientFor(url: string): Redis | Cluster {
  const [, tls, userinfo, hosts] = /^redis(s?)\+cluster:\/\/(?:([^@]*)@)?([^/]+)\/?$/.exec(url) ?? []
  if (hosts === undefined) {
    return new Redis(url, {
      ...redisOptions,
      retryStrategy: retry,
      lazyConnect: true,
      reconnectOnError: givesUpReplicas(),
    })
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

/** A server that became a replica is no longer the one to write to: the address may lead to another one by now. */
function givesUpReplicas(): (error: Error) => boolean {
  let latest = Number.NEGATIVE_INFINITY
  return ({ message }) => {
    if (!message.startsWith('READONLY') || performance.now() - latest < READONLY_MS) return false
    latest = performance.now()
    return true
  }
}

/** Answers nobody waits for: what counts is that they come. */
function askNowAndThen(client: Redis): NodeJS.Timeout {
  const ask = (): void => {
    if (client.status === 'ready') client.ping().catch(() => undefined)
  }
  return setInterval(ask, ASK_MS).unref()
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
