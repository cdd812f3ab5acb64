// How a run ended, and whose doing it was.

import type { JobError } from '../job/job.ts'
import type { AbortReason } from './define-handler.ts'

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
