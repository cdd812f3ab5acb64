// Jobs ended by hand, without a worker: leased from the store and settled as a test says.

import type { End, Fence, LeasedJob, NewChunk } from '../../src/store/job-store.ts'
import type { Store } from '../../src/store/store.ts'

export class ScriptedJobs {
  readonly #store: Store
  readonly #endpoint: string

  constructor(store: Store, endpoint = 'default') {
    this.#store = store
    this.#endpoint = endpoint
  }

  /** Leases the oldest job that waits, once there is one. */
  async lease(worker = 'w1'): Promise<LeasedJob> {
    for (;;) {
      const news = Promise.withResolvers<void>()
      const unwatch = this.#store.watch((event) => event.kind === 'queued' && news.resolve())
      const ask = { endpoint: this.#endpoint, worker, count: 1, leaseMs: 60_000, now: Date.now() }
      const [job] = await this.#store.jobs.lease(ask)
      if (!job) await news.promise
      unwatch()
      if (job) return job
    }
  }

  fence({ id, lease }: LeasedJob): Fence {
    return { endpoint: this.#endpoint, id, lease }
  }

  async append(job: LeasedJob, ...chunks: (string | NewChunk)[]): Promise<void> {
    await this.#store.jobs.appendChunks(this.fence(job), {
      chunks: chunks.map((chunk) => (typeof chunk === 'string' ? { output: Buffer.from(chunk) } : chunk)),
      now: Date.now(),
    })
  }

  /** Completes the job with this JSON text, or without an output. */
  complete(job: LeasedJob, output?: string): Promise<unknown> {
    return this.settle(job, {
      event: 'complete',
      ...(output !== undefined && { output: Buffer.from(output) }),
    })
  }

  fail(job: LeasedJob, code = 'HANDLER_ERROR', message = 'no'): Promise<unknown> {
    return this.settle(job, { event: 'fail', error: { type: 'Error', message, code } })
  }

  settle(job: LeasedJob, end: End): Promise<unknown> {
    return this.#store.jobs.settle(this.fence(job), end, { executionMs: 5, now: Date.now() })
  }
}
