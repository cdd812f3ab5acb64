import { describe, expect, it } from 'vitest'
import { History, type Promised, type SeenRecord, type Told } from './history.ts'

const id = 'a'
const done: SeenRecord = { status: 'COMPLETED', attempt: 1, output: 1 }
const failed: SeenRecord = { status: 'FAILED', attempt: 1 }
const submitted: Told = { kind: 'submitted', id }
const seen = (record?: SeenRecord): Told => ({ kind: 'seen', id, record })
const leased = (lease: string, worker = 'w1'): Told => ({ kind: 'leased', id, lease, worker })
const settled = (
  lease: string,
  more: {
    answer?: 'accepted' | 'stale'
    status?: 'COMPLETED' | 'FAILED'
    output?: unknown
    worker?: string
  } = {},
): Told => ({
  kind: 'settled',
  id,
  lease,
  worker: 'w1',
  answer: 'accepted',
  status: 'COMPLETED',
  output: 1,
  ...more,
})
const counted = (more: Partial<(Told & { kind: 'counted' })['counts']>): Told => ({
  kind: 'counted',
  counts: { completed: 0, failed: 0, retried: 0, inQueue: 0, inProgress: 0, ...more },
})
const streamed = (lease: string, outputs: unknown[], stored = outputs.length): Told => ({
  kind: 'streamed',
  id,
  lease,
  stored,
  outputs,
})
const read = (...chunks: [index: number, output: unknown, attempt?: number][]): Told => ({
  kind: 'read',
  id,
  chunks: chunks.map(([index, output, attempt = 1]) => ({ index, output, attempt })),
})

function historyOf(told: readonly Told[]): History {
  const history = new History()
  for (const one of told) history.tell(one)
  return history
}

describe('a history that keeps the promises', () => {
  const failedLife = [leased('l1'), settled('l1', { status: 'FAILED', output: undefined }), seen(failed)]
  const good: Record<string, Told[]> = {
    'of nothing': [],
    'of one job': [submitted, leased('l1'), settled('l1'), seen(done), seen(done), counted({ completed: 1 })],
    'of a result that is reported twice, its first answer lost': [
      submitted,
      leased('l1'),
      settled('l1'),
      settled('l1'),
      seen(done),
    ],
    'of a lost lease whose result comes late': [
      submitted,
      leased('l1'),
      leased('l2', 'w2'),
      settled('l2', { worker: 'w2' }),
      settled('l1', { answer: 'stale', output: 9 }),
      seen({ ...done, attempt: 2 }),
      counted({ completed: 1, retried: 1 }),
    ],
    'of a retry, which may end otherwise': [
      submitted,
      ...failedLife,
      { kind: 'retried', id },
      leased('l2'),
      settled('l2'),
      seen(done),
      counted({ completed: 1, failed: 1, retried: 1 }),
    ],
    'of a job whose time is over': [submitted, seen(done), { kind: 'mayGo', id }, seen()],
    'of a stream that began anew': [
      submitted,
      leased('l1'),
      streamed('l1', ['x', 'y'], 1),
      leased('l2'),
      streamed('l2', ['x', 'y']),
      settled('l2'),
      seen({ ...done, attempt: 2 }),
      read([2, 'x', 2], [3, 'y', 2]),
    ],
    'of a job that somebody else submitted': [leased('l1')],
  }
  it.each(Object.entries(good))('%s has no findings', (_what, told) => {
    expect(historyOf(told).findings()).toEqual([])
    expect(() => historyOf(told).check()).not.toThrow()
  })
})

describe('a history that breaks a promise', () => {
  const bad: [Promised, string, Told[]][] = [
    ['no acknowledged submission is lost', 'gone before its time', [submitted, seen()]],
    ['no acknowledged submission is lost', 'nobody looked', [submitted]],
    ['no acknowledged submission is lost', 'left IN_QUEUE', [submitted, seen({ status: 'IN_QUEUE' })]],
    [
      'one result at most is accepted',
      'under l1 and l2',
      [submitted, leased('l1'), settled('l1'), leased('l2'), settled('l2'), seen(done)],
    ],
    [
      'an accepted result is of the lease that held the job',
      'l2 of w2 held the job',
      [submitted, leased('l1'), leased('l2', 'w2'), settled('l1'), seen(done)],
    ],
    [
      'an accepted result is of the lease that held the job',
      'nobody was given',
      [submitted, leased('l1'), settled('forged'), seen(done)],
    ],
    [
      'an accepted result is of the lease that held the job',
      'of w2 was accepted under l1 of w1',
      [submitted, leased('l1'), settled('l1', { worker: 'w2' }), seen(done)],
    ],
    [
      'an accepted result is of the lease that held the job',
      'the record has 2',
      [submitted, leased('l1'), settled('l1'), seen({ ...done, output: 2 })],
    ],
    [
      'an accepted result is of the lease that held the job',
      'the record is FAILED',
      [submitted, leased('l1'), settled('l1'), seen(failed)],
    ],
    ['an end stays as it is', 'and then was', [submitted, seen(done), seen({ ...done, output: 2 })]],
    ['an end stays as it is', 'IN_QUEUE', [submitted, seen(done), seen({ status: 'IN_QUEUE' }), seen(done)]],
    ['an end stays as it is', 'then was gone', [submitted, seen(done), seen(), seen(done)]],
    ['chunks are whole and in order', 'chunk 3', [submitted, seen(done), read([1, 'x'], [3, 'z'])]],
    ['chunks are whole and in order', 'chunk 1', [submitted, seen(done), read([2, 'y'], [1, 'x'])]],
    [
      'chunks are whole and in order',
      'attempts 1 and 2',
      [submitted, seen(done), read([1, 'x'], [2, 'y', 2])],
    ],
    [
      'chunks are whole and in order',
      'readers have ["x"]',
      [submitted, leased('l1'), streamed('l1', ['x', 'y']), settled('l1'), seen(done), read([1, 'x'])],
    ],
    [
      'chunks are whole and in order',
      '1 of its 2 chunks',
      [
        submitted,
        leased('l1'),
        streamed('l1', ['x', 'y'], 1),
        settled('l1'),
        seen(done),
        read([1, 'x'], [2, 'y']),
      ],
    ],
    [
      'counters are what happened',
      'completed is 2, and 1',
      [submitted, seen(done), counted({ completed: 2 })],
    ],
    [
      'counters are what happened',
      'retried is 0, and 1',
      [submitted, seen({ ...done, attempt: 2 }), counted({ completed: 1 })],
    ],
    [
      'counters are what happened',
      'inProgress is 1, and 0',
      [submitted, seen(done), counted({ completed: 1, inProgress: 1 })],
    ],
  ]
  it.each(bad)('(%s: %s) has a finding that says so', (promise, says, told) => {
    const findings = historyOf(told).findings()
    expect(findings.map((finding) => finding.promise)).toEqual(findings.map(() => promise))
    expect(findings.map((finding) => finding.says).join(' ')).toContain(says)
    expect(() => historyOf(told).check()).toThrow(says)
  })

  it('is found among others that keep them', () => {
    const others = Array.from({ length: 20 }, (_, n): Told[] => [
      { kind: 'submitted', id: `other-${n}` },
      { kind: 'seen', id: `other-${n}`, record: done },
    ])
    const findings = historyOf([submitted, ...others.flat(), seen()]).findings()
    expect(findings).toMatchObject([{ job: 'a', promise: 'no acknowledged submission is lost' }])
  })
})
