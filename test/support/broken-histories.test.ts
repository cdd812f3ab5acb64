import { describe, expect, it } from 'vitest'
import { History, type Promised } from './history.ts'
import type { Told } from './history/told.ts'
import {
  accepted,
  counted,
  done,
  error,
  FAILED,
  failed,
  historyOf,
  id,
  leased,
  lost,
  made,
  mayGo,
  ofTwo,
  ran,
  read,
  reported,
  retried,
  seen,
  settled,
  streamed,
  submitted,
  twoChunks,
  waits,
} from './history/scripted.ts'

const ghost = { id: 'ghost', lease: 'g1', worker: 'w1' }

describe('a history that breaks a promise', () => {
  const bad: Partial<Record<Promised, [says: string, told: Told[], also?: Promised[]][]>> = {
    'no acknowledged submission is lost': [
      ['gone before its time', [submitted, seen()]],
      ['gone before its time', [submitted, seen(), mayGo]],
      ['nobody looked', [submitted]],
      ['nobody looked', [seen(waits), submitted]],
      ['left IN_QUEUE', [submitted, seen(waits)]],
      [
        'was not there, and then was COMPLETED',
        [submitted, seen(), leased('l1'), ...accepted('l1'), seen(done)],
      ],
    ],
    'a submission is one job': [
      ['submission of ghost', [...ran, seen(done), { kind: 'leased', ...ghost }]],
      [
        'submission of ghost',
        [
          ...ran,
          seen(done),
          { kind: 'leased', ...ghost },
          { kind: 'reported', ...ghost, status: 'COMPLETED' },
          { kind: 'settled', ...ghost, answer: 'accepted', status: 'COMPLETED' },
        ],
      ],
      ['a was given to two submissions', [submitted, ...ran, seen(done)]],
      ['of a, ghost, and 1 were left', [{ kind: 'unanswered' }, leased('l1'), { kind: 'leased', ...ghost }]],
    ],
    'a lease is of one worker': [
      [
        'given to w1 for a, and again to w2',
        [submitted, leased('l1'), leased('l1', 'w2'), ...accepted('l1', { worker: 'w1' }), seen(done)],
      ],
      ['again to w1 for a', [submitted, leased('l1'), ...ran.slice(1), seen(done)]],
      [
        'again to w1 for ghost',
        [...ran, seen(done), { kind: 'unanswered' }, { kind: 'leased', ...ghost, lease: 'l1' }],
      ],
    ],
    'one result at most is accepted': [
      [
        'COMPLETED with 2 under l1',
        [{ kind: 'unanswered' }, ...ran.slice(1), ...accepted('l1', { output: 2 })],
      ],
      [
        'COMPLETED with 1 under l2',
        [...ran, leased('l2'), ...accepted('l2'), seen(done)],
        ['an end stays as it is'],
      ],
    ],
    'an accepted result is of the lease that held the job': [
      ['l2 of w2 held the job', [submitted, leased('l1'), leased('l2', 'w2'), ...accepted('l1'), seen(done)]],
      ['nobody was given', [submitted, ...accepted('forged'), seen(done)]],
      [
        'of w2 was accepted under l1 of w1',
        [submitted, leased('l1'), ...accepted('l1', { worker: 'w2' }), seen(done)],
      ],
      ['nobody had reported it', [submitted, leased('l1'), settled('l1'), seen(done)]],
      ['the record is COMPLETED with 2', [...ran, seen({ ...done, output: 2 })]],
      ['the record is FAILED', [...ran, seen(failed)]],
      [
        'the record is FAILED with Error: other',
        [
          submitted,
          leased('l1'),
          ...accepted('l1', FAILED),
          seen({ ...failed, error: { ...error, message: 'other' } }),
        ],
      ],
      ['nobody was given a lease', [submitted, seen(done)]],
      ['which held it under l1, had reported []', [submitted, leased('l1'), seen(done)]],
      [
        'had reported ["COMPLETED with 2"]',
        [submitted, leased('l1'), reported('l1', { output: 2 }), seen(done)],
      ],
      ['had reported []', [submitted, leased('l1'), seen(done), reported('l1')]],
      [
        'was told that it is stale',
        [submitted, leased('l1'), reported('l1'), settled('l1', 'stale'), seen(done)],
      ],
      [
        'was told that it is stale',
        [submitted, leased('l1'), reported('l1'), settled('l1', 'stale'), reported('l1'), seen(done)],
      ],
      [
        'w2, which held it under l2, had reported []',
        [submitted, leased('l1'), reported('l1'), leased('l2', 'w2'), seen(done)],
      ],
      [
        'in attempt 2, and the record says 1',
        [
          submitted,
          leased('l1', 'w1', { attempt: 2 }),
          ...accepted('l1'),
          seen(done),
          counted({ completed: 1, retried: 0 }),
        ],
      ],
      ['FAILED with WorkerLostError', [submitted, leased('l1'), seen({ ...failed, error: lost })]],
      [
        'FAILED with WorkerLostError',
        [
          submitted,
          leased('l1', 'w2'),
          { kind: 'mayEnd', id, status: 'FAILED' },
          seen({ ...failed, error: lost }),
        ],
      ],
      ['names w9, and w1 had held it', [...ran, seen({ ...done, workerId: 'w9' })]],
      [
        'in attempt 9 of 2',
        [submitted, leased('l1', 'w1', { attempt: 9 }), ...accepted('l1'), seen({ ...done, attempt: 9 })],
      ],
      [
        'in attempt 1 behind attempt 2',
        [
          submitted,
          leased('l1', 'w1', { attempt: 1 }),
          leased('l2', 'w1', { attempt: 2 }),
          leased('l3', 'w1', { attempt: 1 }),
          ...accepted('l3'),
          seen(done),
        ],
      ],
      [
        'lost for good in attempt 1 of 2',
        [
          submitted,
          leased('l1', 'w1', { attempt: 1 }),
          { kind: 'mayEnd', id, status: 'FAILED' },
          seen({ ...failed, error: lost }),
        ],
      ],
      [
        'l1 was told that it is stale, and then that its result is accepted',
        [
          submitted,
          leased('l1'),
          reported('l1'),
          settled('l1', 'stale'),
          reported('l1'),
          settled('l1'),
          seen(done),
        ],
      ],
      ['CANCELLED', [submitted, seen({ status: 'CANCELLED' })]],
      ['COMPLETED with 1', [submitted, leased('l1'), { kind: 'mayEnd', id, status: 'FAILED' }, seen(done)]],
    ],
    'an end stays as it is': [
      ['and then was', [...ran, seen(done), seen({ ...done, output: 2 })]],
      ['and then was', [...ran, seen(done), seen({ ...done, executionTime: 5 })]],
      ['and then was IN_QUEUE', [...ran, seen(done), seen(waits), seen(done)]],
      ['and then was IN_QUEUE', [...ran, seen(waits), seen(done)]],
      [
        'had ended as COMPLETED with 1, and then was retried',
        [
          ...ran,
          seen(done),
          retried,
          leased('l2'),
          ...accepted('l2', { output: 2 }),
          seen({ ...done, output: 2 }),
        ],
      ],
      [
        'had ended as CANCELLED, and then was retried',
        [
          submitted,
          { kind: 'mayEnd', id, status: 'CANCELLED' },
          seen({ status: 'CANCELLED', attempt: 1 }),
          retried,
          leased('l2'),
          ...accepted('l2'),
          seen(done),
        ],
      ],
      [
        'was retried, and nothing had ended it',
        [submitted, leased('l1'), retried, leased('l2'), ...accepted('l2'), seen(done)],
      ],
      ['was gone, and then was COMPLETED again', [...ran, seen(done), mayGo, seen(), seen(done)]],
      ['and then was gone', [...ran, seen(done), seen(), seen(done)]],
      ['and then was gone', [...ran, seen(), mayGo, seen(done)]],
      ['and then l2 was given to w2', [...ran, seen(done), leased('l2', 'w2')]],
      ['and then l2 was given to w2', [...ran, leased('l2', 'w2'), seen(done)]],
    ],
    'chunks are whole and in order': [
      [
        'chunk 3',
        [...twoChunks, streamed('l1', 2), ...accepted('l1', ofTwo), seen(done), read([1, 'x'], [3, 'y'])],
      ],
      [
        'chunk 1',
        [...twoChunks, streamed('l1', 2), ...accepted('l1', ofTwo), seen(done), read([2, 'x'], [1, 'y'])],
      ],
      [
        'attempts 1 and 2',
        [...twoChunks, streamed('l1', 2), ...accepted('l1', ofTwo), seen(done), read([1, 'x'], [2, 'y', 2])],
      ],
      [
        'a reader has ["x"]',
        [...twoChunks, streamed('l1', 2), ...accepted('l1', ofTwo), seen(done), read([1, 'x'])],
      ],
      [
        '1 of its 2 chunks',
        [...twoChunks, streamed('l1', 1), ...accepted('l1', ofTwo), seen(done), read([1, 'x'], [2, 'y'])],
      ],
      ['nobody read them', [...twoChunks, streamed('l1', 2), ...accepted('l1', ofTwo), seen(done)]],
      [
        'a reader has ["WRONG","y"]',
        [
          ...twoChunks,
          read([1, 'WRONG'], [2, 'y']),
          streamed('l1', 2),
          ...accepted('l1', ofTwo),
          seen(done),
          read([1, 'x'], [2, 'y']),
        ],
      ],
      [
        'chunk 1 of l1 was "x" at first, and "z"',
        [
          ...twoChunks,
          ...made('l1', 'z', 'y'),
          streamed('l1', 2),
          ...accepted('l1', ofTwo),
          seen(done),
          read([1, 'x'], [2, 'y']),
        ],
      ],
      [
        'a reader has ["x","x"]',
        [
          submitted,
          leased('l1'),
          ...made('l1', 'x'),
          leased('l2'),
          ...made('l2', 'x'),
          streamed('l2', 1),
          ...accepted('l2', { chunks: 1 }),
          seen(done),
          read([1, 'x'], [2, 'x']),
        ],
      ],
      [
        'its stream begins with chunk 7',
        [...twoChunks, streamed('l1', 2), ...accepted('l1', ofTwo), seen(done), read([7, 'x'], [8, 'y'])],
      ],
      [
        'chunk 1 was',
        [
          submitted,
          leased('l1', 'w1', { attempt: 1 }),
          ...made('l1', 'x'),
          { kind: 'read', id, chunks: [{ index: 1, attempt: 1, output: 'x' }], isPart: true },
          leased('l2', 'w1', { attempt: 2 }),
          ...made('l2', 'y'),
          streamed('l2', 1),
          ...accepted('l2', { chunks: 1 }),
          seen({ ...done, attempt: 2 }),
          read([1, 'y', 2]),
        ],
      ],
      ['nothing, and a reader has ["z"]', [submitted, mayGo, seen(), read([1, 'z'])]],
      ['a reader has ["z"]', [...ran, seen(done), read([1, 'z'])]],
      [
        'a reader has ["x","y","z"]',
        [
          ...twoChunks,
          streamed('l1', 2),
          ...accepted('l1', ofTwo),
          seen(done),
          read([1, 'x'], [2, 'y'], [3, 'z']),
        ],
      ],
    ],
    'counters are what happened': [
      ['completed is 2, and 1', [...ran, seen(done), counted({ completed: 2 })]],
      ['retried is 0, and 1', [...ran, seen({ ...done, attempt: 2 }), counted({ completed: 1 })]],
      [
        'completed was 7, and 1 at most',
        [...ran, counted({ completed: 7 }), seen(done), counted({ completed: 1 })],
      ],
      [
        'completed was 1, and 0 at most',
        [
          submitted,
          leased('l1'),
          counted({ completed: 1 }),
          ...accepted('l1'),
          seen(done),
          counted({ completed: 1 }),
        ],
      ],
      [
        'completed was 0, and 1 at least',
        [...ran, counted({ inProgress: 1 }), seen(done), counted({ completed: 1 })],
      ],
      [
        'failed was 1, and 0 at most',
        [...ran, counted({ completed: 1, failed: 1 }), seen(done), counted({ completed: 1 })],
      ],
      [
        'retried was 1, and 0 at most',
        [...ran, counted({ completed: 1, retried: 1 }), seen(done), counted({ completed: 1 })],
      ],
      [
        'inQueue and inProgress were 0, and 1 at least',
        [submitted, counted({}), ...ran.slice(1), seen(done), counted({ completed: 1 })],
      ],
      [
        'inQueue and inProgress were 2, and 1 at most',
        [
          submitted,
          counted({ inQueue: 1, inProgress: 1 }),
          ...ran.slice(1),
          seen(done),
          counted({ completed: 1 }),
        ],
      ],
      [
        'completed was 1, and then 0',
        [
          submitted,
          leased('l1'),
          reported('l1'),
          counted({ completed: 1 }),
          counted({ inProgress: 1 }),
          settled('l1'),
          seen(done),
          counted({ completed: 1 }),
        ],
      ],
      ['inProgress is 1, and 0', [...ran, seen(done), counted({ completed: 1, inProgress: 1 })]],
    ],
  }
  const cases = Object.entries(bad).flatMap(([promise, list]) =>
    list.map(([says, told, also = []]) => ({ promise, says, told, also })),
  )
  it.each(cases)('($promise: $says) has a finding that says so', ({ promise, says, told, also }) => {
    const history = historyOf(told)
    const findings = history.findings()
    expect(new Set(findings.map((finding) => finding.promise))).toEqual(new Set([promise, ...also]))
    const ofPromise = findings.filter((finding) => finding.promise === promise)
    expect(ofPromise.map((finding) => finding.says).join(' ')).toContain(says)
    expect(() => history.check()).toThrow(says)
  })

  it('is found among others that keep them', () => {
    const others = Array.from({ length: 20 }, (_, n) =>
      [...ran, seen(done)].map((one): Told => {
        const own = 'lease' in one ? { lease: `${one.lease}-${n}` } : {}
        return { ...one, id: `other-${n}`, ...own } as Told
      }),
    )
    const findings = historyOf([submitted, ...others.flat(), seen()]).findings()
    expect(findings).toMatchObject([{ job: 'a', promise: 'no acknowledged submission is lost' }])
  })

  it('is found when nobody looked at the counters', () => {
    const history = new History()
    for (const one of [...ran, seen(done)]) history.tell(one)
    expect(history.findings()).toEqual([
      { promise: 'counters are what happened', says: 'nobody looked at the counters.' },
    ])
  })
})
