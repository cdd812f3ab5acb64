// How a run ended, and whose doing it was.

import type { JobError } from '../job/job.ts'
import { describeDeath, type Death, type Printer } from './death.ts'
import type { AbortReason } from './define-handler.ts'

export type Outcome = {
  executionMs: number
  /** The handler, or its definition, wants the next job to begin in a fresh process. */
  refresh?: true
  /** The handler made a generator, be it one that yielded nothing. */
  isStream?: true
} & (
  | { kind: 'completed'; output: Uint8Array }
  | { kind: 'failed'; error: JobError }
  | { kind: 'timedOut'; error: JobError }
  /** Its process died, and it cannot be told whether it was this job's doing. */
  | { kind: 'lost'; error: JobError }
  /** Not this job's doing: it was told to stop, or a neighbour took its process down. */
  | { kind: 'stopped'; reason: AbortReason }
)

/** What goes into an outcome of what its process says of the end. */
export function saidAtEnd({
  executionMs,
  isStream,
}: {
  executionMs: number
  isStream?: boolean | undefined
}): {
  executionMs: number
  isStream?: true
} {
  return isStream ? { executionMs, isStream } : { executionMs }
}

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

/** A death is charged to the job it can be traced to; jobs beside it go back. */
export function judgeDeath(
  death: Death,
  {
    printer,
    jobs,
    isCulprit,
    isAnothers,
  }: { printer: Printer; jobs: number; isCulprit: boolean; isAnothers: boolean },
): Outcome {
  // The job whose end a process was killed for has ended by now.
  if (isAnothers || (death.wasKilled && !death.accident)) {
    return { kind: 'stopped', reason: 'shutdown', executionMs: 0 }
  }
  const error = describeDeath(death, printer)
  // An error of code that runs for no job would have come without this one too: it deserves another try.
  const isNobodys = death.accident !== undefined && !isCulprit
  return jobs === 1 && !isNobodys
    ? { kind: 'failed', error, executionMs: 0 }
    : { kind: 'lost', error, executionMs: 0 }
}
