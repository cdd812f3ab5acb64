// The steps that random histories are made of: what each asks, in terms of what there is when it is taken.

import * as fc from 'fast-check'

/** Whose right a worker's report claims: a running job's lease, its worker, or some lease that was ever given. */
export interface Claim {
  job: number
  by: 'lease' | 'worker' | 'former'
}

export type Verb =
  | {
      kind: 'enqueue'
      endpoint: 0 | 1
      key?: 'k' | 'l' | undefined
      body: 'same' | 'other'
      webhook?: string | undefined
      hasSecret: boolean
      isHosted: boolean
      ttl: number
      timeout?: number | undefined
      retentionMs: number
    }
  | {
      kind: 'lease'
      endpoint: 0 | 1
      worker: string
      count: number
      graceMs?: number | undefined
      notLostSinceAgo?: number | undefined
    }
  | { kind: 'start'; claim: Claim; agoMs: number; graceMs: number }
  | { kind: 'extend'; claims: Claim[]; forMs: number }
  | { kind: 'extendHeldBy'; worker: string; forMs: number }
  | {
      kind: 'appendChunks'
      claim: Claim
      first: 'unsaid' | 'next' | 'repeat' | 'gap'
      count: number
      isPart: boolean
    }
  | { kind: 'setProgress'; claim: Claim }
  | {
      kind: 'settle'
      claim: Claim
      event: 'complete' | 'fail' | 'timeOut'
      executionMs?: number | undefined
      chunks: 'unsaid' | 'all' | 'more'
    }
  | { kind: 'release'; claim: Claim }
  | { kind: 'lose'; claim: Claim; executionMs: number }
  | { kind: 'cancel'; job: number }
  | { kind: 'retry'; job: number }
  | { kind: 'purge'; endpoint: 0 | 1 }
  | { kind: 'setTtl'; job: number; ttlMs: number }
  | { kind: 'markRead'; job: number; index: number }

export type Step =
  | { kind: 'verbs'; verbs: Verb[] }
  | { kind: 'pass'; ms: number }
  /** Time passes in which the store is swept, so that it was served. */
  | { kind: 'sweep'; afterMs: number; servedMs: number }
  | { kind: 'pages'; endpoint: 0 | 1; count: number }
  | { kind: 'firstChunk'; job: number; after?: number | undefined }
  | { kind: 'claim'; count: number; holdMs: number; without?: string | undefined }
  | { kind: 'drop'; delivery: number }
  | { kind: 'postpone'; delivery: number; byMs: number }
  /** The other server speaks from here on. */
  | { kind: 'turn' }
  | { kind: 'reopen'; how: 'close' | 'crash' }

const one = <T>(...values: T[]): fc.Arbitrary<T> => fc.constantFrom(...values)
const job = fc.nat(7)
const worker = one('w1', 'w2')
const endpoint = one<0 | 1>(0, 0, 0, 0, 0, 0, 0, 1)
const claim: fc.Arbitrary<Claim> = fc.record({
  job,
  by: one<Claim['by']>('lease', 'lease', 'lease', 'worker', 'former'),
})
const HOOKS = ['https://one.example/done?token=1', 'https://two.example/'] as const

const verbs: { [K in Verb['kind']]: [number, fc.Arbitrary<Verb & { kind: K }>] } = {
  enqueue: [
    12,
    fc.record({
      kind: fc.constant('enqueue'),
      endpoint,
      key: one(undefined, undefined, undefined, 'k', 'l'),
      body: one('same', 'same', 'other'),
      webhook: one(undefined, ...HOOKS),
      hasSecret: fc.boolean(),
      isHosted: fc.boolean(),
      ttl: one(86_400_000, 86_400_000, 86_400_000, 86_400_000, 30_000, 12_000),
      timeout: one(undefined, undefined, undefined, 5_000),
      retentionMs: one(60_000, 1_800_000, 15_000),
    }),
  ],
  lease: [
    12,
    fc.record({
      kind: fc.constant('lease'),
      endpoint,
      worker,
      count: one(1, 1, 2, 5),
      graceMs: one(undefined, undefined, 0, 3_000),
      notLostSinceAgo: one(undefined, undefined, undefined, undefined, 60_000, 5_000, 0),
    }),
  ],
  start: [
    8,
    fc.record({ kind: fc.constant('start'), claim, agoMs: one(0, 40, 1_500), graceMs: one(0, 5_000) }),
  ],
  extend: [
    2,
    fc.record({
      kind: fc.constant('extend'),
      claims: fc.array(claim, { minLength: 1, maxLength: 3 }),
      forMs: one(10_000, 10_000, 40_000, 1),
    }),
  ],
  extendHeldBy: [1, fc.record({ kind: fc.constant('extendHeldBy'), worker, forMs: one(10_000, 30_000) })],
  appendChunks: [
    4,
    fc.record({
      kind: fc.constant('appendChunks'),
      claim,
      first: one('unsaid', 'next', 'next', 'repeat', 'gap'),
      count: fc.integer({ min: 0, max: 3 }),
      isPart: fc.boolean(),
    }),
  ],
  setProgress: [1, fc.record({ kind: fc.constant('setProgress'), claim })],
  settle: [
    5,
    fc.record({
      kind: fc.constant('settle'),
      claim,
      event: one('complete', 'fail', 'fail', 'timeOut'),
      executionMs: one(undefined, 0, 777, 60_000),
      chunks: one('unsaid', 'all', 'all', 'more'),
    }),
  ],
  release: [2, fc.record({ kind: fc.constant('release'), claim })],
  lose: [2, fc.record({ kind: fc.constant('lose'), claim, executionMs: one(0, 30, 9_000) })],
  cancel: [1, fc.record({ kind: fc.constant('cancel'), job })],
  retry: [3, fc.record({ kind: fc.constant('retry'), job })],
  purge: [1, fc.record({ kind: fc.constant('purge'), endpoint })],
  setTtl: [1, fc.record({ kind: fc.constant('setTtl'), job, ttlMs: one(1, 10_000, 50_000, 86_400_000) })],
  markRead: [1, fc.record({ kind: fc.constant('markRead'), job, index: fc.nat(4) })],
}

const verb = fc.oneof(
  ...Object.values(verbs).map(([weight, arbitrary]) => ({
    weight,
    arbitrary: arbitrary as fc.Arbitrary<Verb>,
  })),
)

const others: [number, fc.Arbitrary<Step>][] = [
  [3, fc.record({ kind: fc.constant('pass'), ms: one(1, 300, 5_000, 12_000, 60_000) })],
  [
    9,
    fc.record({
      kind: fc.constant('sweep'),
      afterMs: one(0, 1_000, 5_000, 10_000, 10_000, 10_000, 15_000),
      servedMs: one(1_000_000, 1_000_000, 1_000_000, 10_000, 1_500),
    }),
  ],
  [1, fc.record({ kind: fc.constant('pages'), endpoint, count: one(1, 2) })],
  [1, fc.record({ kind: fc.constant('firstChunk'), job, after: one(undefined, 0, 1, 2) })],
  [
    2,
    fc.record({
      kind: fc.constant('claim'),
      count: one(1, 2, 10),
      holdMs: one(15_000, 1),
      without: one(undefined, undefined, undefined, 'https://one.example'),
    }),
  ],
  [1, fc.record({ kind: fc.constant('drop'), delivery: fc.nat(3) })],
  [1, fc.record({ kind: fc.constant('postpone'), delivery: fc.nat(3), byMs: one(0, 500, 10_000) })],
  [1, fc.record({ kind: fc.constant('turn') })],
  [1, fc.record({ kind: fc.constant('reopen'), how: one<'close' | 'crash'>('close', 'crash') })],
]

/** Mostly one verb at a time, sometimes a few in one turn of the event loop. */
export const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 38, arbitrary: verb.map((only): Step => ({ kind: 'verbs', verbs: [only] })) },
  {
    weight: 6,
    arbitrary: fc
      .array(verb, { minLength: 2, maxLength: 4 })
      .map((several): Step => ({ kind: 'verbs', verbs: several })),
  },
  ...others.map(([weight, arbitrary]) => ({ weight, arbitrary })),
)
