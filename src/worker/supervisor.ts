// Keeps as many handler processes as there should be, and a spare: starts, watches, recycles and replaces them.

import { backoffMs } from '../lib/backoff.ts'
import { pause } from '../lib/clock.ts'
import type { Death } from './death.ts'
import { diedBefore } from './failed-start.ts'
import { HandlerProcess, type Readiness } from './handler-process.ts'
import type { HandlerFacts } from './messages.ts'
import { countMissing, seatOf, type Seat } from './seat.ts'
import { Spare } from './spare.ts'
import type { SupervisorOptions } from './supervisor-options.ts'

/** What the end of a run brings with it. */
export interface AfterRun {
  /** The next job is to begin in a fresh process. */
  refresh?: boolean | undefined
  rssBytes?: number | undefined
  /** The run made its scratch folder. */
  scratch?: boolean | undefined
}

/** How long an idle process may take to go by itself. */
const LEAVE_MS = 1_000
/** And when the worker itself is leaving. */
const CLOSE_MS = 100
/** So many starts in a row may fail before it is taken for hopeless. */
const MAX_FAILED_STARTS = 5
/** A process that lived so long was no failed start, however it ended. */
const STEADY_MS = 10_000
const BACKOFF = { baseMs: 200, maxMs: 10_000 }
const MB = 1_000_000

export class Supervisor {
  readonly #options: SupervisorOptions
  readonly #seats = new Set<Seat>()
  readonly #closing = new AbortController()
  readonly #first = Promise.withResolvers<void>()
  readonly #hopeless = Promise.withResolvers<Error>()
  /** Every process that has not died, whatever it is for. */
  readonly #living = new Set<HandlerProcess>()
  readonly #spare: Spare
  #facts: HandlerFacts | undefined
  /** Jobs that wait and that no process can take. */
  #needed = 0
  /** Since a job last ended by itself. */
  #failedStarts = 0
  /** All processes that were started since the last failure that counted are one try, however many of them fail. */
  #round = 0
  /** In a row, beside a process that was still there: they say nothing about the handler. */
  #failedBeside = 0
  #isBackingOff = false
  /** The handler cannot be loaded as it is: nothing is started before a reload. */
  #isUnmended = false

  constructor(options: SupervisorOptions) {
    this.#options = options
    this.#first.promise.catch(() => undefined)
    this.#spare = new Spare({
      kind: options.spare,
      clock: options.clock,
      events: options.events,
      backoff: BACKOFF,
      closing: this.#closing.signal,
      spawn: () => this.#spawn(),
      onRested: () => this.#ensure(),
    })
  }

  /** Starts the processes. Resolves when the first is ready; rejects with UnreadyError when it cannot be. */
  start(): Promise<void> {
    this.#ensure()
    return this.#first.promise
  }

  /** Resolves with the reason once no process can be started any more. */
  get hopeless(): Promise<Error> {
    return this.#hopeless.promise
  }

  /** What the definition says; known once a process was ready. */
  get facts(): HandlerFacts | undefined {
    return this.#facts
  }

  /** Processes that may take jobs. */
  get ready(): Seat[] {
    return [...this.#seats].filter(({ state }) => state === 'ready')
  }

  /** Whether a spare process stands ready. */
  get hasSpare(): boolean {
    return this.#spare.process?.isUp ?? false
  }

  get processes(): number {
    return this.#living.size
  }

  /** Runs that go on in processes of before the last reload. */
  get outdatedRuns(): number {
    return [...this.#seats].reduce((sum, { isOutdated, runs }) => sum + (isOutdated ? runs.size : 0), 0)
  }

  /**
   * Loads the handler anew in a fresh process. Once that is ready it takes the place of those before, which end with their
   * last jobs; when it fails, they stay. Either is told by an event, `loaded` or `unready`; a reload meanwhile counts instead.
   */
  reload(): void {
    if (this.#isClosed) return
    this.#isUnmended = false
    this.#failedStarts = 0
    this.#spare.discardLoaded()
    for (const seat of this.#seats) if (seat.state === 'loading') this.#abandon(seat)
    this.#seat({ isSuccessor: true })
  }

  begin(seat: Seat, run: number, isExclusive: boolean): void {
    seat.runs.add(run)
    seat.begun += 1
    seat.isExclusive ||= isExclusive
    seat.process.watch(run)
    const { maxJobsPerExecutor } = this.#options
    const isLast = maxJobsPerExecutor !== undefined && seat.begun >= maxJobsPerExecutor
    if (isLast || this.#facts?.refresh) seat.state = 'retiring'
  }

  /** So many jobs wait that no process can take: those that take no more have their successors now. */
  need(jobs: number): void {
    this.#needed = jobs
    if (jobs > 0) this.#ensure()
  }

  /** A run has ended there, by itself if there is something `after` it; a process that is to be replaced goes with its last. */
  end(seat: Seat, run: number, after?: AfterRun): void {
    seat.runs.delete(run)
    if (after) this.#failedStarts = 0
    if (seat.runs.size === 0) {
      seat.isExclusive = false
      seat.process.watch(undefined)
    }
    const { maxMemoryMb } = this.#options
    const isTooLarge = maxMemoryMb !== undefined && (after?.rssBytes ?? 0) > maxMemoryMb * MB
    if (after?.refresh || this.#facts?.refresh || isTooLarge) seat.state = 'retiring'
    if (seat.state !== 'retiring' || seat.runs.size > 0) return
    this.#ensure()
    this.#leaveWhenEmpty(seat)
  }

  /** It is ending by itself: gives it no more jobs, and has another take its place at once. */
  retire(seat: Seat): void {
    seat.state = 'retiring'
    seat.isGoing = true
    this.#ensure()
    this.#leaveWhenEmpty(seat)
  }

  /** An error that is no job's doing is ending it. What comes in its place may fare the same, and waits for its end. */
  doom(seat: Seat): void {
    seat.state = 'retiring'
    seat.isDoomed = true
  }

  /** Ends it with all that runs there; another takes its place at once. */
  kill(seat: Seat): Promise<Death> {
    seat.state = 'retiring'
    seat.isGoing = true
    this.#ensure()
    return seat.process.kill()
  }

  /** Ends every process: idle ones may go by themselves, the others are ended with their jobs. */
  async close(): Promise<void> {
    this.#closing.abort()
    const idle = new Set([...this.#seats].filter(({ state, runs }) => state === 'ready' && runs.size === 0))
    const mayLeave = new Set([...idle].map(({ process }) => process))
    if (this.#spare.process) mayLeave.add(this.#spare.process)
    await Promise.all(
      // One that is still loading has nothing to finish, and may never be done with it.
      [...this.#living].map((process) => (mayLeave.has(process) ? process.leave(CLOSE_MS) : process.kill())),
    )
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  #ensure(): void {
    if (this.#isClosed || this.#isBackingOff || this.#isUnmended) return
    for (let missing = this.#missing; missing > 0; missing -= 1) this.#seat()
    // A spare is made when nobody waits for a process any more.
    const isLoading = [...this.#seats].some(({ state }) => state === 'loading')
    if (!isLoading) this.#spare.make()
  }

  get #missing(): number {
    const staff = {
      executors: this.#options.executors,
      needed: this.#needed,
      isOnePerJob: this.#facts?.refresh ?? false,
    }
    return countMissing([...this.#seats], staff)
  }

  #seat({ isSuccessor = false } = {}): void {
    const spare = this.#spare.take()
    const process = spare ?? this.#spawn()
    const seat = seatOf(process, {
      wasSpare: spare?.isLoading ?? false,
      wasBeside: this.#leaving.length > 0,
      isSuccessor,
      round: this.#round,
    })
    this.#seats.add(seat)
    const { listener } = this.#options
    process.listen({
      onMessage: (message, payload) => listener.onMessage(seat, message, payload),
      onLine: (stream, line) => listener.onLine(seat, stream, line),
      onStall: (stall) => listener.onStall(seat, stall),
      onDeaf: () => this.#onDeaf(seat),
      onSlow: (load) => {
        if (this.#seats.has(seat)) this.#options.events.emit('slow', load)
      },
    })
    void this.#load(seat)
  }

  async #load(seat: Seat): Promise<void> {
    let readiness: Readiness
    try {
      readiness = await seat.process.load()
    } catch (cause) {
      if (!this.#seats.has(seat)) return
      this.#abandon(seat)
      if (this.#options.isInDevelopment) return this.#waitForMend(seat, cause as Error)
      // Its setup() ran while a process that it replaces still had the port or the device: that says nothing yet.
      if (seat.wasSpare && !this.#isClosed) {
        void this.#spare.failed(cause)
        return this.#ensure()
      }
      if (seat.wasBeside || this.#leaving.length > 0) return this.#startFailedBeside(cause as Error)
      return this.#startFailed(seat, cause as Error)
    }
    if (!this.#seats.has(seat)) return
    this.#facts = readiness.facts
    seat.readyAt = this.#options.clock.monotonic()
    if (seat.isSuccessor) this.#outdate(seat)
    if (seat.state === 'loading') seat.state = 'ready'
    this.#spare.forgive()
    this.#failedBeside = 0
    this.#first.resolve()
    this.#options.events.emit('loaded', readiness.start)
    this.#options.listener.onReady()
    this.#dismissSurplus(seat)
    this.#ensure()
  }

  /** It never got ready, and is wanted no more. */
  #abandon(seat: Seat): void {
    this.#seats.delete(seat)
    void seat.process.kill()
  }

  /** Those before it take no more jobs: they end with those that they have. */
  #outdate(successor: Seat): void {
    for (const seat of this.#seats) {
      if (seat === successor || seat.state === 'loading') continue
      seat.isOutdated = true
      seat.state = 'retiring'
      this.#leaveWhenEmpty(seat)
    }
  }

  /** Trying again is of no use before somebody has edited a file. */
  #waitForMend({ isSuccessor }: Seat, cause: Error): void {
    if (this.#isClosed) return
    this.#isUnmended = !isSuccessor || this.ready.length === 0
    this.#options.events.emit('unready', { cause, failures: 1 })
    this.#first.reject(cause)
    this.#ensure()
  }

  /** The job that it was loaded for has gone elsewhere, or is wanted no more. */
  #dismissSurplus(seat: Seat): void {
    if (seat.state !== 'ready' || seat.runs.size > 0 || this.ready.length <= this.#options.executors) return
    seat.state = 'retiring'
    this.#leaveWhenEmpty(seat)
  }

  async #startFailed({ round }: Seat, cause: Error): Promise<void> {
    if (this.#isClosed) return
    if (round === this.#round) {
      this.#failedStarts += 1
      this.#round += 1
    }
    this.#options.events.emit('unready', { cause, failures: this.#failedStarts })
    this.#first.reject(cause)
    if (this.#failedStarts >= MAX_FAILED_STARTS && this.ready.length === 0) {
      if (!this.#options.isInDevelopment) return this.#hopeless.resolve(cause)
      this.#isUnmended = true
    }
    await this.#backOff(this.#failedStarts)
  }

  /** The next one is loaded when those have ended that it was loaded beside. */
  async #startFailedBeside(cause: Error): Promise<void> {
    if (this.#isClosed) return
    this.#failedBeside += 1
    for (const seat of this.#leaving) seat.isAwaited = true
    this.#options.events.emit('unready', { cause, failures: this.#failedBeside, isBeside: true })
    // Those may be gone already, or others may have places to fill.
    await this.#backOff(this.#failedBeside)
  }

  /** Processes that take no more jobs and have not ended. */
  get #leaving(): Seat[] {
    return [...this.#seats].filter(({ state }) => state === 'retiring')
  }

  async #backOff(failures: number): Promise<void> {
    if (this.#isBackingOff) return
    this.#isBackingOff = true
    await pause(this.#options.clock, backoffMs(failures, BACKOFF), this.#closing.signal)
    this.#isBackingOff = false
    this.#ensure()
  }

  #spawn(): HandlerProcess {
    const { maxMemoryMb, isInDevelopment = false } = this.#options
    const process = new HandlerProcess({
      ...this.#options,
      reportsMemory: maxMemoryMb !== undefined,
      reportsFiles: isInDevelopment,
    })
    this.#living.add(process)
    void process.died.then((death) => this.#onDeath(process, death))
    return process
  }

  #onDeath(process: HandlerProcess, death: Death): void {
    this.#living.delete(process)
    if (this.#spare.process === process) return this.#spare.lost(process, diedBefore('it was needed', death))
    const seat = [...this.#seats].find((one) => one.process === process)
    if (!seat) return
    const wasLoading = seat.state === 'loading'
    const wasIdle = seat.runs.size === 0
    this.#seats.delete(seat)
    if (wasLoading) return
    this.#options.listener.onDeath(seat, death)
    // It came to nothing without any job's doing, and so may the next one.
    const isAccident = wasIdle && seat.culprit === undefined && !seat.mayLeave && !death.wasKilled
    if (!seat.isDoomed && !isAccident) return this.#ensure()
    if (this.#options.clock.monotonic() - seat.readyAt > STEADY_MS) this.#failedStarts = 0
    void this.#startFailed(seat, diedBefore('a job ended in it', death))
  }

  /** No job must be given to it any more, and it will be gone by itself. */
  #onDeaf(seat: Seat): void {
    if (seat.state !== 'ready') return
    seat.state = 'retiring'
    seat.isGoing = true
    if (seat.begun > 0) this.#ensure()
  }

  #leaveWhenEmpty(seat: Seat): void {
    if (seat.state !== 'retiring' || seat.runs.size > 0) return
    seat.mayLeave = true
    void seat.process.leave(LEAVE_MS)
  }
}
