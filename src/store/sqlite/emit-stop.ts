// Telling the worker that holds a job that its lease is over.

import type { StopCause } from '../store-event.ts'
import { text, type Row } from './context.ts'
import type { Transaction } from './group-commit.ts'

/** `row` has endpoint, worker, id and lease as they were before. */
export function emitStop(transaction: Transaction, row: Row, reason: StopCause): void {
  transaction.emit({
    kind: 'stop',
    endpoint: text(row['endpoint']),
    worker: text(row['worker']),
    id: text(row['id']),
    lease: text(row['lease']),
    reason,
  })
}
