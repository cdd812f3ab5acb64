// Who waits for news of which job.

import { Latch } from '../lib/latch.ts'
import type { Store } from '../store/store.ts'

/** Wakes whoever waits for a job when it changes, has new chunks or progress. */
export class JobWatch {
  readonly #latches = new Map<string, Set<Latch>>()
  readonly #stop: () => void

  constructor(store: Store) {
    this.#stop = store.watch((event) => {
      if (event.kind === 'missed') return this.#wakeAll()
      if (event.kind !== 'changed' && event.kind !== 'chunks' && event.kind !== 'progress') return
      for (const latch of this.#latches.get(event.id) ?? []) latch.set()
    })
  }

  /** A latch that is set at each news of the job, until it is disposed of. */
  watch(id: string): Disposable & { latch: Latch } {
    const latch = new Latch()
    const latches = this.#latches.get(id) ?? new Set()
    this.#latches.set(id, latches.add(latch))
    return {
      latch,
      [Symbol.dispose]: () => {
        latches.delete(latch)
        if (latches.size === 0 && this.#latches.get(id) === latches) this.#latches.delete(id)
      },
    }
  }

  /** Nobody knows for whom there was news. */
  #wakeAll(): void {
    for (const latches of this.#latches.values()) for (const latch of latches) latch.set()
  }

  close(): void {
    this.#stop()
  }
}
