// Deleting a job with all that belongs to it, at its ttl or after its retention.

import type { JobStatus } from '../../job/lifecycle.ts'
import { deleteChunks, integer, text, weightOf, type Context, type Row } from './context.ts'
import { emitStop } from './emit-stop.ts'
import type { Transaction } from './group-commit.ts'

/** `row` has seq, id, endpoint, status, worker, lease, last_index and low_priority. A running job's worker gets a stop. */
export function removeJob(
  context: Context,
  transaction: Transaction,
  row: Row,
  event: 'expire' | 'forget',
): void {
  const { statements, counters } = context
  const seq = integer(row['seq'])
  const endpoint = text(row['endpoint'])
  const id = text(row['id'])
  statements.run('delete from jobs where seq = $seq', { seq })
  statements.run('delete from inputs where job = $seq', { seq })
  if (integer(row['last_index']) > 0) deleteChunks(statements, seq)
  counters.moved(endpoint, event, text(row['status']) as JobStatus, weightOf(row))
  if (event === 'forget') return
  if (row['lease'] !== null && row['lease'] !== undefined) emitStop(transaction, row, 'expired')
  transaction.emit({ kind: 'changed', endpoint, id, status: 'deleted' })
}
