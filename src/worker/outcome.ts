// How a run ended, and whose doing it was.

import type { JobError } from '../job/job.ts'
import type { JobFailureCode } from '../protocol/errors.ts'
import type { AbortReason } from './define-handler.ts'
import type { Death } from './handler-process.ts'

export type Outcome = { executionMs: number } & (
  | { kind: 'completed'; output: Uint8Array }
  | { kind: 'failed'; error: JobError }
  | { kind: 'timedOut'; error: JobError }
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
    said.kind === 'stopped'
      ? `and its process was ended after ${limits.killGraceMs} ms more`
      : 'and it ended in time'
  const message = `The handler ran longer than ${limits.executionTimeoutMs} ms; its signal was aborted, ${how}.`
  return { kind: 'timedOut', error: { type: 'TimeoutError', message, code: 'TIMED_OUT' }, executionMs: 0 }
}

/** Why a job failed whose process ended by itself; `jobs` ran in it. */
export function describeDeath({ exitCode, signal, lastLines, garbled }: Death, jobs: number): JobError {
  const shared = jobs > 1 ? ` ${jobs} jobs shared it, and which of them it was cannot be told.` : ''
  const said = lastLines.length > 0 ? ` Its last lines: ${lastLines.slice(-5).join(' | ')}` : ''
  const isOutOfMemory = lastLines.some((line) => line.includes('heap out of memory'))
  const code: JobFailureCode = isOutOfMemory ? 'OUT_OF_MEMORY' : signal ? 'CRASHED' : 'EXITED'
  const ended = signal ? `was ended by ${signal}` : `exited with code ${exitCode}`
  const how =
    garbled === undefined ? ended : `wrote to the worker's own pipe (descriptor 3) and was ended: ${garbled}`
  return {
    type: 'ProcessError',
    message: `The handler's process ${how} while the job ran.${shared}${said}`,
    code,
  }
}
