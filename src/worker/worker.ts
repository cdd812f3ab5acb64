// The worker: takes leases into its slots, runs them, reports how they ended, and leaves in good order.

import type { ExchangeLink } from '../client/exchange-client.ts'
import type { QueueRefusedError } from '../client/http.ts'
import type { Clock, Timer } from '../lib/clock.ts'
import type { Ended, LeaseHead, LeaseRef, StopReason } from '../protocol/exchange.ts'
import { LeaseAhead } from './lease-ahead.ts'
import type { WorkerEvents } from './events.ts'
import { ExchangeLoop } from './exchange-loop.ts'
import type { Executor } from './executor.ts'
import type { Assignment, Run } from './run.ts'
import type { Outcome } from './outcome.ts'
import { Outbox, type OutboxEntry } from './outbox.ts'

export interface WorkerOptions {
  link: ExchangeLink
  executor: Pick<Executor, 'run'>
  clock: Clock
  events: WorkerEvents
  /** Jobs at a time, to begin with. */
  concurrency: number
  /** How long running jobs get to end when the worker is told to go, ms. */
  drainMs: number
  /** Between a job's abort and the end of its process, ms; the queue allows for it. */
  killGraceMs: number
}

/** From the last job's abort to the worker's end: its processes are gone by half of it, the rest is for the reports. */
const LAST_WORDS_MS = 750

interface Held {
  lease: LeaseHead
  input: Uint8Array
  entry: OutboxEntry
  run?: Run
}

export interface WorkerHealth {
  /** `stuck`: the lease loop does not turn; `refused`: the queue refuses it; `leaving`: it takes no more jobs. */
  status: 'ok' | 'stuck' | 'refused' | 'leaving'
  queue: 'reachable' | 'refusing' | 'unreachable'
  /** ms since the queue last answered; null before it ever did. */
  lastAnswerMs: number | null
  concurrency: number
  running: number
  /** Jobs that have ended here. */
  jobs: number
}

export class Worker {
  readonly #options: WorkerOptions
  readonly #outbox: Outbox
  readonly #loop: ExchangeLoop
  readonly #ahead: LeaseAhead
  /** Leased, not yet begun: more than there are slots only when jobs are short. */
  readonly #waiting: Held[] = []
  readonly #running = new Map<string, Held>()
  readonly #left = Promise.withResolvers<void>()
  #concurrency: number
  #isDraining = false
  #isSignalled = false
  #isStopping = false
  #hasLeft = false
  #failure: Error | undefined
  #handBack: Timer | undefined
  #drainTimer: Timer | undefined
  #lastWords: Timer | undefined
  #jobs = 0

  constructor(options: WorkerOptions) {
    this.#options = options
    this.#concurrency = options.concurrency
    this.#outbox = new Outbox({ graceMs: options.killGraceMs })
    this.#ahead = new LeaseAhead()
    this.#loop = new ExchangeLoop({
      link: options.link,
      outbox: this.#outbox,
      clock: options.clock,
      events: options.events,
      want: () => this.#want(),
      onLease: (lease, input) => this.#take(lease, input),
      onStop: (lease, reason) => this.#stop(lease, reason),
      onSettled: () => this.#leaveWhenDone(),
      onUntellable: (lease) => this.#running.get(lease)?.run?.abort('lease-lost'),
      onTurn: () => this.#leaveWhenDone(),
      onDrain: () => this.#retire(),
      onRefused: (error) => this.#refused(error),
    })
  }

  /** Begins to lease. The executor is ready by now. */
  start(): void {
    this.#loop.nudge()
  }

  /** Resolves once the worker has left; rejects when the queue never took it, or its handler is beyond help. */
  get left(): Promise<void> {
    return this.#left.promise
  }

  /** Takes no more jobs, gives running ones `drainMs` to end, then stops and releases them. A second call stops them at once. */
  drain(signal: string): void {
    // A timer set now would keep the process for the whole drain time.
    if (this.#hasLeft) return
    if (this.#isSignalled) return this.#stopAll()
    this.#isSignalled = true
    const { clock, drainMs } = this.#options
    this.#stopLeasing(signal, drainMs)
    this.#drainTimer = clock.after(drainMs, () => this.#stopAll())
    this.#leaveWhenDone()
  }

  /** The queue wants it to go after its last job, however long that takes. */
  #retire(): void {
    if (this.#isDraining) return
    this.#stopLeasing('drain', Number.POSITIVE_INFINITY)
    this.#leaveWhenDone()
  }

  #stopLeasing(signal: string, drainMs: number): void {
    this.#isDraining = true
    this.#options.events.emit('draining', { signal, running: this.#running.size, drainMs })
    if (this.#handsBack) this.#handBackWaiting()
    else this.#loop.nudge()
  }

  get concurrency(): number {
    return this.#concurrency
  }

  /** How it is, for whoever watches it. */
  get health(): WorkerHealth {
    const { isTurning, isReachable, isRefused, lastAnswerAt } = this.#loop
    const now = this.#options.clock.monotonic()
    return {
      status: this.#isDraining ? 'leaving' : !isTurning ? 'stuck' : isRefused ? 'refused' : 'ok',
      queue: isReachable ? 'reachable' : isRefused ? 'refusing' : 'unreachable',
      lastAnswerMs: lastAnswerAt === undefined ? null : Math.round(now - lastAnswerAt),
      concurrency: this.#concurrency,
      running: this.#running.size,
      jobs: this.#jobs,
    }
  }

  /** Takes effect at once: more slots take jobs, fewer run out as their jobs end. */
  setConcurrency(concurrency: number): void {
    if (concurrency === this.#concurrency) return
    this.#options.events.emit('concurrency', { from: this.#concurrency, to: concurrency })
    this.#concurrency = concurrency
    this.#fill()
    this.#loop.nudge()
  }

  /** Leaves at once, all jobs handed back, and says why. */
  fail(cause: Error): void {
    this.#failure ??= cause
    this.#isDraining = true
    this.#stopAll()
    this.#leaveWhenDone()
  }

  #want(): number {
    if (this.#isDraining) return 0
    const ahead = this.#handsBack ? this.#ahead.countFor(this.#concurrency) : 0
    return Math.max(0, this.#concurrency - this.#running.size + ahead - this.#waiting.length)
  }

  get #handsBack(): boolean {
    return this.#options.link.handsBack ?? true
  }

  /** Whether a job that comes while this worker leaves is run: where it cannot go back, that is best for it. */
  get #mayStillRun(): boolean {
    return !this.#handsBack && !this.#isStopping
  }

  #take(lease: LeaseHead, input: Uint8Array): void {
    const ref: LeaseRef = { id: lease.id, lease: lease.lease }
    const held: Held = { lease, input, entry: this.#outbox.hold(ref) }
    if (this.#isDraining && !this.#mayStillRun) return this.#release(held)
    // It came while nothing kept this worker any more.
    this.#lastWords?.clear()
    this.#lastWords = undefined
    this.#options.events.emit('leased', { id: lease.id, attempt: lease.attempt })
    this.#waiting.push(held)
    this.#fill()
  }

  /** Starts what waits while there are free slots. */
  #fill(): void {
    while (this.#running.size < this.#concurrency) {
      const next = this.#waiting.shift()
      if (!next) break
      this.#begin(next)
    }
    if (this.#waiting.length === 0) {
      this.#handBack?.clear()
      this.#handBack = undefined
    } else if (this.#handsBack) {
      // A job in the way of these turns out long: somebody else may run them sooner.
      this.#handBack ??= this.#options.clock.after(this.#ahead.patienceMs, () => {
        this.#handBack = undefined
        this.#ahead.pause()
        this.#handBackWaiting()
      })
    }
  }

  #begin(held: Held): void {
    const { executor, clock } = this.#options
    const { lease, input, entry } = held
    this.#running.set(lease.lease, held)
    const run = executor.run(assignmentOf(lease, input), {
      onStart: () => this.#outbox.started(entry, clock.monotonic()),
      onChunk: (chunk) => {
        this.#outbox.addChunk(entry, chunk)
        this.#loop.nudge()
      },
      onProgress: (progress) => {
        this.#outbox.setProgress(entry, progress)
        this.#loop.nudge()
      },
    })
    held.run = run
    entry.onStored = (bytes) => run.stored(bytes)
    void run.outcome.then((outcome) => this.#ended(held, outcome))
  }

  #ended(held: Held, outcome: Outcome): void {
    const { lease, entry } = held
    this.#running.delete(lease.lease)
    this.#jobs += 1
    this.#ahead.note(outcome.executionMs)
    this.#tellEnd(lease.id, outcome)
    const ended = endedOf(entry.ref, outcome)
    if (ended) this.#outbox.end(entry, ended, outcome.kind === 'completed' ? outcome.output : undefined)
    else if (!entry.isRefused) this.#outbox.drop(lease.lease)
    this.#fill()
    this.#loop.nudge()
    this.#leaveWhenDone()
  }

  #tellEnd(id: string, outcome: Outcome): void {
    const { kind, executionMs } = outcome
    const error = 'error' in outcome ? { code: outcome.error.code, message: outcome.error.message } : {}
    this.#options.events.emit('ended', { id, outcome: kind, executionMs, ...error })
  }

  #stop(lease: string, reason: StopReason): void {
    const waiting = this.#waiting.findIndex((held) => held.lease.lease === lease)
    if (waiting >= 0) this.#waiting.splice(waiting, 1)
    const held = this.#running.get(lease)
    if (!held?.run) return
    this.#options.events.emit('stopping', { id: held.lease.id, reason })
    held.run.abort(reason === 'timeout' ? 'timeout' : reason === 'lease-lost' ? 'lease-lost' : 'cancelled')
  }

  #handBackWaiting(): void {
    for (const held of this.#waiting.splice(0)) this.#release(held)
    this.#loop.nudge()
  }

  #release({ entry }: Held): void {
    this.#outbox.end(entry, { ...entry.ref, outcome: 'released', executionMs: 0 })
  }

  #stopAll(): void {
    this.#isStopping = true
    this.#handBackWaiting()
    for (const { run } of this.#running.values()) run?.abort('shutdown')
    // A queue that does not answer must not keep the worker: what is unsaid then runs again when its lease lapses.
    this.#lastWords ??= this.#options.clock.after(LAST_WORDS_MS, () => this.#leave())
  }

  #leaveWhenDone(): void {
    if (!this.#isDraining || this.#running.size > 0 || this.#outbox.size > 0) return
    if (!this.#loop.isAsking) return this.#leave()
    // The queue is told that nothing is wanted any more; jobs that were on their way are handed back.
    this.#loop.nudge()
    this.#lastWords ??= this.#options.clock.after(LAST_WORDS_MS, () => this.#leave())
  }

  #leave(): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#drainTimer?.clear()
    this.#lastWords?.clear()
    this.#handBack?.clear()
    this.#loop.close()
    this.#options.events.emit('stopped', { jobs: this.#jobs })
    if (this.#failure) this.#left.reject(this.#failure)
    else this.#left.resolve()
  }

  #refused(error: QueueRefusedError): void {
    this.#loop.close()
    this.#left.reject(error)
  }
}

function assignmentOf(lease: LeaseHead, input: Uint8Array): Assignment {
  const { id, attempt, policy, executionTimeoutMs, s3Config, trace, alone } = lease
  const assignment: Assignment = { id, attempt, policy, input }
  if (executionTimeoutMs !== undefined) assignment.executionTimeoutMs = executionTimeoutMs
  if (s3Config) assignment.s3Config = s3Config
  if (trace) assignment.trace = trace
  if (alone) assignment.isAlone = true
  return assignment
}

/** What the queue is told; nothing for a job that it has taken back by itself. */
function endedOf(ref: LeaseRef, outcome: Outcome): Ended | undefined {
  const { executionMs, refresh, isStream } = outcome
  // The outbox knows how many there were, if any.
  const base = { ...ref, executionMs, ...(refresh && { refresh }), ...(isStream && { chunks: 0 }) }
  switch (outcome.kind) {
    case 'completed':
      return { ...base, outcome: 'completed', bytes: outcome.output.byteLength }
    case 'failed':
      return { ...base, outcome: 'failed', error: outcome.error }
    case 'timedOut':
      return { ...base, outcome: 'timedOut', error: outcome.error }
    case 'lost':
      return { ...base, outcome: 'lost', error: outcome.error }
    case 'stopped':
      return outcome.reason === 'shutdown' ? { ...base, outcome: 'released' } : undefined
    default:
      return outcome satisfies never
  }
}
