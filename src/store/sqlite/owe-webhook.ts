// What a job's webhook is owed at its end: a copy of it, made in the commit that ends it.

import { integer, text, type Context, type Row } from './context.ts'
import type { Transaction } from './group-commit.ts'

/** `row` has seq and webhook; the job has its end by now. */
export function oweWebhook({ statements }: Context, transaction: Transaction, row: Row, now: number): void {
  if (row['webhook'] === null) return
  statements.run(
    `insert into deliveries (url, origin, due_at, id, endpoint, dialect, status, reason, attempt, worker, submitted_at,
       counted_from, ran_ms, ended_at, execution_ms, trace, error, error_text, output, input)
     select webhook, $origin, $now, id, endpoint, dialect, status, reason, attempt, worker, submitted_at,
       counted_from, ran_ms, ended_at, execution_ms, trace, error, error_text, output, (select body from inputs where job = seq)
     from jobs where seq = $seq`,
    { seq: integer(row['seq']), origin: new URL(text(row['webhook'])).origin, now },
  )
  transaction.emit({ kind: 'webhook' })
}
