// The process that stands ready for the next place. It is a convenience: what goes wrong with it is counted, and waited for, apart.

import { backoffMs, type BackoffOptions } from '../lib/backoff.ts'
import { pause, type Clock } from '../lib/clock.ts'
import type { WorkerEvents } from './events.ts'
import type { HandlerProcess } from './handler-process.ts'

/** What stands ready for the next process: nothing, our runtime alone, or the author's file as well, set up. */
export type SpareKind = 'none' | 'bare' | 'warm'

export interface SpareOptions {
  kind: SpareKind
  clock: Clock
  events: WorkerEvents
  backoff: BackoffOptions
  /** The worker is leaving. */
  closing: AbortSignal
  spawn: () => HandlerProcess
  /** It may be made again. */
  onRested: () => void
}

/** So many warm ones in a row may fail before a bare one has to do. */
const MAX_FAILED = 3

export class Spare {
  readonly #options: SpareOptions
  #process: HandlerProcess | undefined
  #failed = 0
  #isResting = false

  constructor(options: SpareOptions) {
    this.#options = options
  }

  get process(): HandlerProcess | undefined {
    return this.#process
  }

  /** Starts one unless there is one, or it is too early after a failure. */
  make(): void {
    const { kind, spawn } = this.#options
    if (this.#process || kind === 'none' || this.#isResting) return
    const process = spawn()
    this.#process = process
    if (kind === 'warm' && this.#failed < MAX_FAILED)
      process.load().catch((cause: unknown) => this.lost(process, cause))
  }

  /** Hands it over, if there is one. */
  take(): HandlerProcess | undefined {
    const process = this.#process
    this.#process = undefined
    return process
  }

  /** Ends one that has the author's file in it: that is not what the next process is to have. */
  discardLoaded(): void {
    if (this.#process?.isLoading) void this.take()?.kill()
  }

  /** It failed or died while it stood ready. */
  lost(process: HandlerProcess, cause: unknown): void {
    if (this.#process !== process) return
    void this.take()?.kill()
    void this.failed(cause)
  }

  /** No job and no place waits for it: it is made again after a while of its own, bare when it fails too often. */
  async failed(cause: unknown): Promise<void> {
    const { closing, events, clock, backoff, onRested } = this.#options
    if (closing.aborted) return
    this.#failed += 1
    events.emit('unready', { cause, failures: this.#failed, isSpare: true })
    if (this.#isResting) return
    this.#isResting = true
    await pause(clock, backoffMs(this.#failed, backoff), closing)
    this.#isResting = false
    onRested()
  }

  /** A process got ready: whatever failed before is over. */
  forgive(): void {
    this.#failed = 0
  }
}
