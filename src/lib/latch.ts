// Waiting for something to happen that may have happened already.

import type { Clock } from './clock.ts'

/** Wakes all who wait; remembers a wake-up for the next one when there is nobody, so that none is lost between looking and waiting. */
export class Latch {
  #isSet = false
  readonly #waiting = new Set<() => void>()

  set(): void {
    if (this.#waiting.size === 0) this.#isSet = true
    for (const wake of this.#waiting) wake()
  }

  /** Resolves at the next `set`, after `ms`, or when a signal aborts; at once if it was set while nobody waited. */
  wait(clock: Clock, ms: number, signals: readonly AbortSignal[] = []): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        timer.clear()
        for (const signal of signals) signal.removeEventListener('abort', finish)
        this.#waiting.delete(finish)
        resolve()
      }
      const timer = clock.after(ms, finish)
      const isOver = this.#isSet || signals.some((signal) => signal.aborted)
      this.#isSet = false
      if (isOver) return finish()
      this.#waiting.add(finish)
      for (const signal of signals) signal.addEventListener('abort', finish, { once: true })
    })
  }
}
