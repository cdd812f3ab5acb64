// Waiting for something to happen that may have happened already.

import type { Clock } from './clock.ts'

/** Remembers a wake-up until somebody waits for it, so that none is lost between looking and waiting. */
export class Latch {
  #isSet = false
  #wake: (() => void) | undefined

  set(): void {
    this.#isSet = true
    this.#wake?.()
  }

  /** Resolves at the next `set`, after `ms`, or when a signal aborts; at once if it was set since the last wait. */
  wait(clock: Clock, ms: number, signals: readonly AbortSignal[] = []): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        timer.clear()
        for (const signal of signals) signal.removeEventListener('abort', finish)
        this.#wake = undefined
        this.#isSet = false
        resolve()
      }
      const timer = clock.after(ms, finish)
      if (this.#isSet || signals.some((signal) => signal.aborted)) return finish()
      this.#wake = finish
      for (const signal of signals) signal.addEventListener('abort', finish, { once: true })
    })
  }
}
