// A step's verb as one call, asked of the store under test and of the model alike.

import { policySchema } from '../../src/job/job.ts'
import { isAllowed } from '../../src/job/lifecycle.ts'
import type { End, Fence, LeasedJob, NewChunk, NewJob } from '../../src/store/job-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { Claim, Verb } from './history-steps.ts'
import { isHere, type ModelJob, type ModelStore } from './model.ts'

export const LEASE_MS = 10_000
const ERROR = { type: 'Error', message: 'no', code: 'HANDLER_ERROR' }
const TRACE = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` }

/** What the steps of one history refer to. */
export interface Stage {
  readonly model: ModelStore
  readonly endpoints: readonly [string, string]
  readonly now: number
  /** Every lease that was ever given. */
  readonly leases: readonly { id: string; lease: string }[]
  /** A number that no other call of this history has had. */
  readonly next: () => number
}

export interface Play {
  readonly words: string
  readonly ask: (store: Store) => Promise<unknown>
  readonly answer: () => unknown
}

type Of<K extends Verb['kind']> = Verb & { kind: K }

/** Undefined when there is nothing that the verb could be about. */
export function play(verb: Verb, stage: Stage): Play | undefined {
  switch (verb.kind) {
    case 'enqueue':
      return enqueue(verb, stage)
    case 'lease':
      return lease(verb, stage)
    case 'extend':
    case 'extendHeldBy':
      return extend(verb, stage)
    case 'cancel':
    case 'retry':
    case 'setTtl':
    case 'markRead':
    case 'purge':
      return byClient(verb, stage)
    default:
      return report(verb, stage)
  }
}

function enqueue(verb: Of<'enqueue'>, { model, endpoints, now, next }: Stage): Play {
  const id = `job-${next()}`
  const job: NewJob = {
    endpoint: endpoints[verb.endpoint],
    id,
    input: json({ id }),
    policy: policySchema.parse({ ttl: verb.ttl, executionTimeout: verb.timeout, lowPriority: verb.isHosted }),
    retentionMs: verb.retentionMs,
    ...(verb.webhook !== undefined && { webhook: verb.webhook }),
    ...(verb.isHosted && { dialect: 'hosted' as const, trace: TRACE }),
    ...(verb.hasSecret && { sealedS3Config: new Uint8Array([0, 255, 10, 7]) }),
    ...(verb.key !== undefined && { idempotency: { key: verb.key, bodyHash: verb.body } }),
    now,
  }
  return {
    words: `enqueue ${shown(verb)} as ${id}`,
    ask: (store) => store.jobs.enqueue(job),
    answer: () => model.enqueue(job),
  }
}

function lease(verb: Of<'lease'>, { model, endpoints, now }: Stage): Play {
  const ask = {
    endpoint: endpoints[verb.endpoint],
    worker: verb.worker,
    count: verb.count,
    leaseMs: LEASE_MS,
    ...(verb.graceMs !== undefined && { startsAtLease: { graceMs: verb.graceMs } }),
    ...(verb.notLostSinceAgo !== undefined && { notLostSince: now - verb.notLostSinceAgo }),
    now,
  }
  return {
    words: `lease ${shown(verb)}`,
    ask: (store) => store.jobs.lease(ask),
    answer: (): LeasedJob[] => model.lease(ask),
  }
}

function extend(verb: Of<'extend'> | Of<'extendHeldBy'>, stage: Stage): Play | undefined {
  const { model, now } = stage
  const term = { now, leaseMs: verb.forMs }
  if (verb.kind === 'extendHeldBy') {
    const here = [...model.jobs.values()].filter((job) => isHere(job, now)).map(({ made }) => made)
    const ids = here.filter(({ endpoint }) => endpoint === stage.endpoints[0]).map(({ id }) => id)
    const [endpoint] = stage.endpoints
    return {
      words: `extendHeldBy ${verb.worker} ${ids.join(', ')} for ${verb.forMs}`,
      ask: (store) => store.jobs.extendHeldBy(endpoint, verb.worker, ids, term),
      answer: () => model.extendHeldBy(endpoint, verb.worker, ids, term),
    }
  }
  const fences = verb.claims.flatMap((claim) => fenceOf(claim, stage, 'here') ?? [])
  const leases = fences.flatMap((fence) => ('lease' in fence ? [{ id: fence.id, lease: fence.lease }] : []))
  const endpoint = fences[0]?.endpoint
  if (endpoint === undefined) return undefined
  return {
    words: `extend ${leases.map(({ id, lease: token }) => `${id} under ${token}`).join(', ')} for ${verb.forMs}`,
    ask: (store) => store.jobs.extend(endpoint, leases, term),
    answer: () => model.extend(endpoint, leases, term),
  }
}

function report(
  verb: Of<'start' | 'appendChunks' | 'setProgress' | 'settle' | 'release' | 'lose'>,
  stage: Stage,
): Play | undefined {
  const { model, now } = stage
  const fence = fenceOf(verb.claim, stage, verb.kind === 'setProgress' ? 'here' : 'any')
  if (!fence) return undefined
  const by = 'lease' in fence ? fence.lease : fence.worker
  const words = `${verb.kind} ${fence.id} under ${by} ${shown(verb)}`
  switch (verb.kind) {
    case 'start': {
      const said = { agoMs: verb.agoMs, graceMs: verb.graceMs, leaseMs: LEASE_MS, now }
      return { words, ask: ({ jobs }) => jobs.start(fence, said), answer: () => model.start(fence, said) }
    }
    case 'appendChunks': {
      const said = chunksOf(verb, stage, fence.id)
      return {
        words,
        ask: ({ jobs }) => jobs.appendChunks(fence, said),
        answer: () => model.appendChunks(fence, said),
      }
    }
    case 'setProgress': {
      const value = json(stage.next())
      return {
        words,
        ask: ({ jobs }) => jobs.setProgress(fence, value),
        answer: () => model.setProgress(fence, value),
      }
    }
    case 'settle': {
      const [end, said] = endOf(verb, stage, fence.id)
      return {
        words,
        ask: ({ jobs }) => jobs.settle(fence, end, said),
        answer: () => model.settle(fence, end, said),
      }
    }
    case 'release':
      return { words, ask: ({ jobs }) => jobs.release(fence, now), answer: () => model.release(fence, now) }
    case 'lose': {
      const said = { error: ERROR, executionMs: verb.executionMs, now }
      return { words, ask: ({ jobs }) => jobs.lose(fence, said), answer: () => model.lose(fence, said) }
    }
    default:
      return verb satisfies never
  }
}

function byClient(
  verb: Of<'cancel' | 'retry' | 'setTtl' | 'markRead' | 'purge'>,
  { model, endpoints, now }: Stage,
): Play | undefined {
  if (verb.kind === 'purge') {
    const endpoint = endpoints[verb.endpoint]
    return {
      words: `purge ${endpoint}`,
      ask: ({ jobs }) => jobs.purge(endpoint, now),
      answer: () => model.purge(endpoint, now),
    }
  }
  const all = [...model.jobs.values()]
  // Few jobs can be retried: mostly one of them.
  const failed = all.filter(({ status }) => isAllowed('retry', status))
  const job = nth(verb.kind === 'retry' && verb.job > 1 && failed.length > 0 ? failed : all, verb.job)
  if (!job) return undefined
  const { endpoint, id } = job.made
  const words = `${verb.kind} ${id} ${shown(verb)}`
  switch (verb.kind) {
    case 'cancel':
      return {
        words,
        ask: ({ jobs }) => jobs.cancel(endpoint, id, now),
        answer: () => model.cancel(endpoint, id, now),
      }
    case 'retry':
      return {
        words,
        ask: ({ jobs }) => jobs.retry(endpoint, id, now),
        answer: () => model.retry(endpoint, id, now),
      }
    case 'setTtl': {
      // Counted from the submission: what is meant is an end about now.
      const ttlMs = now - job.made.now + verb.ttlMs - 1
      return {
        words,
        ask: ({ jobs }) => jobs.setTtl(endpoint, id, ttlMs, now),
        answer: () => model.setTtl(endpoint, id, ttlMs, now),
      }
    }
    case 'markRead':
      return {
        words,
        ask: ({ jobs }) => jobs.markRead(endpoint, id, verb.index),
        answer: () => model.markRead(endpoint, id, verb.index),
      }
    default:
      return verb satisfies never
  }
}

/** `here`: for verbs that are not told the time, of which nobody says what they do to a job that is past. */
function fenceOf(
  { job: at, by }: Claim,
  { model, now, leases }: Stage,
  which: 'here' | 'any',
): Fence | undefined {
  const matters = (job: ModelJob | undefined): boolean =>
    job !== undefined && (which === 'any' || isHere(job, now))
  if (by === 'former') {
    const known = nth(
      leases.filter(({ id }) => matters(model.jobs.get(id))),
      at,
    )
    const endpoint = known && model.jobs.get(known.id)?.made.endpoint
    return known && endpoint !== undefined ? { endpoint, ...known } : undefined
  }
  const running = [...model.jobs.values()].filter((job) => job.lease && matters(job))
  const job = nth(running, at)
  if (!job?.lease) return undefined
  const { endpoint, id } = job.made
  return by === 'worker'
    ? { endpoint, id, worker: at % 4 === 3 ? 'stranger' : (job.worker ?? '') }
    : { endpoint, id, lease: job.lease.token }
}

function chunksOf(
  { first, count, isPart }: Of<'appendChunks'>,
  { model, now, next }: Stage,
  id: string,
): { firstOrdinal?: number; chunks: NewChunk[]; now: number } {
  const { lastIndex = 0, leaseIndex = 0 } = model.jobs.get(id) ?? {}
  const stored = lastIndex - leaseIndex
  const firstOrdinal = { unsaid: undefined, next: stored + 1, repeat: Math.max(1, stored), gap: stored + 2 }[
    first
  ]
  const chunks = Array.from({ length: count }, (_, at): NewChunk => {
    const output = json(`chunk ${next()}`)
    if (!isPart) return { output }
    return { output, metrics: '{"n":1}', part: { as: 'text', back: at, last: at === count - 1 } }
  })
  return { ...(firstOrdinal !== undefined && { firstOrdinal }), chunks, now }
}

function endOf(
  { event, executionMs, chunks }: Of<'settle'>,
  { model, now, next }: Stage,
  id: string,
): [End, { executionMs?: number; chunks?: number; now: number }] {
  const { lastIndex = 0, leaseIndex = 0 } = model.jobs.get(id) ?? {}
  const made = { unsaid: undefined, all: lastIndex - leaseIndex, more: lastIndex - leaseIndex + 1 }[chunks]
  const said = {
    ...(executionMs !== undefined && { executionMs }),
    ...(made !== undefined && { chunks: made }),
    now,
  }
  const output = json(`output ${next()}`)
  if (event === 'complete') return [{ event, output }, said]
  if (event === 'timeOut') return [{ event, error: ERROR }, said]
  return [{ event, error: ERROR, errorText: 'in its own words', output }, said]
}

export function nth<T>(values: readonly T[], at: number): T | undefined {
  return values.length === 0 ? undefined : values[at % values.length]
}

export function json(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value))
}

/** Without what the words beside it say already. */
function shown(verb: Verb): string {
  const { kind: _kind, claim: _claim, job: _job, ...rest } = { claim: 0, job: 0, ...verb }
  return JSON.stringify(rest)
}
