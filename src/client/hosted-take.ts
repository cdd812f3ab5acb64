// Takes jobs from the hosted platform: one long poll at a time while jobs are wanted, and never a hot loop.

import { backoffMs } from '../lib/backoff.ts'
import { pause, type Clock } from '../lib/clock.ts'
import { readTakenJobs, type TakenJob } from './hosted-job.ts'
import { TAKE_MS, type HostedAnswer, type HostedWire } from './hosted-wire.ts'
import { QueueRefusedError, QueueUnreachableError, readError, retryAfterMsOf } from './http.ts'

export interface JobTakerOptions {
  wire: HostedWire
  clock: Clock
  /** Whether the worker holds a job. */
  isBusy: () => boolean
  /** Answers how many of them are new. */
  onJobs: (jobs: readonly TakenJob[]) => number
  onAnswer: () => void
  onTrouble: (cause: QueueUnreachableError | QueueRefusedError) => void
  /** No take is open or planned. */
  onIdle: () => void
  onWarning: (message: string) => void
}

/** An empty answer after so long was held: the next take may follow at once. */
const HELD_MS = 1_000
const EMPTY_BACKOFF = { baseMs: 100, maxMs: 2_000 }
const FAILED_BACKOFF = { baseMs: 100, maxMs: 5_000 }
const THROTTLED_MS = 5_000
/** With these the platform says that it does not know this worker or its endpoint. */
const REFUSALS = new Set([401, 403, 404])

export class JobTaker {
  readonly #options: JobTakerOptions
  #wanted = 0
  #round: AbortController | undefined
  #isRunning = false
  #isClosed = false
  /** Empty answers, and failures, in a row. */
  #empties = 0
  #failures = 0
  #isThrottled = false
  /** Monotonic ms: no take before. */
  #notBefore = 0

  constructor(options: JobTakerOptions) {
    this.#options = options
  }

  get isTaking(): boolean {
    return this.#isRunning
  }

  /** How many jobs are wanted now; none gives up a take that is open. */
  want(count: number): void {
    if (this.#isClosed) return
    this.#wanted = count
    if (count === 0) this.#round?.abort()
    else if (!this.#isRunning) void this.#run()
  }

  close(): void {
    this.#isClosed = true
    this.#wanted = 0
    this.#round?.abort()
  }

  async #run(): Promise<void> {
    const { clock, onIdle } = this.#options
    this.#isRunning = true
    while (this.#wanted > 0) {
      this.#round = new AbortController()
      const waitMs = this.#notBefore - clock.monotonic()
      if (waitMs > 0) await pause(clock, waitMs, this.#round.signal)
      else await this.#take(this.#round)
    }
    this.#isRunning = false
    this.#round = undefined
    if (!this.#isClosed) onIdle()
  }

  async #take(round: AbortController): Promise<void> {
    const { wire, clock, isBusy, onTrouble } = this.#options
    const startedAt = clock.monotonic()
    const limit = clock.after(TAKE_MS, () => round.abort())
    try {
      const answer = await wire.take(this.#wanted, isBusy(), round.signal)
      if (this.#isClosed) return
      this.#read(answer, clock.monotonic() - startedAt)
    } catch (cause) {
      // Given up, or held for longer than the platform ever does: no fault of anybody's.
      if (round.signal.aborted) return
      if (!(cause instanceof QueueUnreachableError)) throw cause
      this.#backOff()
      onTrouble(cause)
    } finally {
      limit.clear()
    }
  }

  #read(answer: HostedAnswer, tookMs: number): void {
    const { onAnswer, onTrouble, wire } = this.#options
    const { status, body } = answer
    if (status === 429) return this.#throttled(answer)
    this.#isThrottled = false
    // 400 is what the platform answers while it moves a worker: there is nothing to do then, as with 204.
    if (status === 200 || status === 204 || status === 400) {
      onAnswer()
      const count = status === 200 ? this.#takeJobs(body) : 0
      return count > 0 ? this.#served(count) : this.#empty(tookMs)
    }
    this.#backOff()
    const { error, code } = readError(body)
    const said = error === undefined ? '' : `: ${error}`
    if (REFUSALS.has(status)) {
      const text = `The queue at ${wire.place} answered HTTP ${status} to job-take${said || '.'}`
      return onTrouble(new QueueRefusedError(status, code ?? `HTTP_${status}`, text))
    }
    const text = `The queue at ${wire.place} answered HTTP ${status} to job-take${said || '.'}`
    onTrouble(new QueueUnreachableError(text, { retryAfterMs: retryAfterMsOf(answer) }))
  }

  #takeJobs(body: Uint8Array): number {
    const { onJobs, onWarning } = this.#options
    const { jobs, problems } = readTakenJobs(body)
    for (const problem of problems) onWarning(`The platform's answer to job-take is odd: ${problem}.`)
    return jobs.length > 0 ? onJobs(jobs) : 0
  }

  #served(count: number): void {
    this.#empties = 0
    this.#failures = 0
    this.#notBefore = 0
    this.#wanted = Math.max(0, this.#wanted - count)
  }

  #empty(tookMs: number): void {
    this.#failures = 0
    this.#empties = tookMs >= HELD_MS ? 0 : this.#empties + 1
    this.#notBefore =
      this.#empties === 0 ? 0 : this.#options.clock.monotonic() + backoffMs(this.#empties, EMPTY_BACKOFF)
  }

  #throttled(answer: HostedAnswer): void {
    const { clock, onAnswer, onWarning } = this.#options
    onAnswer()
    const waitMs = retryAfterMsOf(answer) ?? THROTTLED_MS
    this.#notBefore = clock.monotonic() + Math.max(waitMs, EMPTY_BACKOFF.baseMs)
    if (!this.#isThrottled) {
      onWarning(`The platform answered HTTP 429 to job-take; the next one goes out in ${waitMs} ms.`)
    }
    this.#isThrottled = true
  }

  #backOff(): void {
    this.#failures += 1
    this.#notBefore = this.#options.clock.monotonic() + backoffMs(this.#failures, FAILED_BACKOFF)
  }
}
