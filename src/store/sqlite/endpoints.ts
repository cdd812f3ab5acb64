// The endpoints in a queue file: made, found, and removed with all that is theirs.

import { isEnded, type JobStatus } from '../../job/lifecycle.ts'
import { limits } from '../../job/limits.ts'
import type { Endpoint, EndpointStore } from '../endpoint-store.ts'
import { integer, text, type Context, type Row } from './context.ts'
import type { Transaction } from './group-commit.ts'
import { removeJob } from './remove-job.ts'

/** Rows in one round, so that requests are never kept waiting long. */
const ROUND = 500

const FIELDS = 'id, execution_timeout_ms, max_attempts'

export class SqliteEndpoints implements EndpointStore {
  readonly #context: Context

  constructor(context: Context) {
    this.#context = context
  }

  async ensureEndpoint(id: string): Promise<boolean> {
    const { statements, commits } = this.#context
    if (await this.wasRemoved(id)) {
      await this.removeEndpoint(id)
      await commits.submit(() =>
        statements.run('delete from endpoints where id = $id and is_removed = 1', { id }),
      )
    }
    return this.keepEndpoint(id)
  }

  keepEndpoint(id: string): Promise<boolean> {
    const { statements, commits } = this.#context
    return commits.submit(
      () =>
        statements.run(
          `insert or ignore into endpoints (id, execution_timeout_ms, max_attempts)
           values ($id, $executionTimeoutMs, $maxAttempts)`,
          {
            id,
            executionTimeoutMs: limits.executionTimeoutMs.default,
            maxAttempts: limits.maxAttempts.default,
          },
        ) > 0,
    )
  }

  async setEndpoint(id: string, { executionTimeoutMs }: { executionTimeoutMs: number }): Promise<void> {
    const { statements, commits } = this.#context
    await commits.submit(() =>
      statements.run('update endpoints set execution_timeout_ms = $executionTimeoutMs where id = $id', {
        id,
        executionTimeoutMs,
      }),
    )
  }

  async findEndpoint(id: string): Promise<Endpoint | undefined> {
    const row = this.#context.statements.find(
      `select ${FIELDS} from endpoints where id = $id and is_removed = 0`,
      { id },
    )
    return row && readEndpoint(row)
  }

  async listEndpoints(): Promise<Endpoint[]> {
    return this.#context.statements
      .all(`select ${FIELDS} from endpoints where is_removed = 0 order by id`, {})
      .map(readEndpoint)
  }

  async wasRemoved(id: string): Promise<boolean> {
    const row = this.#context.statements.find('select is_removed from endpoints where id = $id', { id })
    return row?.['is_removed'] === 1
  }

  async removeEndpoint(id: string): Promise<void> {
    const { statements, commits } = this.#context
    await commits.submit(() => statements.run('update endpoints set is_removed = 1 where id = $id', { id }))
    while ((await commits.submit((transaction) => this.#removeSome(transaction, id))) > 0) continue
    await commits.submit(() =>
      statements.run(
        'update endpoints set completed = 0, failed = 0, retried = 0, arrived = 0 where id = $id and is_removed = 1',
        { id },
      ),
    )
  }

  #removeSome(transaction: Transaction, endpoint: string): number {
    const { statements } = this.#context
    const rows = statements.all(
      `select seq, id, endpoint, status, worker, lease, last_index, low_priority from jobs
       where endpoint = $endpoint limit ${ROUND}`,
      { endpoint },
    )
    for (const row of rows) {
      const event = isEnded(text(row['status']) as JobStatus) ? 'forget' : 'expire'
      removeJob(this.#context, transaction, row, event)
    }
    const deliveries = statements.run(
      `delete from deliveries where seq in (select seq from deliveries where endpoint = $endpoint limit ${ROUND})`,
      { endpoint },
    )
    return rows.length + deliveries
  }
}

function readEndpoint(row: Row): Endpoint {
  return {
    id: text(row['id']),
    executionTimeoutMs: integer(row['execution_timeout_ms']),
    maxAttempts: integer(row['max_attempts']),
  }
}
