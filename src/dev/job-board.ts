// Shows each job as a line while it runs, and once more when it has ended.

import type { JobError } from '../job/job.ts'
import type { JobStatus } from '../job/lifecycle.ts'
import type { Clock, Timer } from '../lib/clock.ts'
import type { Executor } from '../worker/executor.ts'
import type { Outcome } from '../worker/outcome.ts'
import type { Assignment, Run, RunChunk, RunListener } from '../worker/run.ts'
import { jobLine, stateAfter, type ShownJob } from './job-line.ts'
import { tamed, type Screen, type Style } from './screen.ts'

export interface JobBoardOptions {
  executor: Pick<Executor, 'run'>
  screen: Screen
  clock: Clock
  /** The line of the author's code that an error came from, with its place. */
  frameOf: (error: JobError) => string | undefined
}

interface Entry {
  readonly assignment: Assignment
  beganAt?: number
  chunks: number
  progress?: unknown
}

/** So often at most are the lines drawn, ms. */
const DRAW_EVERY_MS = 50
/** The time of a job that says nothing goes on all the same. */
const TICK_MS = 200
/** So many of them at a time; the screen is for other things as well. */
const MOST_LINES = 8

const STYLES: Record<JobStatus, Style> = {
  IN_QUEUE: 'yellow',
  IN_PROGRESS: 'cyan',
  COMPLETED: 'green',
  FAILED: 'red',
  CANCELLED: 'yellow',
  TIMED_OUT: 'red',
}

/** Stands between the worker and its executor, where all that it shows passes by. */
export class JobBoard implements Pick<Executor, 'run'> {
  readonly #options: JobBoardOptions
  readonly #entries = new Set<Entry>()
  #drawing: Timer | undefined
  #drawsAt = Number.POSITIVE_INFINITY

  constructor(options: JobBoardOptions) {
    this.#options = options
  }

  run(assignment: Assignment, listener: RunListener): Run {
    const { executor, clock } = this.#options
    const entry: Entry = { assignment, chunks: 0 }
    this.#entries.add(entry)
    const run = executor.run(assignment, {
      onStart: () => {
        entry.beganAt = clock.monotonic()
        this.#drawWithin(DRAW_EVERY_MS)
        listener.onStart()
      },
      onChunk: (chunk) => {
        if (isWhole(chunk)) entry.chunks += 1
        this.#drawWithin(DRAW_EVERY_MS)
        listener.onChunk(chunk)
      },
      onProgress: (progress) => {
        entry.progress = parsed(progress)
        this.#drawWithin(DRAW_EVERY_MS)
        listener.onProgress(progress)
      },
    })
    this.#drawWithin(DRAW_EVERY_MS)
    void run.outcome.then((outcome) => this.#ended(entry, outcome))
    return run
  }

  close(): void {
    this.#drawing?.clear()
    this.#entries.clear()
    this.#options.screen.show([])
  }

  #ended(entry: Entry, outcome: Outcome): void {
    const { screen, frameOf } = this.#options
    this.#entries.delete(entry)
    this.#draw()
    const ms = entry.beganAt === undefined ? undefined : outcome.executionMs || this.#msOf(entry)
    screen.print(this.#line({ ...this.#shown(entry), ms, ...stateAfter(outcome) }))
    if (!('error' in outcome)) return
    const { type, message, code } = outcome.error
    const said = `${type}: ${message} [${code}]`.split('\n').map((line) => `  ${tamed(line)}`)
    const frame = frameOf(outcome.error)
    screen.print([screen.styled('red', said.join('\n')), ...(frame === undefined ? [] : [frame])].join('\n'))
  }

  #shown(entry: Entry): ShownJob {
    const { assignment, chunks, progress } = entry
    const { id, attempt } = assignment
    const state = entry.beganAt === undefined ? 'IN_QUEUE' : 'IN_PROGRESS'
    return { id, attempt, state, ms: this.#msOf(entry), chunks, ...(progress !== undefined && { progress }) }
  }

  #msOf({ beganAt }: Entry): number | undefined {
    return beganAt === undefined ? undefined : this.#options.clock.monotonic() - beganAt
  }

  #line(job: ShownJob, columns?: number): string {
    const { screen } = this.#options
    return jobLine(job, {
      paint: (state, text) => screen.styled(STYLES[state], text),
      ...(columns !== undefined && { columns }),
    })
  }

  #drawWithin(ms: number): void {
    const { screen, clock } = this.#options
    const at = clock.monotonic() + ms
    if (!screen.isLive || at >= this.#drawsAt) return
    this.#drawing?.clear()
    this.#drawsAt = at
    this.#drawing = clock.after(ms, () => this.#draw())
  }

  #draw(): void {
    this.#drawing?.clear()
    this.#drawsAt = Number.POSITIVE_INFINITY
    const { screen } = this.#options
    const shown = [...this.#entries].slice(0, MOST_LINES).map((entry) => this.#shown(entry))
    const lines = shown.map((job) => this.#line(job, screen.columns))
    const more = this.#entries.size - lines.length
    if (more > 0) lines.push(`… and ${more} more`)
    screen.show(lines)
    if (this.#entries.size > 0) this.#drawWithin(TICK_MS)
  }
}

/** A value above the size of a chunk comes in parts. */
function isWhole({ part }: RunChunk): boolean {
  return part === undefined || part.last
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8'))
  } catch {
    // The handler's process said something else; whoever takes the report decides on that.
    return undefined
  }
}
