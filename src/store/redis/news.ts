// What has happened, as servers tell each other: by messages, and by a number that shows when one was lost.

import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { jobStatuses } from '../../job/lifecycle.ts'
import type { Clock, Timer } from '../../lib/clock.ts'
import type { StopCause, StoreEvent } from '../store.ts'
import type { Connection } from './connection.ts'
import { endpointKey } from './endpoints.ts'

/** Twice this is the longest that a lost message delays anybody. */
const LOOK_MS = 400
const PATTERN = 'longshore:{*}:events'

const status = z.enum([...jobStatuses, 'deleted'])
const messageSchema = z.tuple([
  z.int(),
  z.string(),
  z.array(
    z.union([
      z.tuple([z.enum(['queued', 'webhook'])]),
      z.tuple([z.literal('changed'), z.string(), status]),
      z.tuple([z.enum(['chunks', 'progress']), z.string()]),
      z.tuple([z.literal('stop'), z.string(), z.string(), z.string(), z.string()]),
    ]),
  ),
])
type Told = z.output<typeof messageSchema>[2][number]

export interface NewsOptions {
  connection: Connection
  clock: Clock
  endpoints: () => Promise<string[]>
  tell: (event: StoreEvent) => void
}

interface Heard {
  /** All messages up to this one have come, or are given up. */
  heard: number
  /** Those that came before one that is still missing. */
  ahead: Set<number>
}

export class News {
  /** Tells this server's own messages from the others'. */
  readonly server = randomBytes(6).toString('base64url')
  readonly #options: NewsOptions
  readonly #heard = new Map<string, Heard>()
  /** Number of the newest message that there was at the last look, by endpoint. */
  readonly #looked = new Map<string, number>()
  readonly #unsure = new Set<string>()
  /** Of those too of which nothing was heard yet. */
  #isUnsureOfAll = false
  #timer: Timer | undefined
  #isClosed = false

  constructor(options: NewsOptions) {
    this.#options = options
  }

  async start(): Promise<void> {
    const { connection } = this.#options
    await connection.subscribe(
      PATTERN,
      (channel, message) => this.#heardFromChannel(channel, message),
      () => this.#unsureOfAll(),
    )
    this.#wait()
  }

  close(): void {
    this.#isClosed = true
    this.#timer?.clear()
  }

  /** What this server did itself came with the answer; the message that comes back says nothing new. */
  answered(endpoint: string, message: Buffer): void {
    const { number, events } = read(message)
    this.#note(endpoint, number)
    this.#tellAll(endpoint, events)
  }

  /** Something may have happened of which this server was told nothing; whoever waits looks once Redis answers again. */
  unsure(endpoint: string): void {
    this.#unsure.add(endpoint)
  }

  #missed(endpoint: string): void {
    this.#unsure.delete(endpoint)
    this.#options.tell({ kind: 'missed', endpoint })
  }

  #heardFromChannel(channel: string, message: Buffer): void {
    const endpoint = /\{(.+)\}/.exec(channel)?.[1]
    if (endpoint === undefined) return
    const { number, sender, events } = read(message)
    if (sender === this.server) return
    this.#note(endpoint, number)
    this.#tellAll(endpoint, events)
  }

  #tellAll(endpoint: string, events: readonly Told[]): void {
    for (const told of events) this.#options.tell(eventOf(endpoint, told))
  }

  #note(endpoint: string, number: number): void {
    const { heard = number - 1, ahead = new Set<number>() } = this.#heard.get(endpoint) ?? {}
    if (number <= heard) return
    ahead.add(number)
    this.#heard.set(endpoint, advanced(heard, ahead))
  }

  #wait(): void {
    if (this.#isClosed) return
    this.#timer = this.#options.clock.after(LOOK_MS, () => void this.#look().finally(() => this.#wait()), {
      background: true,
    })
  }

  /** A message that is not here by the next look after it was sent was lost. */
  async #look(): Promise<void> {
    const { connection, endpoints } = this.#options
    try {
      const names = await endpoints()
      if (this.#isUnsureOfAll) for (const endpoint of names) this.unsure(endpoint)
      this.#isUnsureOfAll = false
      for (const endpoint of names) {
        const expected = this.#looked.get(endpoint)
        const found = await connection.call('hget', endpointKey(endpoint), 'events')
        const newest = found instanceof Buffer ? Number(found) : 0
        this.#looked.set(endpoint, newest)
        const { heard, ahead } = this.#heard.get(endpoint) ?? {
          heard: expected ?? newest,
          ahead: new Set<number>(),
        }
        // A replica that took over may know of fewer than there were.
        const isBack = newest < heard
        this.#heard.set(
          endpoint,
          isBack ? { heard: newest, ahead: new Set() } : advanced(Math.max(heard, expected ?? 0), ahead),
        )
        if (isBack || this.#unsure.has(endpoint) || (expected !== undefined && expected > heard))
          this.#missed(endpoint)
      }
    } catch {
      // Whoever needs the store learns of it; after that everybody looks again.
      this.#unsureOfAll()
    }
  }

  #unsureOfAll(): void {
    this.#isUnsureOfAll = true
  }
}

function read(message: Buffer): { number: number; sender: string; events: readonly Told[] } {
  const [number, sender, events] = messageSchema.parse(JSON.parse(message.toString()))
  return { number, sender, events }
}

/** Moves on over those that are there. */
function advanced(from: number, ahead: Set<number>): Heard {
  let heard = from
  for (const number of ahead) if (number <= heard) ahead.delete(number)
  while (ahead.delete(heard + 1)) heard += 1
  return { heard, ahead }
}

function eventOf(endpoint: string, told: Told): StoreEvent {
  switch (told[0]) {
    case 'webhook':
      return { kind: 'webhook' }
    case 'queued':
      return { kind: 'queued', endpoint }
    case 'changed':
      return { kind: 'changed', endpoint, id: told[1], status: told[2] }
    case 'stop':
      return {
        kind: 'stop',
        endpoint,
        worker: told[1],
        id: told[2],
        lease: told[3],
        reason: told[4] as StopCause,
      }
    default:
      return { kind: told[0], endpoint, id: told[1] }
  }
}
