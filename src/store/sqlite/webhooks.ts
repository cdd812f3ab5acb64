// The deliveries that webhooks are owed, in a queue file.

import type { TraceContext } from '../../job/job.ts'
import type { Dialect } from '../job-store.ts'
import type { Delivery, WebhookStore } from '../webhook-store.ts'
import { blob, integer, optional, text, type Context, type Row } from './context.ts'
import { readRecord } from './reads.ts'

export class SqliteWebhooks implements WebhookStore {
  readonly #context: Context

  constructor(context: Context) {
    this.#context = context
  }

  claimDeliveries(ask: Parameters<WebhookStore['claimDeliveries']>[0]): Promise<Delivery[]> {
    const { count, holdMs, without, now } = ask
    const { statements, commits } = this.#context
    return commits.submit(() => {
      const rows = statements.all(
        // Origin by origin: what one of them is owed, however much that is, costs the others nothing.
        `with recursive origins (origin) as (
           select min(origin) from deliveries
           union all
           select (select min(origin) from deliveries where origin > origins.origin) from origins
             where origin is not null)
         select due.* from origins join deliveries due on due.seq in (
           select seq from deliveries where origin = origins.origin and due_at <= $now order by due_at limit $count)
         where origins.origin not in (select value from json_each($without)) order by due.due_at, due.seq limit $count`,
        { count, without: JSON.stringify(without), now },
      )
      for (const row of rows) {
        statements.run('update deliveries set due_at = $until where seq = $seq', {
          seq: integer(row['seq']),
          until: now + holdMs,
        })
      }
      return rows.map((row) => readDelivery(row, now))
    })
  }

  dropDelivery(id: string): Promise<void> {
    return this.#context.commits.submit(() => {
      this.#context.statements.run('delete from deliveries where seq = $seq', { seq: Number(id) })
    })
  }

  postponeDelivery(id: string, dueAt: number): Promise<void> {
    return this.#context.commits.submit(() => {
      this.#context.statements.run(
        'update deliveries set due_at = $dueAt, attempts = attempts + 1 where seq = $seq',
        { seq: Number(id), dueAt },
      )
    })
  }

  async nextDeliveryAt(): Promise<number | undefined> {
    const dueAt = this.#context.statements.find('select min(due_at) as due_at from deliveries', {})?.[
      'due_at'
    ]
    return typeof dueAt === 'number' ? dueAt : undefined
  }
}

function readDelivery(row: Row, now: number): Delivery {
  return {
    id: String(integer(row['seq'])),
    url: text(row['url']),
    record: readRecord(row, now),
    ...optional('dialect', row['dialect'], (value) => text(value) as Dialect),
    input: blob(row['input']),
    ...optional('trace', row['trace'], (value) => JSON.parse(text(value)) as TraceContext),
    attempt: integer(row['attempts']) + 1,
  }
}
