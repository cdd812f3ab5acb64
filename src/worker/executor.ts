// Takes one lease to one outcome: run it in the handler's process, watch its clock, say how it ended.

import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Clock, Timer } from '../lib/clock.ts'
import { backoffMs } from '../lib/backoff.ts'
import { pause } from '../lib/clock.ts'
import type { Policy, S3Config } from '../job/job.ts'
import type { AbortReason } from './define-handler.ts'
import type { WorkerEvents } from './events.ts'
import { HandlerProcess, removeScratch, type Death } from './handler-process.ts'
import type { FromChild } from './messages.ts'
import { describeDeath, judgeAborted, type Outcome } from './outcome.ts'

export interface ExecutorOptions {
  handlerPath: string
  env: NodeJS.ProcessEnv
  clock: Clock
  events: WorkerEvents
  /** Between the abort of a job's signal and the end of its process, ms. */
  killGraceMs: number
  output: 'lines' | 'stderr'
}

export interface Assignment {
  id: string
  attempt: number
  policy: Policy
  s3Config?: S3Config
  /** JSON text. */
  input: Uint8Array
  /** ms; without it the job may run as long as it likes. */
  executionTimeoutMs?: number
}

export type RunChunk = Omit<Extract<FromChild, { type: 'chunk' }>, 'type' | 'run'> & { output: Uint8Array }

export interface RunListener {
  /** The chunk counts as unsent until `stored` is called with its bytes. */
  onChunk(chunk: RunChunk): void
  onProgress(progress: Uint8Array): void
}

export interface Run {
  readonly outcome: Promise<Outcome>
  /** Aborts the handler's signal, then ends its process after the grace. The first reason counts. */
  abort(reason: AbortReason): void
  stored(bytes: number): void
}

interface ActiveRun {
  number: number
  assignment: Assignment
  listener: RunListener
  process: HandlerProcess
  startedAt: number
  reason?: AbortReason
  deadline?: Timer
  grace?: Timer
  settle(outcome: Outcome): void
}

/** How long an idle process may take to go by itself. */
const LEAVE_MS = 1_000

/** Keeps one handler process alive, and replaces it when it dies. */
export class Executor {
  readonly #options: ExecutorOptions
  readonly #runs = new Map<number, ActiveRun>()
  readonly #scratchRoot = join(tmpdir(), `longshore-${process.pid}`)
  /** Processes of which it is known which job ended them. */
  readonly #culprits = new WeakSet<HandlerProcess>()
  #process: HandlerProcess | undefined
  #starting: Promise<HandlerProcess> | undefined
  #runNumber = 0
  #failedStarts = 0
  /** Every process that has not died, ready or not. */
  readonly #living = new Set<HandlerProcess>()
  readonly #closing = new AbortController()

  constructor(options: ExecutorOptions) {
    this.#options = options
  }

  /** Starts the process and resolves when its handler is ready. Rejects with UnreadyError. */
  async start(): Promise<void> {
    this.#process = await this.#spawn()
  }

  /** Runs one job; waits for a process when there is none. Never rejects. */
  run(assignment: Assignment, listener: RunListener): Run {
    const pending = Promise.withResolvers<Outcome>()
    const handle = this.#process
      ? this.#begin(this.#process, assignment, listener, pending.resolve)
      : this.#beginLater(assignment, listener, pending.resolve)
    return { ...handle, outcome: pending.promise }
  }

  /** Ends the process. Jobs that still run are stopped. */
  async close(): Promise<void> {
    this.#closing.abort()
    const idle = this.#runs.size === 0 ? this.#process : undefined
    this.#process = undefined
    // One that is still loading has nothing to finish, and may never be done with it.
    await Promise.all(
      [...this.#living].map((process) => (process === idle ? process.leave(LEAVE_MS) : process.kill())),
    )
  }

  #begin(
    process: HandlerProcess,
    assignment: Assignment,
    listener: RunListener,
    settle: (outcome: Outcome) => void,
  ): Omit<Run, 'outcome'> {
    const { clock } = this.#options
    const { id, attempt, policy, s3Config, input, executionTimeoutMs } = assignment
    const number = (this.#runNumber += 1)
    const run: ActiveRun = { number, assignment, listener, process, settle, startedAt: clock.monotonic() }
    this.#runs.set(number, run)
    if (executionTimeoutMs !== undefined)
      run.deadline = clock.after(executionTimeoutMs, () => this.#abort(run, 'timeout'))
    const message = {
      type: 'run' as const,
      run: number,
      id,
      attempt,
      policy,
      scratchDir: this.#scratchDirOf(number),
    }
    process.send(s3Config ? { ...message, s3Config } : message, input)
    return {
      abort: (reason) => this.#abort(run, reason),
      stored: (bytes) => run.process.send({ type: 'stored', run: number, bytes }),
    }
  }

  #beginLater(
    assignment: Assignment,
    listener: RunListener,
    settle: (outcome: Outcome) => void,
  ): Omit<Run, 'outcome'> {
    let begun: Omit<Run, 'outcome'> | undefined
    let reason: AbortReason | undefined
    const begin = async (): Promise<void> => {
      const process = await this.#respawn()
      if (reason !== undefined) return
      if (process) begun = this.#begin(process, assignment, listener, settle)
      else settle({ kind: 'stopped', reason: 'shutdown', executionMs: 0 })
    }
    void begin()
    return {
      abort(given) {
        if (begun) return begun.abort(given)
        if (reason !== undefined) return
        // There may never be a process to run it in: its slot is free again at once.
        reason = given
        settle({ kind: 'stopped', reason, executionMs: 0 })
      },
      stored: (bytes) => begun?.stored(bytes),
    }
  }

  #abort(run: ActiveRun, reason: AbortReason): void {
    if (run.reason !== undefined || !this.#runs.has(run.number)) return
    run.reason = reason
    run.deadline?.clear()
    run.process.send({ type: 'abort', run: run.number, reason })
    run.grace = this.#options.clock.after(this.#options.killGraceMs, () => {
      this.#options.events.emit('killing', {
        id: run.assignment.id,
        reason,
        graceMs: this.#options.killGraceMs,
      })
      void run.process.kill()
    })
  }

  async #spawn(): Promise<HandlerProcess> {
    const { handlerPath, env, clock, events, output } = this.#options
    const process: HandlerProcess = new HandlerProcess({
      handlerPath,
      env,
      clock,
      output,
      listener: {
        onMessage: (message, payload) => this.#onMessage(message, payload),
        onLine: (stream, line) => events.emit('line', { stream, line, ids: this.#idsOf(process) }),
      },
    })
    this.#living.add(process)
    void process.died.then((death) => this.#onDeath(process, death))
    await process.ready
    return process
  }

  /** One replacement at a time, with backoff while it does not become ready. */
  async #respawn(): Promise<HandlerProcess | undefined> {
    while (!this.#process && !this.#isClosed) {
      this.#starting ??= this.#spawn()
      try {
        this.#process = await this.#starting
        this.#failedStarts = 0
      } catch (cause) {
        this.#failedStarts += 1
        this.#options.events.emit('unready', { cause, failures: this.#failedStarts })
        if (this.#isClosed) break
        const waitMs = backoffMs(this.#failedStarts, { baseMs: 200, maxMs: 10_000 })
        await pause(this.#options.clock, waitMs, this.#closing.signal)
      } finally {
        this.#starting = undefined
      }
    }
    return this.#process
  }

  #onMessage(message: Extract<FromChild, { run: number }>, payload: Uint8Array): void {
    const run = this.#runs.get(message.run)
    if (!run) return
    switch (message.type) {
      case 'chunk': {
        const { type: _, run: __, ...chunk } = message
        return run.listener.onChunk({ ...chunk, output: payload })
      }
      case 'progress':
        return run.listener.onProgress(payload)
      case 'log':
        this.#options.events.emit('log', { id: run.assignment.id, ...message })
        return
      case 'completed':
        return this.#end(run, { kind: 'completed', output: payload, executionMs: message.executionMs })
      case 'failed':
        if (message.error.code === 'UNCAUGHT' || message.error.code === 'EXITED') this.#dying(run)
        return this.#end(run, { kind: 'failed', error: message.error, executionMs: message.executionMs })
      default:
        message satisfies never
    }
  }

  /** What was aborted first decides, whatever the handler still said. */
  #end(run: ActiveRun, outcome: Outcome): void {
    if (!this.#runs.delete(run.number)) return
    run.deadline?.clear()
    run.grace?.clear()
    const executionMs = Math.round(outcome.executionMs || this.#options.clock.monotonic() - run.startedAt)
    const { reason, assignment } = run
    const limits = {
      executionTimeoutMs: assignment.executionTimeoutMs,
      killGraceMs: this.#options.killGraceMs,
    }
    run.settle({ ...(reason === undefined ? outcome : judgeAborted(reason, outcome, limits)), executionMs })
  }

  /** This job's code is ending its process: the next job must not begin there. */
  #dying(run: ActiveRun): void {
    const { process } = run
    this.#culprits.add(process)
    void removeScratch(this.#scratchDirOf(run.number))
    const insist = this.#options.clock.after(LEAVE_MS, () => void process.kill())
    void process.died.then(() => insist.clear())
    if (this.#process !== process) return
    this.#process = undefined
    void this.#respawn()
  }

  #onDeath(process: HandlerProcess, death: Death): void {
    this.#living.delete(process)
    if (this.#process === process) {
      this.#process = undefined
      if (!this.#isClosed) void this.#respawn()
    }
    const lost = [...this.#runs.values()].filter((run) => run.process === process)
    if (lost.length > 0 || !(death.wasKilled || this.#isClosed)) {
      this.#options.events.emit('died', { ...death, ids: lost.map((run) => run.assignment.id) })
    }
    for (const run of lost) {
      void removeScratch(this.#scratchDirOf(run.number))
      // A job goes back when its neighbour was ended or brought the process down; else the death is its own.
      const isNeighbours = death.wasKilled || this.#culprits.has(process)
      const outcome: Outcome = isNeighbours
        ? { kind: 'stopped', reason: 'shutdown', executionMs: 0 }
        : { kind: 'failed', error: describeDeath(death, lost.length), executionMs: 0 }
      this.#end(run, outcome)
    }
  }

  #scratchDirOf(run: number): string {
    return `${this.#scratchRoot}-${run}`
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted
  }

  #idsOf(process: HandlerProcess): string[] {
    return [...this.#runs.values()].filter((run) => run.process === process).map((run) => run.assignment.id)
  }
}
