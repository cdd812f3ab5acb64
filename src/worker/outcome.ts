// How a run ended, and whose doing it was.

import type { JobError } from '../job/job.ts'
import type { JobFailureCode } from '../protocol/errors.ts'
import type { AbortReason } from './define-handler.ts'
import type { Death } from './handler-process.ts'

export type Outcome = { executionMs: number } & (
  | { kind: 'completed'; output: Uint8Array }
  | { kind: 'failed'; error: JobError }
  | { kind: 'timedOut'; error: JobError }
  /** Its process died, and it cannot be told whether it was this job or one beside it. */
  | { kind: 'lost'; error: JobError }
  /** Not this job's doing: it was told to stop, or a neighbour took its process down. */
  | { kind: 'stopped'; reason: AbortReason }
)

/** The outcome of a run that was aborted: what aborted it first decides, whatever the handler still said. */
export function judgeAborted(
  reason: AbortReason,
  said: Outcome,
  limits: { executionTimeoutMs: number | undefined; killGraceMs: number },
): Outcome {
  if (reason !== 'timeout') return { kind: 'stopped', reason, executionMs: 0 }
  const how =
    said.kind === 'stopped' || said.kind === 'lost'
      ? `and its process was ended after ${limits.killGraceMs} ms more`
      : 'and it ended in time'
  const message = `The handler ran longer than ${limits.executionTimeoutMs} ms; its signal was aborted, ${how}.`
  return { kind: 'timedOut', error: { type: 'TimeoutError', message, code: 'TIMED_OUT' }, executionMs: 0 }
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
