// Takes one lease to one outcome: run it in a handler's process, watch its clock, say how it ended.

import { pause, type Timer } from '../lib/clock.ts'
import type { AbortReason } from './define-handler.ts'
import type { WorkerEvents } from './events.ts'
import type { ProcessMessage } from './handler-process.ts'
import type { FromChild, HandlerFacts, RunMessage, Stall } from './messages.ts'
import type { JobError } from '../job/job.ts'
import { withLastLines, type Death } from './death.ts'
import { readS3Environment } from '../s3/config.ts'
import { Masker } from './mask.ts'
import { judgeAborted, judgeDeath, saidAtEnd, type Outcome } from './outcome.ts'
import type { OutputLine } from './output-lines.ts'
import type { Assignment, Run, RunListener } from './run.ts'
import { ScratchFolders } from './scratch.ts'
import type { Seat } from './seat.ts'
import { Supervisor, type AfterRun } from './supervisor.ts'
import type { SupervisorOptions } from './supervisor-options.ts'

/** What a command line sets. */
export type ExecutorSettings = Omit<ExecutorOptions, 'handlerPath' | 'env' | 'clock' | 'events' | 'output'>

export interface ExecutorOptions extends Omit<SupervisorOptions, 'listener' | 'mask'> {
  events: WorkerEvents
  /** Between the abort of a job's signal and the end of its process, ms. */
  killGraceMs: number
}

interface ActiveRun {
  readonly number: number
  readonly assignment: Assignment
  readonly listener: RunListener
  readonly settle: (outcome: Outcome) => void
  /** Where it runs; none while it waits for a process. */
  seat?: Seat
  startedAt: number
  reason?: AbortReason
  deadline?: Timer
  grace?: Timer
  hasStreamed?: boolean
  /** That it blocks its process was told. */
  isStallTold?: boolean
}

/** A process that is dying by an accident gets so long to say its last words. */
const LAST_WORDS_MS = 1_000
/** A worker that leaves has a second in all. */
const SHUTDOWN_GRACE_MS = 400
const REMEMBERED_RUNS = 256
/** What its processes printed last may still be on its way when they say that they die. */
const LAST_LINES_MS = 15
/** How long the last folders may take to be removed. */
const TIDY_MS = 200

export class Executor {
  readonly #options: ExecutorOptions
  readonly #supervisor: Supervisor
  /** Runs that have not ended. */
  readonly #runs = new Map<number, ActiveRun>()
  /** Those of them that wait for a process, in the order in which they will begin. */
  #waiting: ActiveRun[] = []
  /** Ids of the latest that have. */
  readonly #ended = new Map<number, string>()
  readonly #scratch = new ScratchFolders()
  readonly #masker: Masker
  #runNumber = 0
  #isClosed = false

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#masker = new Masker(readS3Environment(options.env).bucket)
    this.#supervisor = new Supervisor({
      ...options,
      mask: this.#masker.mask,
      listener: {
        onReady: () => this.#place(),
        onMessage: (seat, message, payload) => this.#onMessage(seat, message, payload),
        onLine: (seat, stream, line) => this.#onLine(seat, stream, line),
        onStall: (seat, stall) => this.#onStall(seat, stall),
        onDeath: (seat, death) => this.#onDeath(seat, death),
      },
    })
  }

  /** Starts the processes and resolves when the first has its handler ready. Rejects with UnreadyError. */
  start(): Promise<void> {
    return this.#supervisor.start()
  }

  /** Resolves with the reason once the handler cannot be got ready any more. */
  get hopeless(): Promise<Error> {
    return this.#supervisor.hopeless
  }

  /** Loads the handler anew beside the one that serves, which is given up once the new one is ready. */
  reload(): void {
    this.#supervisor.reload()
  }

  /** Runs that go on in processes of before the last reload. */
  get outdatedRuns(): number {
    return this.#supervisor.outdatedRuns
  }

  get facts(): HandlerFacts | undefined {
    return this.#supervisor.facts
  }

  /** How many processes there are: ready, loading, leaving and spare. */
  get processes(): number {
    return this.#supervisor.processes
  }

  get hasSpare(): boolean {
    return this.#supervisor.hasSpare
  }

  get readyProcesses(): number {
    return this.#supervisor.ready.length
  }

  /** Runs one job; waits for a process when there is none. Never rejects. */
  run(assignment: Assignment, listener: RunListener): Run {
    const { promise, resolve } = Promise.withResolvers<Outcome>()
    const number = (this.#runNumber += 1)
    const run: ActiveRun = { number, assignment, listener, settle: resolve, startedAt: 0 }
    this.#runs.set(number, run)
    if (this.#isClosed) this.#end(run, { kind: 'stopped', reason: 'shutdown', executionMs: 0 })
    else {
      this.#waiting.push(run)
      this.#place()
    }
    return {
      outcome: promise,
      abort: (reason) => this.#abort(run, reason),
      stored: (bytes) => run.seat?.process.send({ type: 'stored', run: number, bytes }),
    }
  }

  /** Asks the definition how many jobs should run at a time; the answer comes as the event `resized`. */
  askConcurrency(current: number): void {
    this.#supervisor.ready[0]?.process.send({ type: 'resize', current })
  }

  /** Ends the processes. Jobs that still run are stopped. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const run of this.#waiting.slice())
      this.#end(run, { kind: 'stopped', reason: 'shutdown', executionMs: 0 })
    await this.#supervisor.close()
    await Promise.race([this.#scratch.removed, pause(this.#options.clock, TIDY_MS)])
  }

  /** Begins what waits, in order, wherever there is a process for it. */
  #place(): void {
    // Counted anew below: what begins now waits no more.
    this.#supervisor.need(0)
    if (this.#waiting.length === 0) return
    // Kept free for a job that must be alone, until those that run there have ended.
    const reserved = new Set<Seat>()
    const waiting = this.#waiting
    this.#waiting = []
    for (const run of waiting) {
      const seat = this.#freest(reserved)
      if (seat && !(run.assignment.isAlone && seat.runs.size > 0)) {
        this.#begin(run, seat)
        continue
      }
      if (seat) reserved.add(seat)
      this.#waiting.push(run)
    }
    this.#supervisor.need(this.#waiting.length - reserved.size)
  }

  #freest(reserved: ReadonlySet<Seat>): Seat | undefined {
    let freest: Seat | undefined
    for (const seat of this.#supervisor.ready) {
      if (seat.isExclusive || reserved.has(seat)) continue
      if (!freest || seat.runs.size < freest.runs.size) freest = seat
    }
    return freest
  }

  #begin(run: ActiveRun, seat: Seat): void {
    const { clock } = this.#options
    const {
      id,
      attempt,
      policy,
      s3Config,
      trace,
      input,
      executionTimeoutMs,
      isAlone = false,
    } = run.assignment
    this.#masker.learn(run.number, s3Config)
    run.seat = seat
    run.startedAt = clock.monotonic()
    if (executionTimeoutMs !== undefined) {
      run.deadline = clock.after(executionTimeoutMs, () => this.#abort(run, 'timeout'))
    }
    this.#supervisor.begin(seat, run.number, isAlone)
    const scratchDir = this.#scratch.pathOf(run.number)
    const message = { type: 'run' as const, run: run.number, id, attempt, policy, scratchDir }
    seat.process.send({ ...message, ...(s3Config && { s3Config }), ...(trace && { trace }) }, input)
    run.listener.onStart()
  }

  #abort(run: ActiveRun, reason: AbortReason): void {
    if (run.reason !== undefined || !this.#runs.has(run.number)) return
    run.reason = reason
    run.deadline?.clear()
    const { seat } = run
    if (!seat) return this.#end(run, { kind: 'stopped', reason, executionMs: 0 })
    seat.process.send({ type: 'abort', run: run.number, reason })
    const { clock, events, killGraceMs } = this.#options
    const graceMs = reason === 'shutdown' ? Math.min(killGraceMs, SHUTDOWN_GRACE_MS) : killGraceMs
    run.grace = clock.after(graceMs, () => {
      events.emit('killing', { id: run.assignment.id, reason, graceMs })
      void this.#supervisor.kill(seat)
    })
  }

  #onMessage(seat: Seat, message: ProcessMessage, payload: Uint8Array): void {
    const { events } = this.#options
    if (message.type === 'resized') return void events.emit('resized', message)
    if (message.type === 'file') return void events.emit('file', message.file)
    if (message.type === 'dying') return this.#onAccident(seat, message)
    const run = this.#runs.get(message.run)
    if (run?.seat === seat) this.#onRunMessage(run, message, payload)
  }

  #onRunMessage(run: ActiveRun, message: RunMessage, payload: Uint8Array): void {
    switch (message.type) {
      case 'chunk': {
        const { type: _, run: __, ...chunk } = message
        run.hasStreamed = true
        return run.listener.onChunk({ ...chunk, output: payload })
      }
      case 'progress':
        return run.listener.onProgress(payload)
      case 'log':
        return void this.#options.events.emit('log', { id: run.assignment.id, ...message })
      case 'completed':
        return this.#end(run, { kind: 'completed', output: payload, ...saidAtEnd(message) }, message)
      case 'failed':
        return this.#end(run, { kind: 'failed', error: message.error, ...saidAtEnd(message) }, message)
      default:
        message satisfies never
    }
  }

  /** Some code is ending its process: the next job must not begin there, and whose code it was decides who fails. */
  #onAccident(seat: Seat, { run: number, error }: Extract<FromChild, { type: 'dying' }>): void {
    const { clock } = this.#options
    if (number === undefined) this.#supervisor.doom(seat)
    else this.#supervisor.retire(seat)
    const insist = clock.after(LAST_WORDS_MS, () => void this.#supervisor.kill(seat))
    void seat.process.died.then(() => insist.clear())
    if (number === undefined) return
    seat.culprit ??= number
    const run = this.#runs.get(number)
    if (run?.seat === seat) void this.#failByAccident(run, seat, error)
    else this.#options.events.emit('accident', { error, ids: this.#idsIn(seat) })
  }

  async #failByAccident(run: ActiveRun, seat: Seat, error: JobError): Promise<void> {
    await Promise.race([seat.process.died, pause(this.#options.clock, LAST_LINES_MS)])
    this.#fail(run, withLastLines(error, seat.process.lastLines, run))
  }

  /** Whoever reads the stream learns of the death there, as of an error that was thrown. */
  #fail(run: ActiveRun, error: JobError): void {
    if (!this.#runs.has(run.number)) return
    const { type, message, code } = error
    if (run.hasStreamed && run.reason === undefined) {
      run.listener.onChunk({ output: Buffer.from(JSON.stringify({ error: { type, message, code } })) })
    }
    this.#end(run, { kind: 'failed', error, executionMs: 0 })
  }

  #onDeath(seat: Seat, death: Death): void {
    const lost = [...this.#runs.values()].filter((run) => run.seat === seat)
    const isExpected = death.wasKilled || seat.mayLeave || this.#isClosed
    if (lost.length > 0 || death.accident || !isExpected) {
      const { exitCode, signal, wasKilled } = death
      const lastLines = death.lastLines.map(({ line }) => line)
      this.#options.events.emit('died', {
        exitCode,
        signal,
        wasKilled,
        lastLines,
        ids: lost.map((run) => run.assignment.id),
      })
    }
    // It could not tidy up after its jobs any more.
    const runs = new Set(lost.map(({ number }) => number))
    if (seat.culprit !== undefined) runs.add(seat.culprit)
    for (const run of runs) this.#scratch.remove(run)
    for (const run of lost) {
      const isCulprit = seat.culprit === run.number
      const outcome = judgeDeath(death, {
        printer: run,
        jobs: isCulprit ? 1 : lost.length,
        isCulprit,
        isAnothers: seat.culprit !== undefined && !isCulprit,
      })
      if (outcome.kind === 'failed') this.#fail(run, outcome.error)
      else this.#end(run, outcome)
    }
  }

  #onLine(seat: Seat, stream: 'stdout' | 'stderr', { line, run: number }: OutputLine): void {
    // A job that has ended may still print; what nobody's code printed is all that is left to guess about.
    const own =
      number === undefined ? undefined : (this.#runs.get(number)?.assignment.id ?? this.#ended.get(number))
    const ids = own === undefined ? (number === undefined ? this.#idsIn(seat) : []) : [own]
    this.#options.events.emit('line', { stream, line, ids })
  }

  #onStall(seat: Seat, stall: Stall): void {
    const untold = [...this.#runs.values()].filter((run) => run.seat === seat && !run.isStallTold)
    if (untold.length === 0) return
    for (const run of untold) run.isStallTold = true
    this.#options.events.emit('stalled', { ...stall, ids: untold.map((run) => run.assignment.id) })
  }

  /** What was aborted first decides, whatever the handler still said. */
  #end(run: ActiveRun, outcome: Outcome, after?: AfterRun): void {
    if (!this.#runs.delete(run.number)) return
    this.#masker.forget(run.number)
    this.#remember(run)
    if (!run.seat) this.#waiting = this.#waiting.filter((waiting) => waiting !== run)
    run.deadline?.clear()
    run.grace?.clear()
    const { clock, killGraceMs } = this.#options
    const { reason, seat, assignment, startedAt } = run
    const ranMs = seat ? clock.monotonic() - startedAt : 0
    const { executionTimeoutMs } = assignment
    const judged =
      reason === undefined ? outcome : judgeAborted(reason, outcome, { executionTimeoutMs, killGraceMs })
    // The child measures the handler alone; a limit was kept by the clock here, which is also the most that can be true.
    const handlerMs = Math.min(outcome.executionMs || ranMs, ranMs)
    const executionMs = Math.round(judged.kind === 'timedOut' ? ranMs : handlerMs)
    if (after?.scratch) this.#scratch.remove(run.number)
    if (seat) this.#supervisor.end(seat, run.number, after)
    run.settle({ ...judged, executionMs, ...((after?.refresh || this.facts?.refresh) && { refresh: true }) })
    this.#place()
  }

  #remember({ number, assignment }: ActiveRun): void {
    this.#ended.set(number, assignment.id)
    const [oldest] = this.#ended.keys()
    if (this.#ended.size > REMEMBERED_RUNS && oldest !== undefined) this.#ended.delete(oldest)
  }

  #idsIn(seat: Seat): string[] {
    return [...seat.runs].flatMap((number) => this.#runs.get(number)?.assignment.id ?? [])
  }
}
