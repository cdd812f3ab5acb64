// A job as one line: id, state, time, chunks, progress.

import type { JobStatus } from '../job/lifecycle.ts'
import type { Outcome } from '../worker/outcome.ts'

export interface ShownJob {
  id: string
  attempt: number
  state: JobStatus
  /** How long it has run, or ran; undefined before it was begun. */
  ms: number | undefined
  chunks: number
  /** As the handler told it. */
  progress?: unknown
  /** Why it is in that state, where that is not plain. */
  note?: string
}

/** The longest state. */
const STATE_CHARS = 'IN_PROGRESS'.length
const TIME_CHARS = 8
const PROGRESS_CHARS = 60
/** A row of fewer has no room for a whole id and for what changes. */
const ROOMY_COLUMNS = 120
/** A row of fewer has none for columns either. */
const NARROW_COLUMNS = 50
/** Ids that were made in the same minute begin alike. */
const ID_TAIL_CHARS = 8

export interface LineOptions {
  /** The state as it is to be shown: what it is padded to is counted without colours. */
  paint: (state: JobStatus, text: string) => string
  /** The row that it has to do with, as long as it is drawn again; a line that stays has as many as it needs. */
  columns?: number
}

export function jobLine(job: ShownJob, { paint, columns = Infinity }: LineOptions): string {
  const { id, attempt, state, ms, chunks, progress, note } = job
  const isNarrow = columns < NARROW_COLUMNS
  const time = ms === undefined ? '' : shownTime(ms)
  const parts = [
    columns < ROOMY_COLUMNS ? tailOf(id) : id,
    paint(state, isNarrow ? state : state.padEnd(STATE_CHARS)),
    isNarrow ? time : time.padStart(TIME_CHARS),
    `${chunks} ${chunks === 1 ? 'chunk' : 'chunks'}`,
  ]
  if (attempt > 1) parts.push(`attempt ${attempt}`)
  if (progress !== undefined) parts.push(shownProgress(progress))
  if (note !== undefined) parts.push(note)
  return parts.filter((part) => part !== '').join('  ')
}

function tailOf(id: string): string {
  return id.length > ID_TAIL_CHARS ? `…${id.slice(-ID_TAIL_CHARS)}` : id
}

/** In which state the job is after this run, and why. */
export function stateAfter(outcome: Outcome): Pick<ShownJob, 'state' | 'note'> {
  switch (outcome.kind) {
    case 'completed':
      return { state: 'COMPLETED' }
    case 'failed':
      return { state: 'FAILED' }
    case 'timedOut':
      return { state: 'TIMED_OUT' }
    case 'lost':
      return { state: 'IN_QUEUE', note: 'its process was lost' }
    case 'stopped':
      if (outcome.reason === 'cancelled') return { state: 'CANCELLED' }
      if (outcome.reason === 'lease-lost') return { state: 'IN_QUEUE', note: 'its lease was lost' }
      return { state: 'IN_QUEUE', note: 'handed back' }
    default:
      return outcome satisfies never
  }
}

export function shownTime(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.floor(ms / 1_000)
  return `${Math.floor(seconds / 60)} m ${String(seconds % 60).padStart(2, '0')} s`
}

function shownProgress(progress: unknown): string {
  const text = typeof progress === 'string' ? progress : JSON.stringify(progress)
  // oxlint-disable-next-line no-control-regex -- a handler's text must not move the cursor
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ')
  return line.length > PROGRESS_CHARS ? `${line.slice(0, PROGRESS_CHARS)}…` : line
}
