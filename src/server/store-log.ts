// What the log has of a store that is away or full: a line when it begins, one now and then, and one when it is over.

import type { FastifyBaseLogger } from 'fastify'
import type { Clock } from '../lib/clock.ts'
import type { Store } from '../store/store.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Takes note of an error that is the store's; false when it is none. */
    noteStoreTrouble?: (error: unknown) => boolean
  }
}

/** While it lasts, requests, workers and our own rounds meet it many times a second. */
const REPEAT_MS = 30_000
const LOOK_MS = 500

const lines: Record<string, string> = {
  STORE_UNAVAILABLE: 'the store is not available; requests are answered with 503 until it is',
  STORE_FULL: 'the store is full; what is new is answered with 503',
}

export class StoreLog {
  readonly #options: { store: Pick<Store, 'ping'>; clock: Clock; logger: FastifyBaseLogger }
  /** When there was a line of it last, by code. */
  readonly #told = new Map<string, number>()
  #met = 0
  #isLooking = false
  #isClosed = false

  constructor(options: { store: Pick<Store, 'ping'>; clock: Clock; logger: FastifyBaseLogger }) {
    this.#options = options
  }

  /** False when it is no trouble of the store, and nothing was logged. */
  readonly note = (error: unknown): boolean => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const line = lines[code]
    if (line === undefined) return false
    const { clock, logger } = this.#options
    this.#met += 1
    const now = clock.monotonic()
    if (now - (this.#told.get(code) ?? Number.NEGATIVE_INFINITY) >= REPEAT_MS) {
      this.#told.set(code, now)
      logger.error({ err: error, code, met: this.#met }, line)
    }
    if (code === 'STORE_UNAVAILABLE' && !this.#isLooking) this.#look()
    return true
  }

  close(): void {
    this.#isClosed = true
  }

  #look(): void {
    this.#isLooking = true
    const { store, clock, logger } = this.#options
    const again = async (): Promise<void> => {
      if (this.#isClosed) return
      try {
        await store.ping()
      } catch {
        return void clock.after(LOOK_MS, () => void again(), { background: true })
      }
      this.#isLooking = false
      this.#told.delete('STORE_UNAVAILABLE')
      logger.info({ met: this.#met }, 'the store is available again')
      this.#met = 0
    }
    clock.after(LOOK_MS, () => void again(), { background: true })
  }
}
