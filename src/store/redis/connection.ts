// The connection to Redis, whatever its address leads to.

import { Cluster, Redis, ReplyError } from 'ioredis'
import { shownStore } from '../shown-store.ts'
import { StoreError } from '../store-error.ts'
import { WAITED } from './channels.ts'
import { clientFor, nodeTrouble, OptionError } from './client.ts'
import { askNowAndThen, ClusterListener } from './cluster-listener.ts'
import { keepConnected } from './kept-connection.ts'
import { ReplicaWait } from './replica-wait.ts'
import type { Script } from './script.ts'
import { endSilentLinks } from './silent-links.ts'
import { troubleOf, unavailable, wordsOf } from './trouble.ts'
import { within } from './within.ts'

export type Argument = string | number | Buffer

/** A cluster of which no node answers goes on asking. */
const OPEN_MS = 10_000
const CLOSE_MS = 2_000

export interface ConnectionOptions {
  url: string
  /** Replicas that have every write before it is answered; 0 by default. One server only, no cluster. */
  replicas?: number
}

export class Connection {
  readonly url: string
  readonly #client: Redis | Cluster
  readonly #subscriber: Redis | Cluster
  readonly #asking: NodeJS.Timeout | undefined
  #listener: ClusterListener | undefined
  #letGo: (() => void)[] = []
  readonly #wait: ReplicaWait | undefined
  /** Counts the connections that there were: what is asked of the next one says nothing of what the last one was told. */
  #lives = 0

  private constructor({ url, replicas = 0 }: ConnectionOptions) {
    const client = clientFor(url)
    this.url = url
    this.#client = client
    this.#subscriber = client instanceof Cluster ? client : client.duplicate()
    client.on('close', () => (this.#lives += 1))
    if (this.#subscriber instanceof Redis) this.#asking = askNowAndThen(this.#subscriber)
    if (replicas > 0) {
      this.#wait = new ReplicaWait({
        replicas,
        life: () => this.#lives,
        send: async (...args) => {
          // Servers differ in whether a read counts as something to wait for; a message does everywhere.
          const [, have] = await Promise.all([client.publish(WAITED, ''), client.callBuffer('wait', ...args)])
          return have
        },
      })
    }
  }

  static #make(options: ConnectionOptions): Connection {
    try {
      return new Connection(options)
    } catch (cause) {
      if (cause instanceof OptionError)
        throw new StoreError('STORE_UNREADABLE', `The address ${shownStore(options.url)} ${cause.message}`)
      // Another cause has the whole address in it.
      throw new StoreError(
        'STORE_UNREADABLE',
        `The address ${shownStore(options.url)} cannot be read. Write it as redis://:<password>@<host>:<port>, with %40 for an @ in the password, %2F for a slash and a number behind it for another database.`,
      )
    }
  }

  /** Throws StoreError when nobody answers there. */
  static async open(options: ConnectionOptions): Promise<Connection> {
    const { url } = options
    const connection = Connection.#make(options)
    let latest: unknown
    const listen = (cause: unknown): void => void (latest = cause)
    for (const one of connection.#clients) one.on('error', listen)
    // A cluster's own words name none of its nodes.
    const silent = new Map<string, unknown>()
    connection.#client.on('node error', (cause: unknown, node: string) => silent.set(node, cause))
    try {
      await within(OPEN_MS, connection.#connect())
      await connection.#checkDatabase()
      connection.#keep()
      return connection
    } catch (cause) {
      connection.#disconnect()
      const nodes = await connection.#troubleOf(silent)
      throw new StoreError(
        'STORE_UNREADABLE',
        `The store ${shownStore(url)} cannot be reached: ${nodes || wordsOf(latest ?? cause)}. Check the address and that Redis runs there.`,
        { cause },
      )
    }
  }

  /** Of nodes by what the client has said of each: which they are, and why they do not answer. */
  async #troubleOf(nodes: ReadonlyMap<string, unknown>): Promise<string> {
    const client = this.#client
    if (!(client instanceof Cluster)) return ''
    const words = [...nodes].map(async ([node, said]) => {
      const cause = said instanceof ReplyError ? said : await nodeTrouble(client, node)
      return `${node} does not answer: ${wordsOf(cause ?? said)}`
    })
    return (await Promise.all(words)).join('; ')
  }

  /** One after the other: a handshake that is cut short because another failed may fail where nobody listens any more. */
  async #connect(): Promise<void> {
    for (const one of this.#clients) await one.connect()
  }

  #keep(): void {
    this.#letGo = this.#clients.flatMap((one) => (one instanceof Redis ? [keepConnected(one)] : []))
  }

  /** The library goes on with another database where that of the address cannot be had. */
  async #checkDatabase(): Promise<void> {
    if (this.#client instanceof Cluster) return
    const found = / db=(\d+)/.exec(await this.#client.client('INFO'))?.[1]
    if (found !== String(this.database)) throw new Error(`it has no database ${this.database}`)
  }

  get #clients(): readonly (Redis | Cluster)[] {
    return [...new Set([this.#client, this.#subscriber])]
  }

  /** The number of the database; a cluster has one only. */
  get database(): number {
    return this.#client instanceof Cluster ? 0 : (this.#client.options.db ?? 0)
  }

  /** Sends one command that reads, for nobody who would count on the answer. Throws StoreError. */
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

  /** Sends one command that reads what somebody is told: it was replicated by then, so that no failover undoes it. */
  get told(): Connection['write'] {
    return this.write
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

  /** Runs a script without keys on every server that writes. Throws StoreError. */
  async runOnMasters({ text, sha }: Script, argument: string): Promise<unknown[]> {
    await this.#ofMasters((node) => node.eval(text, 0, argument))
    // The usual way, which may be refused by itself.
    return this.#ofMasters((node) => node.evalsha(sha, 0, argument))
  }

  /** Loads scripts on every server that writes. Throws StoreError. */
  async load(scripts: readonly Script[]): Promise<void> {
    await this.#ofMasters((node) => Promise.all(scripts.map(({ text }) => node.script('LOAD', text))))
  }

  /** What every server that writes says of itself. */
  async info(section: string): Promise<string[]> {
    return this.#ofMasters((node) => node.info(section))
  }

  /** Removes all keys of a pattern but some, so many at a time. Throws StoreError. */
  async removeAll(pattern: string, but: RegExp): Promise<void> {
    // One by one: in a cluster several at once would have to be of one slot.
    await this.#scan(pattern, (keys, node) =>
      Promise.all(keys.filter((key) => !but.test(key)).map((key) => node.unlink(key))),
    )
  }

  /** The keys of a pattern: for one that few have. Throws StoreError. */
  async keysOf(pattern: string): Promise<string[]> {
    const found = new Set<string>()
    await this.#scan(pattern, async (keys) => keys.forEach((key) => found.add(key)))
    return [...found]
  }

  async #scan(pattern: string, each: (keys: string[], node: Redis) => Promise<unknown>): Promise<void> {
    await this.#ofMasters(async (node) => {
      let cursor = '0'
      do {
        const [next, keys] = await node.scan(cursor, 'MATCH', pattern, 'COUNT', 1000)
        await each(keys, node)
        cursor = next
      } while (cursor !== '0')
    })
  }

  /** A setting of every server that writes. Throws StoreError. */
  async settings(name: string): Promise<string[]> {
    return this.#ofMasters(async (node) => String(((await node.call('config', 'get', name)) as string[])[1]))
  }

  /** Calls back for each message on the channels of this pattern; `onGap` when some may have been lost. */
  async subscribe(
    pattern: string,
    onMessage: (channel: string, message: Buffer) => void,
    onGap: () => void,
  ): Promise<void> {
    if (this.#subscriber instanceof Cluster) {
      this.#listener = new ClusterListener({ cluster: this.#subscriber, pattern, onMessage, onGap })
      await this.#listener.start()
    } else {
      this.#subscriber.on('pmessageBuffer', (_pattern: Buffer, channel: Buffer, message: Buffer) =>
        onMessage(channel.toString(), message),
      )
      await this.#subscriber.psubscribe(pattern)
    }
    this.#subscriber.on('ready', onGap)
  }

  /** From here on what is asked, or was, is waited for only where somebody answers. */
  async leave(): Promise<void> {
    const linksOf = (client: Redis | Cluster): Redis[] =>
      client instanceof Cluster ? client.nodes('all') : [client]
    await endSilentLinks(this.#clients.flatMap(linksOf))
  }

  /** Calls back each time that there is a connection again, before anything else is asked there. */
  onReady(callback: () => void): void {
    this.#client.on('ready', callback)
    // Another node of a cluster may have taken over.
    if (this.#client instanceof Cluster) this.#client.on('+node', callback)
  }

  async close(): Promise<void> {
    await this.leave()
    for (const letGo of this.#letGo) letGo()
    // What was asked is answered first, if it is answered at all.
    const quits = Promise.allSettled(this.#clients.map((client) => client.quit()))
    await within(CLOSE_MS, quits).catch(() => undefined)
    this.#disconnect()
  }

  async #ofMasters<T>(ask: (node: Redis) => Promise<T>): Promise<T[]> {
    try {
      const masters = this.#client instanceof Cluster ? this.#client.nodes('master') : [this.#client]
      if (masters.length === 0) throw new Error('no node of the cluster is known to answer')
      return await Promise.all(
        masters.map((node) => ask(node).catch((cause: unknown) => failed(node, cause))),
      )
    } catch (cause) {
      throw this.#trouble(cause)
    }
  }

  async #replicated(life: number): Promise<void> {
    try {
      await this.#wait?.acknowledged(life)
    } catch (cause) {
      throw unavailable(cause as Error, this)
    }
  }

  #disconnect(): void {
    clearInterval(this.#asking)
    this.#listener?.close()
    for (const client of this.#clients) client.disconnect()
  }

  #trouble(cause: unknown): unknown {
    return troubleOf(cause, this)
  }
}

/** What a node answered says enough; of one that does not answer it has to be said which it is. */
function failed({ options: { host, port } }: Redis, cause: unknown): never {
  if (cause instanceof ReplyError) throw cause
  throw new Error(`${host}:${port} does not answer: ${wordsOf(cause)}`, { cause })
}
