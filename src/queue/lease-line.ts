// The line of those who wait for work: each endpoint's idle workers, served in the order in which they came.

import type { Clock } from '../lib/clock.ts'
import type { LeaseAsk, LeasedJob, Store } from '../store/store.ts'

export interface Waiter {
  readonly ask: Omit<LeaseAsk, 'endpoint' | 'now'>
  /** Takes what was leased for it, exactly once, and is out of the line. */
  take(leases: LeasedJob[]): void
}

interface Entry {
  waiter: Waiter
  hasLeft: boolean
}

interface Line {
  entries: Set<Entry>
  /** Set while someone is being served; who comes meanwhile is served in the same round. */
  isServing: boolean
  hasNews: boolean
}

export class LeaseLine {
  readonly #store: Store
  readonly #clock: Clock
  readonly #onError: (cause: unknown) => void
  readonly #lines = new Map<string, Line>()
  readonly #stop: () => void

  constructor(options: { store: Store; clock: Clock; onError: (cause: unknown) => void }) {
    this.#store = options.store
    this.#clock = options.clock
    this.#onError = options.onError
    this.#stop = this.#store.watch((event) => {
      if (event.kind === 'queued' && this.#lines.has(event.endpoint)) this.#serve(event.endpoint)
    })
  }

  /** Waits for work. The answer leaves the line; a waiter that is being served just then still takes its leases. */
  join(endpoint: string, waiter: Waiter): () => void {
    const line = this.#lines.get(endpoint) ?? { entries: new Set(), isServing: false, hasNews: false }
    this.#lines.set(endpoint, line)
    const entry: Entry = { waiter, hasLeft: false }
    line.entries.add(entry)
    this.#serve(endpoint)
    return () => {
      entry.hasLeft = true
      line.entries.delete(entry)
    }
  }

  /** Leases at once, past the line: for a worker that is speaking anyway. */
  leaseNow(endpoint: string, ask: Waiter['ask']): Promise<LeasedJob[]> {
    return this.#store.jobs.lease({ ...ask, endpoint, now: this.#clock.now() })
  }

  close(): void {
    this.#stop()
  }

  #serve(endpoint: string): void {
    const line = this.#lines.get(endpoint)
    if (!line) return
    line.hasNews = true
    if (line.isServing) return
    line.isServing = true
    this.#serveAll(endpoint, line)
      .catch(this.#onError)
      .finally(() => {
        line.isServing = false
        if (line.entries.size === 0) this.#lines.delete(endpoint)
        else if (line.hasNews) this.#serve(endpoint)
      })
  }

  async #serveAll(endpoint: string, line: Line): Promise<void> {
    while (line.hasNews) {
      line.hasNews = false
      for (const entry of line.entries) {
        line.entries.delete(entry)
        let leases: LeasedJob[] = []
        try {
          leases = await this.leaseNow(endpoint, entry.waiter.ask)
        } finally {
          // Whoever got nothing keeps its place at the head.
          if (leases.length === 0 && !entry.hasLeft) line.entries = new Set([entry, ...line.entries])
        }
        if (leases.length === 0) break
        entry.waiter.take(leases)
      }
    }
  }
}
