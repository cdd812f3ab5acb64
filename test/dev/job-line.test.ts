import { describe, expect, it } from 'vitest'
import { jobLine, shownTime, stateAfter, type ShownJob } from '../../src/dev/job-line.ts'
import type { Outcome } from '../../src/worker/outcome.ts'

const job: ShownJob = { id: 'job-1', attempt: 1, state: 'IN_PROGRESS', ms: 1234, chunks: 2 }
const UUID = '019a2b3c-4d5e-7f60-8a9b-0c1d16e2ff03'
const lineOf = (more: Partial<ShownJob>, columns?: number): string =>
  jobLine({ ...job, ...more }, { paint: (_state, text) => text, ...(columns !== undefined && { columns }) })

describe('the line of a job', () => {
  it('has its id, state, time, chunks and progress', () => {
    expect(lineOf({ progress: { done: 0.5 } })).toBe('job-1  IN_PROGRESS     1.2 s  2 chunks  {"done":0.5}')
  })

  it('has what is out of the ordinary behind that', () => {
    expect(lineOf({ attempt: 2, state: 'IN_QUEUE', ms: undefined, chunks: 1, note: 'handed back' })).toBe(
      'job-1  IN_QUEUE               1 chunk  attempt 2  handed back',
    )
  })

  // Seen: at 80 columns seven characters of the progress were left, at 60 none, at 30 the id alone.
  it.each([
    [160, `${UUID}  IN_PROGRESS     1.2 s  2 chunks  step 12 of 40`],
    [80, '…16e2ff03  IN_PROGRESS     1.2 s  2 chunks  step 12 of 40'],
    [60, '…16e2ff03  IN_PROGRESS     1.2 s  2 chunks  step 12 of 40'],
    [49, '…16e2ff03  IN_PROGRESS  1.2 s  2 chunks  step 12 of 40'],
    [undefined, `${UUID}  IN_PROGRESS     1.2 s  2 chunks  step 12 of 40`],
  ])(
    'begins with what tells it from others, and leaves room for what changes, in a row of %s',
    (columns, line) => {
      expect(lineOf({ id: UUID, progress: 'step 12 of 40' }, columns)).toBe(line)
    },
  )

  it('has its state and time also in a row of 30', () => {
    expect(lineOf({ id: UUID }, 30).slice(0, 29)).toBe('…16e2ff03  IN_PROGRESS  1.2 s')
    expect(lineOf({ id: UUID, ms: undefined, state: 'IN_QUEUE' }, 30)).toBe('…16e2ff03  IN_QUEUE  2 chunks')
  })

  it('is one line whatever the progress is', () => {
    expect(lineOf({ progress: 'two\nlines' })).toContain('two lines')
    expect(lineOf({ progress: 'x'.repeat(500) }).length).toBeLessThan(120)
  })
})

describe('the state after a run', () => {
  const error = { type: 'Error', message: '', code: 'HANDLER_ERROR' as const }
  it.each<[Outcome, ReturnType<typeof stateAfter>]>([
    [{ kind: 'completed', output: new Uint8Array(), executionMs: 0 }, { state: 'COMPLETED' }],
    [{ kind: 'failed', error, executionMs: 0 }, { state: 'FAILED' }],
    [{ kind: 'timedOut', error, executionMs: 0 }, { state: 'TIMED_OUT' }],
    [
      { kind: 'lost', error, executionMs: 0 },
      { state: 'IN_QUEUE', note: 'its process was lost' },
    ],
    [{ kind: 'stopped', reason: 'cancelled', executionMs: 0 }, { state: 'CANCELLED' }],
    [
      { kind: 'stopped', reason: 'lease-lost', executionMs: 0 },
      { state: 'IN_QUEUE', note: 'its lease was lost' },
    ],
    [
      { kind: 'stopped', reason: 'shutdown', executionMs: 0 },
      { state: 'IN_QUEUE', note: 'handed back' },
    ],
  ])('%j', (outcome, shown) => {
    expect(stateAfter(outcome)).toEqual(shown)
  })
})

describe('a time', () => {
  it.each([
    [7.4, '7 ms'],
    [1_000, '1.0 s'],
    [59_900, '59.9 s'],
    [61_000, '1 m 01 s'],
  ])('%d', (ms, shown) => {
    expect(shownTime(ms)).toBe(shown)
  })
})
