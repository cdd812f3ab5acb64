// Group commit: everything asked for in one turn of the event loop shares one transaction and one fsync.

import type { DatabaseSync } from 'node:sqlite'
import { StoreError } from '../store-error.ts'
import type { StoreEvent } from '../store-event.ts'

/** What an operation may do besides SQL: tell events, once and only if its commit holds. */
export interface Transaction {
  emit(event: StoreEvent): void
}

/** Sums that are gathered while the operations run and written once, at the end of their transaction. */
export interface CommitCounters {
  write(): void
  drop(): void
}

interface Pending {
  run: (transaction: Transaction) => unknown
  resolve: (value: never) => void
  reject: (reason: unknown) => void
}

/** SQLITE_FULL; the primary code is the low byte of an extended one. */
const SQLITE_FULL = 13
const SQLITE_CONSTRAINT = 19

export class GroupCommit {
  readonly #db: DatabaseSync
  readonly #emit: (event: StoreEvent) => void
  readonly #counters: CommitCounters
  #pending: Pending[] = []
  #isScheduled = false
  #isClosed = false

  constructor(db: DatabaseSync, counters: CommitCounters, emit: (event: StoreEvent) => void) {
    this.#db = db
    this.#counters = counters
    this.#emit = emit
  }

  /**
   * Runs `operation` in the next shared transaction; resolves once that is on disk. Operations run in the order of
   * the calls. One that throws is undone alone and rejects; the others of its group still happen.
   */
  submit<T>(operation: (transaction: Transaction) => T): Promise<T> {
    if (this.#isClosed) return Promise.reject(new StoreError('STORE_UNAVAILABLE', 'The store is closed.'))
    return new Promise<T>((resolve, reject) => {
      this.#pending.push({ run: operation, resolve, reject })
      if (this.#isScheduled) return
      this.#isScheduled = true
      setImmediate(() => this.flush())
    })
  }

  /** Commits what is pending now. */
  flush(): void {
    this.#isScheduled = false
    const group = this.#pending
    this.#pending = []
    if (group.length === 0) return
    if (this.#commit(group) || group.length === 1) return
    for (const one of group) this.#commit([one])
  }

  close(): void {
    this.flush()
    this.#isClosed = true
  }

  /** False when the group was rolled back and each of its operations has to be tried alone. */
  #commit(group: readonly Pending[]): boolean {
    const events: StoreEvent[] = []
    const transaction: Transaction = { emit: (event) => events.push(event) }
    const results: unknown[] = []
    try {
      this.#db.exec('begin immediate')
      for (const one of group) results.push(one.run(transaction))
      this.#counters.write()
      this.#db.exec('commit')
    } catch (cause) {
      if (this.#db.isTransaction) this.#db.exec('rollback')
      this.#counters.drop()
      if (group.length === 1) group[0]?.reject(asStoreError(cause))
      return false
    }
    group.forEach((one, at) => one.resolve(results[at] as never))
    for (const event of events) this.#emit(event)
    return true
  }
}

function asStoreError(cause: unknown): unknown {
  const code =
    typeof cause === 'object' && cause !== null && 'errcode' in cause ? Number(cause.errcode) & 0xff : 0
  if (code === 0 || code === SQLITE_CONSTRAINT) return cause
  if (code === SQLITE_FULL)
    return new StoreError('STORE_FULL', 'The disk or the quota of the store is full.', { cause })
  return new StoreError(
    'STORE_UNAVAILABLE',
    `The store failed: ${cause instanceof Error ? cause.message : String(cause)}.`,
    { cause },
  )
}
