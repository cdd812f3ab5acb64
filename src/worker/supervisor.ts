// Keeps as many handler processes as there should be, and a spare: starts, watches, recycles and replaces them.

import { backoffMs } from '../lib/backoff.ts'
import { pause, type Clock } from '../lib/clock.ts'
import type { WorkerEvents } from './events.ts'
import type { Death } from './death.ts'
import { diedBefore } from './failed-start.ts'
import { HandlerProcess, type ProcessMessage } from './handler-process.ts'
import type { HandlerFacts, Stall } from './messages.ts'
import type { OutputLine } from './output-lines.ts'
import { countMissing, seatOf, type Seat } from './seat.ts'

/** What stands ready for the next process: nothing, our runtime alone, or the author's file as well, set up. */
export type Spare = 'none' | 'bare' | 'warm'

export interface SupervisorOptions {
  handlerPath: string
  env: NodeJS.ProcessEnv
  clock: Clock
  events: WorkerEvents
  output: 'lines' | 'stderr'
  /** How many processes share the jobs. */
  executors: number
  spare: Spare
  importTimeoutMs: number
  setupTimeoutMs: number
  /** After so many jobs a process is replaced. */
  maxJobsPerExecutor?: number
  /** A process that has more resident memory after a job is replaced, MB. */
  maxMemoryMb?: number
  /** Replaces secrets in what processes print. */
  mask: (text: string) => string
  listener: SupervisorListener
}

/** What the end of a run brings with it. */
export interface AfterRun {
  /** The next job is to begin in a fresh process. */
  refresh?: boolean | undefined
  rssBytes?: number | undefined
  /** The run made its scratch folder. */
  scratch?: boolean | undefined
}

export interface SupervisorListener {
  /** A process has become ready. */
  onReady(): void
  onMessage(seat: Seat, message: ProcessMessage, payload: Uint8Array): void
  onLine(seat: Seat, stream: 'stdout' | 'stderr', line: OutputLine): void
  onStall(seat: Seat, stall: Stall): void
  onDeath(seat: Seat, death: Death): void
}

/** How long an idle process may take to go by itself. */
const LEAVE_MS = 1_000
/** And when the worker itself is leaving. */
const CLOSE_MS = 100
/** So many starts in a row may fail before it is taken for hopeless. */
const MAX_FAILED_STARTS = 5
/** So many warm spares in a row may fail before a bare one has to do. */
const MAX_FAILED_SPARES = 3
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
  #spare: HandlerProcess | undefined
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
  /** A spare is a convenience: what goes wrong with it is counted, and waited for, apart. */
  #failedSpares = 0
  #isSpareBackingOff = false

  constructor(options: SupervisorOptions) {
    this.#options = options
    this.#first.promise.catch(() => undefined)
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
    return this.#spare?.isUp ?? false
  }

  get processes(): number {
    return this.#living.size
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
    if (this.#spare) mayLeave.add(this.#spare)
    await Promise.all(
      // One that is still loading has nothing to finish, and may never be done with it.
      [...this.#living].map((process) => (mayLeave.has(process) ? process.leave(CLOSE_MS) : process.kill())),
    )
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  #ensure(): void {
    if (this.#isClosed || this.#isBackingOff) return
    for (let missing = this.#missing; missing > 0; missing -= 1) this.#seat()
    // A spare is made when nobody waits for a process any more.
    const isLoading = [...this.#seats].some(({ state }) => state === 'loading')
    if (!this.#spare && !isLoading) this.#makeSpare()
  }

  get #missing(): number {
    const staff = {
      executors: this.#options.executors,
      needed: this.#needed,
      isOnePerJob: this.#facts?.refresh ?? false,
    }
    return countMissing([...this.#seats], staff)
  }

  #makeSpare(): void {
    const { spare: kind } = this.#options
    if (kind === 'none' || this.#isSpareBackingOff) return
    const spare = this.#spawn()
    this.#spare = spare
    if (kind === 'warm' && this.#failedSpares < MAX_FAILED_SPARES)
      spare.load().catch((cause: unknown) => this.#spareFailed(spare, cause as Error))
  }

  /** No job and no seat waits for it: it is made again after a while of its own, bare when it fails too often. */
  #spareFailed(spare: HandlerProcess, cause: Error): void {
    if (this.#spare !== spare) return
    this.#spare = undefined
    void spare.kill()
    void this.#spareIsGone(cause)
  }

  async #spareIsGone(cause: Error): Promise<void> {
    if (this.#isClosed) return
    this.#failedSpares += 1
    this.#options.events.emit('unready', { cause, failures: this.#failedSpares, isSpare: true })
    if (this.#isSpareBackingOff) return
    this.#isSpareBackingOff = true
    await pause(this.#options.clock, backoffMs(this.#failedSpares, BACKOFF), this.#closing.signal)
    this.#isSpareBackingOff = false
    this.#ensure()
  }

  #seat(): void {
    const spare = this.#spare
    this.#spare = undefined
    const process = spare ?? this.#spawn()
    const seat = seatOf(process, {
      wasSpare: spare?.isLoading ?? false,
      wasBeside: this.#leaving.length > 0,
      round: this.#round,
    })
    this.#seats.add(seat)
    const { listener } = this.#options
    process.listen({
      onMessage: (message, payload) => listener.onMessage(seat, message, payload),
      onLine: (stream, line) => listener.onLine(seat, stream, line),
      onStall: (stall) => listener.onStall(seat, stall),
      onDeaf: () => this.#onDeaf(seat),
    })
    void this.#load(seat)
  }

  async #load(seat: Seat): Promise<void> {
    try {
      this.#facts = await seat.process.load()
    } catch (cause) {
      this.#seats.delete(seat)
      void seat.process.kill()
      // Its setup() ran while a process that it replaces still had the port or the device: that says nothing yet.
      if (seat.wasSpare && !this.#isClosed) {
        void this.#spareIsGone(cause as Error)
        return this.#ensure()
      }
      if (seat.wasBeside || this.#leaving.length > 0) return this.#startFailedBeside(cause as Error)
      return this.#startFailed(seat, cause as Error)
    }
    seat.readyAt = this.#options.clock.monotonic()
    if (seat.state === 'loading') seat.state = 'ready'
    this.#failedSpares = 0
    this.#failedBeside = 0
    this.#first.resolve()
    this.#options.listener.onReady()
    this.#dismissSurplus(seat)
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
      return this.#hopeless.resolve(cause)
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
    const { handlerPath, env, clock, output, importTimeoutMs, setupTimeoutMs, maxMemoryMb, mask } =
      this.#options
    const process = new HandlerProcess({
      handlerPath,
      env,
      clock,
      output,
      importTimeoutMs,
      setupTimeoutMs,
      reportsMemory: maxMemoryMb !== undefined,
      mask,
    })
    this.#living.add(process)
    void process.died.then((death) => this.#onDeath(process, death))
    return process
  }

  #onDeath(process: HandlerProcess, death: Death): void {
    this.#living.delete(process)
    if (this.#spare === process) return this.#spareFailed(process, diedBefore('it was needed', death))
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
