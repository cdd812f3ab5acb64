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
}

export interface LastLine extends OutputLine {
  /** Monotonic ms. */
  at: number
}

/** Why a process ended by itself, as the error of the job that ran there. */
export function describeDeath(
  death: Death,
  { run, startedAt }: { run: number; startedAt: number },
): JobError {
  if (death.accident) return death.accident
  // What other jobs printed is nobody else's business.
  const own = death.lastLines.filter(
    (line) => line.run === run || (line.run === undefined && line.at >= startedAt),
  )
  const said = own.slice(-5).map(({ line }) => line)
  const message = `The handler's process ${howEnded(death)} while the job ran.${said.length > 0 ? ` Its last lines: ${said.join(' | ')}` : ''}`
  return { type: 'ProcessError', message, code: codeOf(death) }
}

function howEnded({ exitCode, signal, garbled, isOverMemory }: Death): string {
  if (garbled !== undefined) return `wrote to the worker's own pipe (descriptor 3) and was ended: ${garbled}`
  if (isOverMemory) return 'went over the memory limit of its container and was ended by SIGKILL'
  return signal ? `was ended by ${signal}` : `exited with code ${exitCode}`
}

function codeOf({ signal, lastLines, isOverMemory }: Death): JobFailureCode {
  const isHeapFull = lastLines.some(({ line }) => line.includes('heap out of memory'))
  if (isHeapFull || isOverMemory) return 'OUT_OF_MEMORY'
  return signal ? 'CRASHED' : 'EXITED'
}
