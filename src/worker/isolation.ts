// Finds the job whose report the queue refuses: what was told together is told again by halves, down to one.

import type { OutboxEntry } from './outbox.ts'

const NOBODY: ReadonlySet<OutboxEntry> = new Set()

/** What came of a refused request. */
export type Verdict =
  /** The queue refuses also what reports nothing: it is no job's doing. */
  | { kind: 'nobody' }
  /** Somebody of those that were told; they are told again. */
  | { kind: 'unclear' }
  | { kind: 'culprit'; entry: OutboxEntry }

export class Isolation {
  /** Who is to be told together, by request. */
  #groups: (readonly OutboxEntry[])[] = []
  /** The queue took a request without any report meanwhile. */
  #isQueueWell = false

  get isOpen(): boolean {
    return this.#groups.length > 0
  }

  /** Of whom the next request may tell; undefined when that is everybody. */
  get next(): ReadonlySet<OutboxEntry> | undefined {
    if (!this.isOpen) return undefined
    // The leases of all are listed in it too: while the culprit is looked for they do not lapse.
    return this.#isQueueWell ? new Set(this.#groups[0]) : NOBODY
  }

  /** A request that told of `only` was taken. */
  taken(only: ReadonlySet<OutboxEntry> | undefined): void {
    if (!only || !this.isOpen) return
    if (!this.#isQueueWell) this.#isQueueWell = true
    else this.#groups.shift()
    if (!this.isOpen) this.#isQueueWell = false
  }

  /** A request that told of `only`, and told `entries` of it, was refused. */
  refused(only: ReadonlySet<OutboxEntry> | undefined, entries: readonly OutboxEntry[]): Verdict {
    if (!only && entries.length > 0) {
      this.#groups.push(entries)
      return { kind: 'unclear' }
    }
    const [entry] = entries
    if (entry === undefined) {
      this.#groups = []
      this.#isQueueWell = false
      return { kind: 'nobody' }
    }
    this.#groups.shift()
    if (entries.length === 1) {
      // What is left to say of it is told by itself once more.
      this.#groups.unshift([entry])
      return { kind: 'culprit', entry }
    }
    const half = Math.ceil(entries.length / 2)
    this.#groups.unshift(entries.slice(0, half), entries.slice(half))
    return { kind: 'unclear' }
  }
}
