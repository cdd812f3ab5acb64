// Who is at a Redis: the servers that serve it, and the one program that moves a queue there. Neither begins beside the other.

import { randomBytes } from 'node:crypto'
import { pause, type Clock, type Timer } from '../../lib/clock.ts'
import { shownStore } from '../shown-store.ts'
import { StoreError } from '../store-error.ts'
import type { Connection } from './connection.ts'
import { plainScript } from './script.ts'
import { SILENT_MS } from './silent-links.ts'
import { within } from './within.ts'

/** When each server gave its last sign, ms of Redis' own time. */
const SERVERS = 'longshore:servers'
/** The token of whoever moves a queue here. It goes by itself when they are gone. */
const MOVER = 'longshore:mover'
/** There from the first row of a queue that is moved here to its last. */
export const MOVING = 'longshore:moving'

const SIGN_EVERY_MS = 1_000
/** Without a sign for so long a server is gone, and a mover too. */
const GONE_MS = 5_000

/** `#!lua …`: a Redis that is full takes these all the same. */
const sign = plainScript(
  'sign',
  `#!lua flags=allow-oom
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ${GONE_MS})
if ARGV[1] ~= '' then redis.call('ZADD', KEYS[1], now, ARGV[1]) end
return redis.call('ZCARD', KEYS[1])`,
)

const renew = plainScript(
  'renew',
  `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ${GONE_MS})`,
)

const letGo = plainScript(
  'letGo',
  `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`,
)

export const attendanceScripts = [sign, renew, letGo]

/** A server's own sign, given every second. */
export class Attendance {
  readonly #connection: Connection
  readonly #clock: Clock
  readonly #id = randomBytes(9).toString('base64url')
  #timer: Timer | undefined
  #isClosed = false

  constructor(connection: Connection, clock: Clock) {
    this.#connection = connection
    this.#clock = clock
  }

  /** Throws StoreError STORE_IN_USE while a queue is being moved here, or was moved in part. */
  async start(url: string): Promise<void> {
    // First the sign, then the look: a mover does it the other way round, so that one of them sees the other.
    await this.#connection.run(sign, SERVERS, [this.#id])
    const problem = await moveProblem(this.#connection)
    if (problem !== undefined) {
      await this.close()
      throw new StoreError('STORE_IN_USE', `The store ${shownStore(url)} ${problem}`)
    }
    this.#wait()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#timer?.clear()
    // Without it the sign is gone in some seconds.
    await within(SILENT_MS, this.#connection.call('zrem', SERVERS, this.#id)).catch(() => undefined)
  }

  #wait(): void {
    if (this.#isClosed) return
    const again = (): void => {
      // A Redis that is away has nobody who could begin there.
      const given = this.#connection.run(sign, SERVERS, [this.#id]).catch(() => undefined)
      void given.finally(() => this.#wait())
    }
    this.#timer = this.#clock.after(SIGN_EVERY_MS, again, { background: true })
  }
}

/** Why no server may begin there. */
export async function moveProblem(connection: Connection): Promise<string | undefined> {
  if ((await connection.call('exists', MOVER)) === 1)
    return 'is being moved to: longshore migrate is under way. Start the servers when it has ended.'
  if ((await connection.call('exists', MOVING)) === 0) return undefined
  return 'has only a part of a queue: longshore migrate was broken off. Run it again; it begins anew.'
}

/** The right to move a queue here: nobody else moves one, and nobody serves. */
export class MoveRight {
  readonly #connection: Connection
  readonly #clock: Clock
  readonly #url: string
  readonly #token = randomBytes(9).toString('base64url')
  #renewedAt = 0
  #timer: Timer | undefined

  private constructor(connection: Connection, { url, clock }: { url: string; clock: Clock }) {
    this.#connection = connection
    this.#clock = clock
    this.#url = url
  }

  /** Waits some seconds for servers that were killed. Throws StoreError STORE_IN_USE. */
  static async take(connection: Connection, options: { url: string; clock: Clock }): Promise<MoveRight> {
    const { url, clock } = options
    const right = new MoveRight(connection, options)
    const until = clock.monotonic() + GONE_MS + SIGN_EVERY_MS
    // One that was killed is forgotten by then.
    const isTaken = async (): Promise<boolean> =>
      (await connection.call('set', MOVER, right.#token, 'PX', GONE_MS, 'NX')) === null
    let isOthers = await isTaken()
    while (isOthers && clock.monotonic() < until) {
      await pause(clock, 200)
      isOthers = await isTaken()
    }
    right.#renewedAt = clock.monotonic()
    if (isOthers) throw inUse(url, 'is being moved to by another longshore migrate. Let that end first.')
    try {
      const begin = clock.monotonic()
      // A server that is there gives a sign again within the time after which one that was killed is forgotten.
      while (((await connection.run(sign, SERVERS, [''])) as number) > 0) {
        await right.check()
        if (clock.monotonic() - begin > GONE_MS + SIGN_EVERY_MS)
          throw inUse(
            url,
            'is being served. Stop all its servers first, and start them when the queue is there.',
          )
        await pause(clock, 200)
      }
    } catch (cause) {
      await right.release()
      throw cause
    }
    right.#keep()
    return right
  }

  /** To be called before each write: throws once the right is somebody else's, as after a long pause of this process. */
  async check(): Promise<void> {
    if (this.#clock.monotonic() - this.#renewedAt < SIGN_EVERY_MS) return
    await this.confirm()
  }

  async release(): Promise<void> {
    this.#timer?.clear()
    await this.#connection.run(letGo, MOVER, [this.#token]).catch(() => undefined)
  }

  /** The same, and asks in any case. */
  async confirm(): Promise<void> {
    const before = this.#clock.monotonic()
    if ((await this.#connection.run(renew, MOVER, [this.#token])) !== 1)
      throw inUse(
        this.#url,
        'was taken over by another longshore migrate, as this one stood still. Let that end.',
      )
    this.#renewedAt = before
  }

  /** Also while a large row is read from the file. */
  #keep(): void {
    const again = (): void => {
      // What is wrong is told to the next check.
      const renewed = this.confirm().catch(() => undefined)
      void renewed.finally(() => this.#keep())
    }
    this.#timer = this.#clock.after(SIGN_EVERY_MS, again, { background: true })
  }
}

function inUse(url: string, words: string): StoreError {
  return new StoreError('STORE_IN_USE', `The store ${shownStore(url)} ${words}`)
}
