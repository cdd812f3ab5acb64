// The marks by which every script of a slot refuses while a queue is moved there, whoever runs it: also a server that was
// taken for gone, and comes back.

import type { Connection } from './connection.ts'
import { endpointKey } from './endpoint-key.ts'
import { FLEET } from './fleet.ts'

/** Beside the keys of an endpoint, or of the fleet. No row of a queue has such a key. */
export const STANDSTILL = /^longshore:\{[^}]*\}:moving$/

/** A mark goes by itself while nothing else says that a queue is moved: whoever made it may be gone. */
const PASSING_MS = 60_000

export class Standstill {
  readonly #connection: Connection
  readonly #marks = new Set<string>()
  #lasts: boolean

  /** `lasts`: a queue is being moved there already. */
  constructor(connection: Connection, { lasts }: { lasts: boolean }) {
    this.#connection = connection
    this.#lasts = lasts
  }

  /** From here on no script writes there, nor reads. */
  async of(endpoints: readonly string[]): Promise<void> {
    const marks = [FLEET, ...endpoints.map(endpointKey)].map((key) => `${key}:moving`)
    const fresh = marks.filter((mark) => !this.#marks.has(mark))
    await Promise.all(fresh.map((mark) => this.#mark(mark)))
    for (const mark of fresh) this.#marks.add(mark)
  }

  /** Takes over the marks of a move that was broken off: its endpoints may be others than those of this one. */
  async takeOver(): Promise<void> {
    for (const mark of await this.#connection.keysOf('longshore:{*}:moving'))
      if (STANDSTILL.test(mark)) this.#marks.add(mark)
  }

  /** Once something else says that a queue is being moved there. */
  async last(): Promise<void> {
    this.#lasts = true
    await this.#markAll()
  }

  /** Before nothing else says it any more. */
  async pass(): Promise<void> {
    this.#lasts = false
    await this.#markAll()
  }

  async end(): Promise<void> {
    await Promise.all([...this.#marks].map((mark) => this.#connection.call('del', mark)))
  }

  async #markAll(): Promise<void> {
    await Promise.all([...this.#marks].map((mark) => this.#mark(mark)))
  }

  async #mark(mark: string): Promise<void> {
    await this.#connection.call('set', mark, 1, ...(this.#lasts ? [] : ['PX', PASSING_MS]))
  }
}
