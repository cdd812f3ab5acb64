// Hears the messages of a cluster at one of its nodes, whichever: a connection of its own, and another when that is lost.
// The client's own would not find out that its connection leads nowhere, nor subscribe again where that failed once.

import type { Cluster, Redis } from 'ioredis'
import { backoffMs } from '../../lib/backoff.ts'

/** Where nothing is said for long, a connection that leads nowhere is found out by asking. */
const ASK_MS = 5_000
const AGAIN = { baseMs: 50, maxMs: 1_000 }

export interface ClusterListenerOptions {
  cluster: Cluster
  pattern: string
  onMessage: (channel: string, message: Buffer) => void
  /** Messages may have been lost. */
  onGap: () => void
}

export class ClusterListener {
  readonly #options: ClusterListenerOptions
  #current: Redis | undefined
  #asking: NodeJS.Timeout | undefined
  #again: NodeJS.Timeout | undefined
  #failed = 0
  #isClosed = false

  constructor(options: ClusterListenerOptions) {
    this.#options = options
  }

  /** Resolves once messages come; throws when no node lets it listen. */
  async start(): Promise<void> {
    const { cluster, pattern, onMessage } = this.#options
    const nodes = cluster.nodes()
    const node = nodes[Math.floor(Math.random() * nodes.length)]
    if (!node) throw new Error('no node of the cluster is known to answer')
    const one = node.duplicate({ lazyConnect: true, retryStrategy: null, readOnly: false })
    this.#current = one
    // Whatever it is, the connection ends of it.
    one.on('error', () => undefined)
    one.on('pmessageBuffer', (_pattern: Buffer, channel: Buffer, message: Buffer) =>
      onMessage(channel.toString(), message),
    )
    try {
      await one.connect()
      await one.psubscribe(pattern)
    } catch (cause) {
      one.disconnect()
      throw cause
    }
    this.#asking = askNowAndThen(one)
    if (one.status === 'ready') one.once('end', () => this.#lost())
    else this.#lost()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#again)
    clearInterval(this.#asking)
    this.#current?.disconnect()
  }

  #lost(): void {
    clearInterval(this.#asking)
    if (this.#isClosed) return
    this.#failed += 1
    this.#again = setTimeout(() => void this.#restart(), backoffMs(this.#failed, AGAIN)).unref()
  }

  async #restart(): Promise<void> {
    try {
      await this.start()
      this.#failed = 0
      this.#options.onGap()
    } catch {
      // Whoever waits for a message is told to look meanwhile, by the numbers of the messages.
      this.#lost()
    }
  }
}

/** Answers nobody waits for: what counts is that they come. */
export function askNowAndThen(client: Redis): NodeJS.Timeout {
  const ask = (): void => {
    if (client.status === 'ready') client.ping().catch(() => undefined)
  }
  return setInterval(ask, ASK_MS).unref()
}
