// The supervisor's end of the watchdog's socket: a byte now and then while jobs run, and what comes back.

import type { Duplex } from 'node:stream'
import type { Clock } from '../lib/clock.ts'
import { endSchema, stallSchema, type EndNote, type Stall } from './messages.ts'
import { readLines } from './output-lines.ts'

const TICK_MS = 250

export interface WatchdogListener {
  onStall(stall: Stall): void
  onEnd(note: EndNote): void
}

export class WatchdogLink {
  readonly #socket: Duplex
  readonly #clock: Clock
  #isPlanned = false
  #run: number | undefined

  /** The socket stays open as long as this process lives: its end is what the watchdog waits for. */
  constructor(socket: Duplex, clock: Clock, listener: WatchdogListener) {
    this.#socket = socket
    this.#clock = clock
    socket.on('error', () => undefined)
    readLines(socket, ({ line }) => {
      const document = parse(line)
      const stall = stallSchema.safeParse(document)
      if (stall.success) return listener.onStall(stall.data)
      const end = endSchema.safeParse(document)
      if (end.success) listener.onEnd(end.data)
    })
  }

  /** Looks at the main thread for the sake of this run; a job shorter than a tick costs none. Without a run it sleeps. */
  watch(run: number | undefined): void {
    this.#run = run
    if (run === undefined || this.#isPlanned) return
    this.#isPlanned = true
    this.#clock.after(TICK_MS, () => this.#tick(), { background: true })
  }

  #tick(): void {
    this.#isPlanned = false
    if (this.#run === undefined || !this.#socket.writable) return
    // A thread that never turned between two jobs looks to the watchdog as if it were stuck in the first still.
    this.#socket.write(Buffer.from([this.#run % 256]))
    this.watch(this.#run)
  }
}

/** The author's code could write there as well: what is neither is ignored. */
function parse(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
