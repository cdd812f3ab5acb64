// A client whose every answer goes into a history.

import { Client, QueueRefusedError, type NewSubmission } from '../../src/client/client.ts'
import type { History } from './history.ts'
import type { SeenCounts } from './history/told.ts'
import { KEY } from './processes.ts'

/** Enough tries to ride out every fault of a test. */
const ATTEMPTS = 200

export class RecordingClient {
  readonly #client: Client
  readonly #history: History

  constructor(endpointUrl: string, history: History) {
    this.#client = new Client({ endpointUrl, apiKey: KEY, attempts: ATTEMPTS })
    this.#history = history
  }

  async submit(submission: NewSubmission): Promise<string> {
    const { id } = await this.#client.run(submission).catch((cause: unknown) => {
      // One that was refused has made no job.
      if (!(cause instanceof QueueRefusedError)) this.#history.tell({ kind: 'unanswered' })
      throw cause
    })
    this.#history.tell({ kind: 'submitted', id })
    return id
  }

  /** Asks for the record; one that is not found is a record that is not there. */
  async look(id: string): Promise<void> {
    const asked = this.#history.moment()
    const record = await this.#client.status(id).catch((cause: unknown) => {
      if (isNotFound(cause)) return undefined
      throw cause
    })
    this.#history.tell({ kind: 'seen', id, record, asked })
  }

  /** Reads a job's stream as it comes. Resolves when the job has ended, or is not there any more. */
  async read(id: string): Promise<void> {
    const asked = this.#history.moment()
    const chunks = []
    try {
      for await (const { index, attempt, output } of this.#client.stream(id))
        chunks.push({ index, output, ...(attempt !== undefined && { attempt }) })
    } catch (cause) {
      if (isNotFound(cause)) return
      throw cause
    }
    this.#history.tell({ kind: 'read', id, chunks, asked })
  }

  async count(): Promise<SeenCounts> {
    const asked = this.#history.moment()
    const counts = (await this.#client.health()).jobs
    this.#history.tell({ kind: 'counted', counts, asked })
    return counts
  }

  async completed(): Promise<number> {
    return (await this.count()).completed
  }

  close(): Promise<void> {
    return this.#client.close()
  }
}

function isNotFound(cause: unknown): boolean {
  return cause instanceof QueueRefusedError && cause.status === 404
}
