// Keeps one conversation with the queue going: a held request while there is nothing to say, a quick one when there is.

import { randomUUID } from 'node:crypto'
import type { ExchangeLink, ExchangeReceived } from '../client/exchange-client.ts'
import { QueueRefusedError, QueueUnreachableError } from '../client/http.ts'
import type { JobError } from '../job/job.ts'
import { backoffMs } from '../lib/backoff.ts'
import type { Clock, Timer } from '../lib/clock.ts'
import type { JobFailureCode, RefusalCode } from '../protocol/errors.ts'
import type { LeaseHead, StopReason } from '../protocol/exchange.ts'
import type { WorkerEvents } from './events.ts'
import { Isolation } from './isolation.ts'
import { entriesOf, type Composed, type Outbox, type OutboxEntry } from './outbox.ts'

export interface ExchangeLoopOptions {
  link: ExchangeLink
  outbox: Outbox
  clock: Clock
  events: WorkerEvents
  /** How many more jobs can be taken right now. */
  want(): number
  onLease(lease: LeaseHead, input: Uint8Array): void
  onStop(lease: string, reason: StopReason): void
  onSettled(lease: string): void
  /** The queue refuses what this job has to say; it is told as failed, whatever it still does. */
  onUntellable(lease: string): void
  /** A request has ended, well or not. */
  onTurn(): void
  /** The queue retires this worker. */
  onDrain(): void
  /** The queue refuses this worker before it ever served it. */
  onRefused(error: QueueRefusedError): void
}

const POLL_SOON_MS = 10
/** While the queue works on one report the next one gathers; so many jobs in it are worth a second one at a time. */
const WORTH_A_SECOND = 16
/** The queue holds a request for half a lease; later than this the connection is taken for dead. */
const HOLD_MARGIN_MS = 5_000
const MAX_FAILED_SEQS = 64
/** A loop that is silent for longer than it should be, by so much, does not turn. */
const TURN_MARGIN_MS = 2_000
const UNKNOWN_LEASE_MS = 10_000
const BACKOFF = { baseMs: 100, maxMs: 5_000 }
/** Refusals that are about what a request carries, not about who sends it. */
const ABOUT_REPORTS: readonly string[] = ['EXCHANGE_INVALID', 'BODY_TOO_LARGE'] satisfies RefusalCode[]
const UNTELLABLE: JobError = {
  type: 'ReportError',
  message: "The queue refused what the worker reported of this job. The worker's log says why.",
  code: 'REPORT_REFUSED' satisfies JobFailureCode,
}

interface Sent {
  seq: number
  want: number
  isReport: boolean
  /** Of whom it tells, when that is not everybody. */
  only?: ReadonlySet<OutboxEntry>
}

export class ExchangeLoop {
  readonly #options: ExchangeLoopOptions
  readonly #session = randomUUID()
  readonly #abort = new AbortController()
  readonly #sent = new Set<Sent>()
  readonly #isolation = new Isolation()
  #seq = 0
  #failedSeqs: number[] = []
  #failures = 0
  #isRefused = false
  #lastAnswerAt: number | undefined
  #quietUntil = Number.POSITIVE_INFINITY
  #hasBeenServed = false
  #leaseMs = UNKNOWN_LEASE_MS
  #isPumpPlanned = false
  #isClosed = false
  #retry: Timer | undefined
  #pollTimer: Timer | undefined

  constructor(options: ExchangeLoopOptions) {
    this.#options = options
  }

  /** Looks again at what there is to say and to want; called whenever that may have changed. */
  nudge(): void {
    if (this.#isPumpPlanned || this.#isClosed) return
    this.#isPumpPlanned = true
    // After this turn's events, so that what ended together travels together.
    setImmediate(() => {
      this.#isPumpPlanned = false
      this.#pump()
    })
  }

  /** When the queue last answered, monotonic ms. */
  get lastAnswerAt(): number | undefined {
    return this.#lastAnswerAt
  }

  /** Whether it goes on as it should: something was sent, answered or tried again when that was due. */
  get isTurning(): boolean {
    return !this.#isClosed && this.#options.clock.monotonic() <= this.#quietUntil + TURN_MARGIN_MS
  }

  /** Whether an answer may be on its way that brings jobs. */
  get isAsking(): boolean {
    return [...this.#sent].some(({ want }) => want > 0)
  }

  get isReachable(): boolean {
    return this.#failures === 0
  }

  /** Whether the queue's last word was that it refuses this worker, or what it says. */
  get isRefused(): boolean {
    return this.#isRefused
  }

  /** Ends the conversation: open requests are given up. */
  close(): void {
    this.#isClosed = true
    this.#retry?.clear()
    this.#pollTimer?.clear()
    this.#abort.abort()
  }

  #pump(): void {
    if (this.#isClosed || this.#retry) return
    const { outbox } = this.#options
    // A report is answered at once; what happens until then goes with the next one.
    const reports = [...this.#sent].filter(({ isReport }) => isReport).length
    if (reports > (outbox.pending >= WORTH_A_SECOND ? 1 : 0)) return
    if (this.#isolation.isOpen) return reports > 0 ? undefined : this.#isolate()
    const want = this.#options.want()
    const polled = this.#newestPoll()
    if (outbox.pending > 0) return this.#dispatch(want, true)
    if (reports > 0) return
    if (want > 0 ? !polled || want > polled.want : (polled?.want ?? 0) > 0) return this.#dispatch(want, false)
    if (!polled || outbox.hasStarts) this.#pollSoon()
  }

  /** While it is looked for whose report the queue refuses, the others wait for a moment. */
  #isolate(): void {
    const only = this.#isolation.next
    const composed = this.#options.outbox.compose(this.#options.clock.monotonic(), only)
    // Without a report only a probe is answered at once, as it names a request that has failed.
    if (entriesOf(composed).length > 0 || this.#failedSeqs.length > 0)
      return this.#post({ want: 0, isReport: true, ...(only && { only }) }, composed)
    this.#isolation.taken(only)
    this.nudge()
  }

  get #timeoutMs(): number {
    return this.#leaseMs / 2 + HOLD_MARGIN_MS
  }

  #newestPoll(): Sent | undefined {
    return [...this.#sent].findLast(({ isReport }) => !isReport)
  }

  /** Nothing is wanted and nobody waits for what there is to say: most short jobs end before this comes to be sent. */
  #pollSoon(): void {
    this.#pollTimer ??= this.#options.clock.after(POLL_SOON_MS, () => {
      this.#pollTimer = undefined
      const isReporting = [...this.#sent].some(({ isReport }) => isReport)
      if (this.#isClosed || this.#retry || isReporting || this.#options.outbox.pending > 0) return
      if (this.#options.outbox.hasStarts || !this.#newestPoll()) this.#dispatch(this.#options.want(), false)
    })
  }

  #dispatch(want: number, isReport: boolean): void {
    const { outbox, clock } = this.#options
    this.#post({ want, isReport }, outbox.compose(clock.monotonic()))
  }

  #post(kind: Omit<Sent, 'seq'>, composed: Composed): void {
    const { clock } = this.#options
    const sent: Sent = { seq: (this.#seq += 1), ...kind }
    const failed = this.#failedSeqs
    this.#failedSeqs = []
    this.#sent.add(sent)
    this.#quietUntil = clock.monotonic() + this.#timeoutMs
    void this.#send(sent, composed, failed)
  }

  async #send(sent: Sent, composed: Composed, failed: number[]): Promise<void> {
    const { link } = this.#options
    const request = { session: this.#session, seq: sent.seq, want: sent.want, ...composed.reports }
    try {
      const received = await link.send(
        failed.length > 0 ? { ...request, failed } : request,
        composed.payloads,
        {
          timeoutMs: this.#timeoutMs,
          signal: this.#abort.signal,
        },
      )
      this.#sent.delete(sent)
      this.#isolation.taken(sent.only)
      this.#take(received)
      this.#options.outbox.answered(composed)
    } catch (cause) {
      this.#sent.delete(sent)
      if (this.#isClosed) return
      this.#options.outbox.failed(composed)
      // Only answers that were on their way can have been lost, and a queue remembers no more than its latest.
      this.#failedSeqs = [...failed, ...this.#failedSeqs, sent.seq].slice(-MAX_FAILED_SEQS)
      if (!this.#hasBlamed(cause, sent, composed)) this.#backOff(cause)
    }
    this.#options.onTurn()
    this.nudge()
  }

  #take({ answer, payloads }: ExchangeReceived): void {
    const { outbox, events } = this.#options
    if (this.#failures > 0) events.emit('reachable', { afterFailures: this.#failures })
    this.#failures = 0
    this.#isRefused = false
    this.#lastAnswerAt = this.#options.clock.monotonic()
    this.#hasBeenServed = true
    this.#leaseMs = answer.leaseMs
    // Stops first: they know why a lease is over, an acknowledgement only that it is.
    for (const stop of answer.stops) {
      outbox.drop(stop.lease)
      this.#options.onStop(stop.lease, stop.reason)
      this.#options.onSettled(stop.lease)
    }
    for (const ack of answer.acks) {
      const state = outbox.acknowledge(ack)
      if (state === 'stale') this.#options.onStop(ack.lease, 'lease-lost')
      if (state !== 'open') this.#options.onSettled(ack.lease)
    }
    for (const lease of answer.leases) this.#options.onLease(lease, payloads.take(lease.bytes))
    if (answer.drain) this.#options.onDrain()
  }

  /** Sent again unchanged, a refused report would be refused for ever, and the heartbeats of all others with it. */
  #hasBlamed(cause: unknown, { only }: Sent, composed: Composed): boolean {
    if (!(cause instanceof QueueRefusedError) || !ABOUT_REPORTS.includes(cause.code)) return false
    const verdict = this.#isolation.refused(only, entriesOf(composed))
    if (verdict.kind === 'culprit') this.#blame(verdict.entry, cause)
    return verdict.kind !== 'nobody'
  }

  #blame(entry: OutboxEntry, cause: QueueRefusedError): void {
    const { outbox, events } = this.#options
    const { id, lease } = entry.ref
    const left = outbox.refuse(entry, UNTELLABLE)
    events.emit('untellable', { id, cause, isForgotten: left === 'forgotten' })
    this.#options.onUntellable(lease)
    if (left === 'forgotten') this.#options.onSettled(lease)
  }

  #backOff(cause: unknown): void {
    const { clock, events } = this.#options
    this.#isRefused = cause instanceof QueueRefusedError
    if (cause instanceof QueueRefusedError && !this.#hasBeenServed) return this.#options.onRefused(cause)
    this.#failures += 1
    const askedMs = cause instanceof QueueUnreachableError ? (cause.retryAfterMs ?? 0) : 0
    const retryInMs = Math.round(Math.max(askedMs, backoffMs(this.#failures, BACKOFF)))
    this.#quietUntil = clock.monotonic() + retryInMs
    events.emit('unreachable', { cause, failures: this.#failures, retryInMs })
    this.#retry ??= clock.after(retryInMs, () => {
      this.#retry = undefined
      this.nudge()
    })
  }
}
