// What has happened, as servers tell each other: by messages, and by a number that shows when one was lost.

import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { jobStatuses } from '../../job/lifecycle.ts'
import type { Clock, Timer } from '../../lib/clock.ts'
import type { StopCause, StoreEvent } from '../store-event.ts'
import { channelsOf } from './channels.ts'
import type { Connection } from './connection.ts'
import { endpointKey } from './endpoint-key.ts'

/** Twice this is the longest that a lost message delays anybody. */
const LOOK_MS = 400

const status = z.enum([...jobStatuses, 'deleted'])
const toldSchema = z.union([
  z.tuple([z.enum(['queued', 'webhook'])]),
  z.tuple([z.literal('changed'), z.string(), status]),
  z.tuple([z.enum(['chunks', 'progress']), z.string()]),
  z.tuple([z.literal('stop'), z.string(), z.string(), z.string(), z.string()]),
])
// What another version of a server has to say beside that concerns nobody here.
const toldOrUnknown = toldSchema.optional().catch(undefined)
const messageSchema = z.tuple([z.int().positive(), z.string(), z.array(toldOrUnknown)])
type Message = z.output<typeof messageSchema>
type Told = z.output<typeof toldSchema>

export interface NewsOptions {
  connection: Connection
  clock: Clock
  endpoints: () => Promise<string[]>
  tell: (event: StoreEvent) => void
  /** Takes a sentence that its operator is to see. */
  warn?: (sentence: string) => void
}

interface Heard {
  /** All messages up to this one have come, or are given up. */
  heard: number
  /** Those that came before one that is still missing. */
  ahead: Set<number>
}

export class News {
  /** Tells this server's own messages from the others'; begins with the number of its database. */
  readonly server: string
  readonly #options: NewsOptions
  readonly #heard = new Map<string, Heard>()
  /** Number of the newest message that there was at the last look, by endpoint. */
  readonly #looked = new Map<string, number>()
  readonly #unsure = new Set<string>()
  /** Of those too of which nothing was heard yet. */
  #isUnsureOfAll = false
  #hasWarned = false
  #timer: Timer | undefined
  #isClosed = false

  constructor(options: NewsOptions) {
    this.#options = options
    this.server = `${options.connection.database}.${randomBytes(6).toString('base64url')}`
  }

  async start(): Promise<void> {
    const { connection } = this.#options
    await connection.subscribe(
      channelsOf(connection.database),
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
    const [number, , events] = messageSchema.parse(JSON.parse(message.toString()))
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
    const read = readFromChannel(message)
    if (!read) return this.#unreadable(endpoint, channel)
    const [number, sender, events] = read
    if (sender === this.server) return
    this.#note(endpoint, number)
    this.#tellAll(endpoint, events)
  }

  /** Whoever may publish can say anything; what cannot be read may have been news. */
  #unreadable(endpoint: string, channel: string): void {
    this.unsure(endpoint)
    if (this.#hasWarned) return
    this.#hasWarned = true
    this.#options.warn?.(
      `A message on the channel ${channel} of the store cannot be read, and is taken for one that was lost. Have nothing publish there but servers of the same longshore.`,
    )
  }

  #tellAll(endpoint: string, events: Message[2]): void {
    for (const told of events) if (told) this.#options.tell(eventOf(endpoint, told))
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
    try {
      const names = await this.#options.endpoints()
      if (this.#isUnsureOfAll) for (const endpoint of names) this.unsure(endpoint)
      this.#isUnsureOfAll = false
      this.#forgetAllBut(names)
      // All at once: one after the other takes as many round trips as there are endpoints.
      await Promise.all(names.map((endpoint) => this.#lookAt(endpoint)))
    } catch {
      // Whoever needs the store learns of it; after that everybody looks again.
      this.#unsureOfAll()
    }
  }

  async #lookAt(endpoint: string): Promise<void> {
    let found: unknown
    try {
      found = await this.#options.connection.call('hget', endpointKey(endpoint), 'events')
    } catch {
      // In a cluster the others may be there.
      this.unsure(endpoint)
      return
    }
    const expected = this.#looked.get(endpoint)
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

  /** A Redis may come back without all that was in it: whoever waits there is to find that out. */
  #forgetAllBut(names: readonly string[]): void {
    for (const endpoint of this.#looked.keys()) {
      if (names.includes(endpoint)) continue
      this.#looked.delete(endpoint)
      this.#heard.delete(endpoint)
      this.#missed(endpoint)
    }
  }

  #unsureOfAll(): void {
    this.#isUnsureOfAll = true
  }
}

function readFromChannel(message: Buffer): Message | undefined {
  try {
    return messageSchema.parse(JSON.parse(message.toString()))
  } catch {
    return undefined
  }
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
