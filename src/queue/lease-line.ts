// The line of those who wait for work: each endpoint's idle workers, served in the order in which they came.

import type { Clock } from '../lib/clock.ts'
import { s3ConfigSchema, type JobError, type S3Config } from '../job/job.ts'
import type { LeaseAsk, LeasedJob } from '../store/job-store.ts'
import type { Store } from '../store/store.ts'
import type { SecretBox } from './secret-box.ts'
import type { Telemetry } from './telemetry.ts'

/** A leased job as its worker gets it, its s3Config opened. */
export type OpenedJob = Omit<LeasedJob, 'sealedS3Config'> & { s3Config?: S3Config }

export interface Waiter {
  readonly ask: Omit<LeaseAsk, 'endpoint' | 'now'>
  /** Takes what was leased for it, exactly once, and is out of the line. */
  take(leases: OpenedJob[]): void
}

interface Line {
  entries: Set<Waiter>
  /** Set while someone is being served; who comes meanwhile is served in the same round. */
  isServing: boolean
  hasNews: boolean
}

export class LeaseLine {
  readonly #store: Store
  readonly #clock: Clock
  readonly #secrets: SecretBox | undefined
  readonly #telemetry: Telemetry
  readonly #onError: (cause: unknown) => void
  readonly #lines = new Map<string, Line>()
  readonly #stop: () => void

  constructor(options: {
    store: Store
    clock: Clock
    secrets?: SecretBox
    telemetry: Telemetry
    onError: (cause: unknown) => void
  }) {
    this.#store = options.store
    this.#clock = options.clock
    this.#secrets = options.secrets
    this.#telemetry = options.telemetry
    this.#onError = options.onError
    this.#stop = this.#store.watch((event) => {
      const isNews = event.kind === 'queued' || event.kind === 'missed'
      if (isNews && this.#lines.has(event.endpoint)) this.#serve(event.endpoint)
    })
  }

  /** Waits for work. The answer leaves the line; a waiter that is being served just then still takes its leases. */
  join(endpoint: string, waiter: Waiter): () => void {
    const line = this.#lines.get(endpoint) ?? { entries: new Set(), isServing: false, hasNews: false }
    this.#lines.set(endpoint, line)
    line.entries.add(waiter)
    this.#serve(endpoint)
    return () => line.entries.delete(waiter)
  }

  /** Leases at once, past the line: for a worker that is speaking anyway. */
  async leaseNow(endpoint: string, ask: Waiter['ask']): Promise<OpenedJob[]> {
    for (;;) {
      const leased = await this.#store.jobs.lease({ ...ask, endpoint, now: this.#clock.now() })
      for (const { waitedMs } of leased) this.#telemetry.leased(endpoint, waitedMs)
      const opened = leased.flatMap((job) => this.#open(endpoint, job))
      // Jobs that cannot be opened have failed; those behind them must not wait for that.
      if (opened.length > 0 || leased.length === 0) return opened
    }
  }

  close(): void {
    this.#stop()
  }

  /** A job whose s3Config was sealed with another secret fails: no worker could run it as it was meant. */
  #open(endpoint: string, { sealedS3Config, ...job }: LeasedJob): OpenedJob[] {
    if (!sealedS3Config) return [job]
    try {
      if (!this.#secrets) throw new Error('There is no secret.')
      return [{ ...job, s3Config: s3ConfigSchema.parse(this.#secrets.open(sealedS3Config)) }]
    } catch {
      const error: JobError = {
        type: 'SecretError',
        message:
          "The job's s3Config was sealed with another secret than the service has now. Start the service with the LONGSHORE_SECRET_KEY or the .key file of that time, or submit the job anew.",
        code: 'SECRET_UNREADABLE',
      }
      const fence = { endpoint, id: job.id, lease: job.lease }
      this.#store.jobs
        .settle(fence, { event: 'fail', error }, { executionMs: 0, now: this.#clock.now() })
        .catch(this.#onError)
      return []
    }
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
        const { ask } = entry
        const leases = await this.leaseNow(endpoint, ask)
        if (leases.length > 0) {
          line.entries.delete(entry)
          entry.take(leases)
        } else if (ask.notLostSince === undefined) break
        // What is not for this one may be for the next, which does not lose its place by that.
      }
    }
  }
}
