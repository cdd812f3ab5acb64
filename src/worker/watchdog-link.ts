// The supervisor's end of the watchdog: a byte now and then while jobs run, and what comes back.

import type { Duplex } from 'node:stream'
import type { Clock } from '../lib/clock.ts'
import { stallSchema, type Stall } from './messages.ts'
import { readLines } from './output-lines.ts'

const TICK_MS = 500
const TICK = Buffer.from([1])

export class WatchdogLink {
  readonly #socket: Duplex
  readonly #clock: Clock
  #isPlanned = false
  #isWatching = false

  /** The socket stays open as long as this process lives: its end is what the watchdog waits for. */
  constructor(socket: Duplex, clock: Clock, onStall: (stall: Stall) => void) {
    this.#socket = socket
    this.#clock = clock
    socket.on('error', () => undefined)
    readLines(socket, ({ line }) => {
      const stall = parse(line)
      if (stall) onStall(stall)
    })
  }

  /** Whether the main thread is looked at. A process without jobs is left to sleep; a job shorter than a tick costs none. */
  watch(isWatching: boolean): void {
    this.#isWatching = isWatching
    if (!isWatching || this.#isPlanned) return
    this.#isPlanned = true
    this.#clock.after(TICK_MS, () => this.#tick(), { background: true })
  }

  #tick(): void {
    this.#isPlanned = false
    if (!this.#isWatching || !this.#socket.writable) return
    this.#socket.write(TICK)
    this.watch(true)
  }
}

/** The author's code could write there as well: what is no stall is ignored. */
function parse(line: string): Stall | undefined {
  try {
    return stallSchema.safeParse(JSON.parse(line)).data
  } catch {
    return undefined
  }
}
