// How a handler's process ended, and what is said of it in the record of the job that ran there.

import type { JobError } from '../job/job.ts'
import type { JobFailureCode } from '../protocol/errors.ts'
import type { OutputLine } from './output-lines.ts'

/** How the process ended. */
export interface Death {
  exitCode: number | null
  signal: NodeJS.Signals | null
  /** Whether it was ended on purpose, for the sake of one of its jobs. */
  wasKilled: boolean
  /** The kernel ended it because the container's memory was used up. */
  isOverMemory: boolean
  /** What it sent that could not be read, when that is why it was ended. */
  garbled?: string
  /** The accident that it spoke of before. */
  accident?: JobError
  lastLines: LastLine[]
  /** What the engine said of its memory being full. */
  fatal?: LastLine
}

export interface LastLine extends OutputLine {
  /** Monotonic ms. */
  at: number
}

/** A run, as far as the lines that it printed are concerned. */
export interface Printer {
  readonly number: number
  readonly startedAt: number
}

/** Why a process ended by itself, as the error of the job that ran there. */
export function describeDeath(death: Death, printer: Printer): JobError {
  const { accident, lastLines } = death
  if (accident) return withLastLines(accident, lastLines, printer)
  const message = `The handler's process ${howEnded(death)} while the job ran.`
  const error = { type: 'ProcessError', message, code: codeOf(death, printer) }
  return withLastLines(error, lastLines, printer)
}

/** The job's code called process.exit. */
export function exitError(exitCode: number): JobError {
  const message = `The handler called process.exit(${exitCode}), which ended its process. Return or throw instead.`
  return { type: 'ExitError', message, code: 'EXITED' }
}

/** The same with what the run printed last. */
export function withLastLines(error: JobError, lines: readonly LastLine[], printer: Printer): JobError {
  const said = ownLines(lines, printer)
    .slice(-SHOWN_LINES)
    .map(({ line }) => line)
  if (said.length === 0) return error
  return { ...error, message: `${error.message} Its last lines: ${said.join(' | ')}` }
}

const SHOWN_LINES = 5

/** What other jobs printed is nobody else's business. */
function ownLines(lines: readonly LastLine[], { number, startedAt }: Printer): LastLine[] {
  return lines.filter((line) => line.run === number || (line.run === undefined && line.at >= startedAt))
}

function howEnded({ exitCode, signal, garbled, isOverMemory }: Death): string {
  if (garbled !== undefined) return `wrote to the worker's own pipe (descriptor 3) and was ended: ${garbled}`
  if (isOverMemory) return 'went over the memory limit of its container and was ended by SIGKILL'
  return signal ? `was ended by ${signal}` : `exited with code ${exitCode}`
}

/** The engine's last words belong to no run: a handler that prints the same is not believed. */
function codeOf({ signal, isOverMemory, fatal }: Death, { startedAt }: Printer): JobFailureCode {
  const isHeapFull = signal !== null && fatal !== undefined && fatal.at >= startedAt
  if (isHeapFull || isOverMemory) return 'OUT_OF_MEMORY'
  return signal ? 'CRASHED' : 'EXITED'
}
