// A store as plain maps and arrays: what the contract's words and the lifecycle table say, and nothing of an engine.

import { isAllowed, isEnded, transitions, type JobEvent, type JobStatus } from '../../src/job/lifecycle.ts'
import type { JobError } from '../../src/job/job.ts'
import { limits } from '../../src/job/limits.ts'
import type {
  End,
  Enqueued,
  Fence,
  FencedAnswer,
  JobPage,
  JobRecord,
  JobStore,
  LeaseAsk,
  LeaseTerm,
  LeasedJob,
  NewJob,
  Refused,
  StoredChunk,
  StreamRead,
} from '../../src/store/job-store.ts'
import type { StopCause, StoreEvent } from '../../src/store/store-event.ts'
import type { Delivery } from '../../src/store/webhook-store.ts'

export interface ModelJob {
  readonly made: NewJob
  readonly submission: number
  status: JobStatus
  reason?: string | undefined
  /** Its place in line. */
  place: number
  attempt: number
  worker?: string | undefined
  isAlone: boolean
  ttlMs: number
  goneAt: number
  endedAt?: number | undefined
  hasSecret: boolean
  idleFrom: number
  ranMs: number
  lastRunMs?: number | undefined
  lease?: { token: string; until: number; isSpokenOf: boolean } | undefined
  startedAt?: number | undefined
  deadline?: number | undefined
  lapse?: { worker: string; at: number } | undefined
  output?: Uint8Array | undefined
  error?: JobError | undefined
  errorText?: string | undefined
  progress?: Uint8Array | undefined
  chunks: StoredChunk[]
  lastIndex: number
  leaseIndex: number
  readIndex: number
}

export interface ModelDelivery {
  readonly job: string
  readonly origin: string
  readonly told: Omit<Delivery, 'id' | 'attempt'>
  tries: number
  dueAt: number
  /** As the store under test named it when it was first claimed. */
  id?: string
}

type Answer<V extends keyof JobStore> = Awaited<ReturnType<JobStore[V]>>
type Report<V extends keyof JobStore> = Parameters<JobStore[V]>[1]

export class ModelStore {
  readonly jobs = new Map<string, ModelJob>()
  deliveries: ModelDelivery[] = []
  /** What has been told since this was last emptied. */
  events: StoreEvent[] = []
  /** Which rows of the lifecycle table have been taken. */
  readonly happened = new Set<JobEvent>()
  /** Several servers use the store: a round of one of them counts for all. */
  readonly #isShared: boolean
  readonly #sums = new Map<string, { completed: number; failed: number; retried: number }>()
  readonly #arrived = new Map<string, number>()
  readonly #sweepers = new Set<string>()
  /** When each part of the store was swept last, or was caught up with: of servers that share it, each endpoint is one. */
  readonly #sweptAt = new Map<string, number>()
  readonly #caughtUp = new Set<string>()
  readonly #parts: readonly string[]
  #servedMs = 0
  #submissions = 0
  #places = 0

  constructor({ isShared, endpoints }: { isShared: boolean; endpoints: readonly string[] }) {
    this.#isShared = isShared
    this.#parts = isShared ? endpoints : ['all']
  }

  enqueue(made: NewJob): Enqueued {
    const { idempotency, now } = made
    const earlier = [...this.jobs.values()].find(
      (job) =>
        idempotency !== undefined &&
        job.made.endpoint === made.endpoint &&
        job.made.idempotency?.key === idempotency.key &&
        isHere(job, now),
    )
    if (earlier) {
      const { id } = earlier.made
      const isSame = earlier.made.idempotency?.bodyHash === idempotency?.bodyHash
      return isSame ? { kind: 'duplicate', id, status: earlier.status } : { kind: 'conflict', id }
    }
    this.jobs.set(made.id, {
      made,
      submission: (this.#submissions += 1),
      status: 'IN_QUEUE',
      place: (this.#places += 1),
      attempt: 1,
      isAlone: false,
      ttlMs: made.policy.ttl,
      goneAt: now + made.policy.ttl,
      hasSecret: made.sealedS3Config !== undefined,
      idleFrom: now,
      ranMs: 0,
      chunks: [],
      lastIndex: 0,
      leaseIndex: 0,
      readIndex: 0,
    })
    const arrived = this.#arrived.get(made.endpoint) ?? 0
    this.#arrived.set(made.endpoint, arrived + (made.policy.lowPriority ? 0 : 1))
    this.events.push({ kind: 'queued', endpoint: made.endpoint })
    return { kind: 'created', id: made.id, status: 'IN_QUEUE' }
  }

  /** The tokens are the store's to make: `bindLease` says which it made. */
  lease(ask: LeaseAsk): LeasedJob[] {
    const { worker, notLostSince, now } = ask
    this.#catchUp(ask.endpoint, now)
    const isWithheld = ({ lapse }: ModelJob): boolean =>
      notLostSince !== undefined && lapse?.worker === worker && lapse.at > notLostSince
    const next = this.#waiting(ask.endpoint, now).filter((job) => !isWithheld(job))
    return next.slice(0, ask.count).map((job) => {
      const leased = leasedJob(job, now)
      this.happened.add('lease')
      job.status = transitions.lease.to
      job.reason = undefined
      job.worker = worker
      job.lease = { token: `unknown to ${job.made.id}`, until: now + ask.leaseMs, isSpokenOf: false }
      job.leaseIndex = job.lastIndex
      job.lastRunMs = undefined
      if (ask.startsAtLease) startClocks(job, now, ask.startsAtLease.graceMs)
      return leased
    })
  }

  bindLease(id: string, token: string): void {
    const lease = this.jobs.get(id)?.lease
    if (lease) lease.token = token
  }

  start(fence: Fence, { agoMs, graceMs, leaseMs, now }: Report<'start'>): FencedAnswer {
    this.#catchUp(fence.endpoint, now)
    const job = this.#held(fence, now)
    if (!job) return 'stale'
    if (job.startedAt === undefined) startClocks(job, now - agoMs, graceMs)
    this.happened.add('start')
    this.#extend(job, { now, leaseMs })
    return 'accepted'
  }

  extend(endpoint: string, leases: readonly { id: string; lease: string }[], term: LeaseTerm): Set<string> {
    this.#catchUp(endpoint, term.now)
    const stale = leases.filter(({ id, lease }) => !this.#extend(this.#held({ endpoint, id, lease }), term))
    return new Set(stale.map(({ lease }) => lease))
  }

  extendHeldBy(endpoint: string, worker: string, ids: readonly string[], term: LeaseTerm): Set<string> {
    this.#catchUp(endpoint, term.now)
    return new Set(ids.filter((id) => !this.#extend(this.#held({ endpoint, id, worker }), term)))
  }

  appendChunks(fence: Fence, { firstOrdinal, chunks, now }: Report<'appendChunks'>): Answer<'appendChunks'> {
    const job = this.#held(fence, now)
    if (!job) return { state: 'stale' }
    const stored = job.lastIndex - job.leaseIndex
    const first = firstOrdinal ?? stored + 1
    if (first > stored + 1) return { state: 'accepted', stored }
    const fresh = chunks.slice(stored + 1 - first)
    for (const { output, metrics, part } of fresh) {
      const index = (job.lastIndex += 1)
      job.chunks.push({
        index,
        attempt: job.attempt,
        output,
        ...(metrics !== undefined && { metrics }),
        ...(part && { part: { as: part.as, first: index - part.back, last: part.last } }),
      })
    }
    if (fresh.length > 0) this.events.push({ kind: 'chunks', endpoint: fence.endpoint, id: fence.id })
    return { state: 'accepted', stored: stored + fresh.length }
  }

  setProgress(fence: Fence, progress: Uint8Array): FencedAnswer {
    const job = this.#held(fence)
    if (!job) return 'stale'
    job.progress = progress
    this.events.push({ kind: 'progress', endpoint: fence.endpoint, id: fence.id })
    return 'accepted'
  }

  settle(
    fence: Fence,
    end: End,
    report: { executionMs?: number; chunks?: number; now: number },
  ): Answer<'settle'> {
    const job = this.#held(fence, report.now)
    if (!job) return 'stale'
    if (job.lastIndex - job.leaseIndex < (report.chunks ?? 0)) return 'behind'
    endRun(job, report.now, report.executionMs)
    job.output = 'output' in end ? end.output : undefined
    job.error = 'error' in end ? end.error : undefined
    job.errorText = 'errorText' in end ? end.errorText : undefined
    this.#finish(job, end.event, report.now)
    return 'accepted'
  }

  release(fence: Fence, now: number): FencedAnswer {
    const job = this.#held(fence, now)
    if (!job) return 'stale'
    endRun(job, now)
    job.worker = undefined
    this.#giveBack(job, 'release')
    return 'accepted'
  }

  lose(fence: Fence, { error, executionMs, now }: Report<'lose'>): FencedAnswer {
    const job = this.#held(fence, now)
    if (!job) return 'stale'
    endRun(job, now, executionMs)
    if (job.attempt < limits.maxAttempts.default) {
      job.worker = undefined
      job.isAlone = true
      this.#giveBack(job, 'lose')
    } else {
      job.error = error
      this.#finish(job, 'fail', now)
    }
    return 'accepted'
  }

  cancel(endpoint: string, id: string, now: number): Answer<'cancel'> {
    const job = this.#find(endpoint, id, now)
    if (!job) return { kind: 'not-found' }
    if (isAllowed('cancel', job.status)) {
      if (job.lease) this.#stop(job, 'cancelled')
      if (job.lease) endRun(job, now)
      this.#finish(job, 'cancel', now)
    }
    return { kind: 'done', status: job.status }
  }

  retry(endpoint: string, id: string, now: number): { kind: 'done'; status: JobStatus } | Refused {
    const job = this.#find(endpoint, id, now)
    if (!job) return { kind: 'not-found' }
    const { status, made, ttlMs } = job
    if (!isAllowed('retry', status)) return { kind: 'wrong-status', status }
    if (made.now + ttlMs <= now) return { kind: 'ttl-passed' }
    this.deliveries = this.deliveries.filter((delivery) => delivery.job !== id)
    Object.assign(job, {
      place: (this.#places += 1),
      attempt: 1,
      isAlone: false,
      worker: undefined,
      goneAt: made.now + ttlMs,
      endedAt: undefined,
      idleFrom: now,
      ranMs: 0,
      lastRunMs: undefined,
      output: undefined,
      error: undefined,
      errorText: undefined,
    })
    this.#giveBack(job, 'retry')
    return { kind: 'done', status: job.status }
  }

  purge(endpoint: string, now: number): number {
    const waiting = this.#waiting(endpoint, now)
    for (const job of waiting) this.#finish(job, 'purge', now)
    return waiting.length
  }

  setTtl(endpoint: string, id: string, ttlMs: number, now: number): void {
    const job = this.#find(endpoint, id, now)
    if (!job || isEnded(job.status)) return
    job.ttlMs = ttlMs
    job.goneAt = job.made.now + ttlMs
    if (job.goneAt <= now) this.#remove(job)
  }

  find(endpoint: string, id: string, now: number): JobRecord | undefined {
    const job = this.#find(endpoint, id, now)
    return job && recordOf(job, now)
  }

  /** Without the name of the next page. */
  list(endpoint: string, now: number): JobPage['jobs'] {
    const jobs = [...this.jobs.values()].filter((job) => job.made.endpoint === endpoint && isHere(job, now))
    return jobs
      .toSorted((a, b) => b.submission - a.submission)
      .map((job) => {
        const { output: _o, progress: _p, errorText: _t, ...summary } = recordOf(job, now)
        return { ...summary, ...(job.endedAt !== undefined && { endedAt: job.endedAt }) }
      })
  }

  /** All chunks of the answer; a bound on their bytes may cut it after the first of them. */
  readChunks(endpoint: string, id: string, read: { after?: number; now: number }): StreamRead {
    const job = this.#find(endpoint, id, read.now)
    if (!job) return { kind: 'gone' }
    const { status, lastIndex, leaseIndex } = job
    const after = read.after ?? job.readIndex
    return { kind: 'read', status, chunks: job.chunks.filter((c) => c.index > after), lastIndex, leaseIndex }
  }

  markRead(endpoint: string, id: string, index: number): void {
    const job = this.jobs.get(id)
    if (job?.made.endpoint === endpoint) job.readIndex = Math.max(job.readIndex, index)
  }

  /** `count` takes no time: what is past and not yet swept may be in it or not. */
  count(endpoint: string, now: number): Answer<'count'> & { pastInQueue: number; pastInProgress: number } {
    const jobs = [...this.jobs.values()].filter(({ made }) => made.endpoint === endpoint)
    const countOf = (status: JobStatus, isPast: boolean): number =>
      jobs.filter((job) => job.status === status && isHere(job, now) !== isPast).length
    return {
      ...this.#sumsOf(endpoint),
      inQueue: countOf('IN_QUEUE', false),
      inProgress: countOf('IN_PROGRESS', false),
      pastInQueue: countOf('IN_QUEUE', true),
      pastInProgress: countOf('IN_PROGRESS', true),
    }
  }

  /** What is past and not yet swept may be in the first two or not. */
  load(endpoint: string, now: number): Answer<'load'> & { past: number; pastLow: number } {
    const inLine = [...this.jobs.values()].filter(
      ({ made, status }) => made.endpoint === endpoint && status === 'IN_QUEUE',
    )
    const numberOf = (isLow: boolean, isPast: boolean): number =>
      inLine.filter((job) => job.made.policy.lowPriority === isLow && isHere(job, now) !== isPast).length
    const first = this.#waiting(endpoint, now).find(({ made }) => !made.policy.lowPriority)
    const { completed, failed } = this.#sumsOf(endpoint)
    return {
      waiting: numberOf(false, false),
      waitingLowPriority: numberOf(true, false),
      oldestWaitMs: first ? Math.max(0, now - first.idleFrom - first.ranMs) : 0,
      arrived: this.#arrived.get(endpoint) ?? 0,
      ended: completed + failed,
      past: numberOf(false, true),
      pastLow: numberOf(true, true),
    }
  }

  headWaitedMs(endpoint: string, now: number): number {
    const [head] = this.#waiting(endpoint, now)
    return head ? Math.max(0, now - head.idleFrom - head.ranMs) : 0
  }

  /** Of these past jobs some may be removed before, where another verb met them. */
  sweep(
    now: number,
    { leaseMs, servedMs }: Parameters<JobStore['sweep']>[1],
    sweeper: string,
  ): { handled: number; removed: number } {
    this.#grantUnservedTime(now, { leaseMs, servedMs }, sweeper)
    const all = [...this.jobs.values()]
    const past = all.filter((job) => !isHere(job, now))
    for (const job of past) this.#remove(job)
    const running = (): ModelJob[] => [...this.jobs.values()].filter(({ lease }) => lease !== undefined)
    const late = running().filter(({ deadline }) => deadline !== undefined && deadline <= now)
    for (const job of late) this.#failSilent(job, 'timeOut', now)
    const lapsed = running().filter(({ lease }) => lease && lease.until <= now)
    for (const job of lapsed) this.#lapse(job, now)
    const stale = [...this.jobs.values()].filter(
      (job) => job.hasSecret && isAllowed('retry', job.status) && job.made.now + job.ttlMs <= now,
    )
    for (const job of stale) job.hasSecret = false
    return { handled: late.length + lapsed.length + stale.length, removed: past.length }
  }

  /** Those that may be claimed now; among those due at the same time any may come first. */
  due(without: readonly string[], now: number): ModelDelivery[] {
    const due = this.deliveries.filter(({ dueAt, origin }) => dueAt <= now && !without.includes(origin))
    return due.toSorted((a, b) => a.dueAt - b.dueAt)
  }

  nextDeliveryAt(): number | undefined {
    return this.deliveries.length === 0 ? undefined : Math.min(...this.deliveries.map(({ dueAt }) => dueAt))
  }

  /** The store was closed, or its process died, and another has opened it. */
  reopened(): void {
    if (!this.#isShared) this.#sweptAt.clear()
  }

  #grantUnservedTime(
    now: number,
    { leaseMs, servedMs }: { leaseMs: number; servedMs: number },
    sweeper: string,
  ): void {
    const isFirst = !this.#sweepers.has(sweeper)
    this.#sweepers.add(sweeper)
    this.#servedMs = servedMs
    for (const part of this.#parts) {
      const sweptAt = this.#sweptAt.get(part)
      const wasCaughtUp = this.#caughtUp.delete(part)
      this.#sweptAt.set(part, now)
      const gap = sweptAt !== undefined && now - sweptAt > servedMs ? now - sweptAt : 0
      const isNew = sweptAt === undefined || (isFirst && (gap > 0 || wasCaughtUp))
      this.#giveTime(part, { gap, atLeast: isNew ? now + leaseMs : 0 })
    }
  }

  /** Who comes before the sweep makes up for the time as that would. */
  #catchUp(endpoint: string, now: number): void {
    const part = this.#isShared ? endpoint : 'all'
    const sweptAt = this.#sweptAt.get(part)
    if (sweptAt === undefined || now - sweptAt <= this.#servedMs) return
    this.#sweptAt.set(part, now)
    this.#caughtUp.add(part)
    this.#giveTime(part, { gap: now - sweptAt, atLeast: 0 })
  }

  #giveTime(part: string, { gap, atLeast }: { gap: number; atLeast: number }): void {
    for (const job of this.jobs.values()) {
      if (!job.lease || (this.#isShared && job.made.endpoint !== part)) continue
      job.lease.until = Math.max(job.lease.until + gap, atLeast)
      if (job.deadline !== undefined) job.deadline = Math.max(job.deadline + gap, atLeast)
    }
  }

  #lapse(job: ModelJob, now: number): void {
    const { lease, startedAt, worker = '' } = job
    job.lapse = { worker, at: now }
    if (lease?.isSpokenOf === false && startedAt === undefined) {
      this.#stop(job, 'lease-lost')
      endRun(job, now)
      return this.#giveBack(job, 'release')
    }
    if (job.attempt >= limits.maxAttempts.default) return this.#failSilent(job, 'lapseLast', now)
    this.#stop(job, 'lease-lost')
    endRun(job, now)
    this.#giveBack(job, 'lapse')
  }

  #failSilent(job: ModelJob, event: 'timeOut' | 'lapseLast', now: number): void {
    this.#stop(job, event === 'timeOut' ? 'timeout' : 'lease-lost')
    endRun(job, now)
    // The words are the engine's; that they name the worker is checked.
    const [type, code] =
      event === 'timeOut' ? ['TimeoutError', 'TIMED_OUT'] : ['WorkerLostError', 'WORKER_LOST']
    job.error = { type, code, message: `worker ${job.worker ?? ''} ` }
    this.#finish(job, event, now)
  }

  #giveBack(job: ModelJob, event: 'release' | 'lapse' | 'lose' | 'retry'): void {
    const { to, reason } = transitions[event]
    const { endpoint, id } = job.made
    this.happened.add(event)
    job.chunks = []
    job.status = to
    job.reason = reason
    if (event === 'lapse' || event === 'lose') job.attempt += 1
    if (event !== 'release') this.#sumsOf(endpoint).retried += 1
    this.events.push({ kind: 'changed', endpoint, id, status: to }, { kind: 'queued', endpoint })
  }

  #finish(
    job: ModelJob,
    event: JobEvent & ('complete' | 'fail' | 'timeOut' | 'cancel' | 'purge' | 'lapseLast'),
    now: number,
  ): void {
    const transition = transitions[event]
    const { endpoint, id, webhook, dialect, input, trace, retentionMs } = job.made
    this.happened.add(event)
    job.status = transition.to
    job.reason = 'reason' in transition ? transition.reason : undefined
    job.endedAt = now
    job.goneAt = now + retentionMs
    if (!isAllowed('retry', job.status)) job.hasSecret = false
    if (job.status === 'COMPLETED') this.#sumsOf(endpoint).completed += 1
    if (job.status === 'FAILED' || job.status === 'TIMED_OUT') this.#sumsOf(endpoint).failed += 1
    this.events.push({ kind: 'changed', endpoint, id, status: job.status })
    if (webhook === undefined) return
    this.events.push({ kind: 'webhook' })
    const told = { url: webhook, record: recordOf(job, now), input }
    this.deliveries.push({
      job: id,
      origin: new URL(webhook).origin,
      told: { ...told, ...(dialect && { dialect }), ...(trace && { trace }) },
      tries: 0,
      dueAt: now,
    })
  }

  #remove(job: ModelJob): void {
    const { endpoint, id } = job.made
    this.jobs.delete(id)
    this.happened.add(isEnded(job.status) ? 'forget' : 'expire')
    if (isEnded(job.status)) return
    if (job.lease) this.#stop(job, 'expired')
    this.events.push({ kind: 'changed', endpoint, id, status: 'deleted' })
  }

  #stop({ made: { endpoint, id }, worker = '', lease }: ModelJob, reason: StopCause): void {
    this.events.push({ kind: 'stop', endpoint, worker, id, lease: lease?.token ?? '', reason })
  }

  #extend(job: ModelJob | undefined, { now, leaseMs }: LeaseTerm): boolean {
    if (!job?.lease) return false
    job.lease.until = Math.max(job.lease.until, now + leaseMs)
    job.lease.isSpokenOf = true
    return true
  }

  /** Without `now` a job counts as there until it is removed. */
  #held(fence: Fence, now = -Infinity): ModelJob | undefined {
    const job = this.#find(fence.endpoint, fence.id, now)
    if (!job?.lease) return undefined
    const holds = 'lease' in fence ? job.lease.token === fence.lease : job.worker === fence.worker
    return holds ? job : undefined
  }

  #find(endpoint: string, id: string, now: number): ModelJob | undefined {
    const job = this.jobs.get(id)
    return job && job.made.endpoint === endpoint && isHere(job, now) ? job : undefined
  }

  #waiting(endpoint: string, now: number): ModelJob[] {
    const jobs = [...this.jobs.values()].filter((job) => job.made.endpoint === endpoint && isHere(job, now))
    return jobs.filter(({ status }) => status === 'IN_QUEUE').toSorted((a, b) => a.place - b.place)
  }

  #sumsOf(endpoint: string): { completed: number; failed: number; retried: number } {
    const sums = this.#sums.get(endpoint) ?? { completed: 0, failed: 0, retried: 0 }
    this.#sums.set(endpoint, sums)
    return sums
  }
}

/** A job past its ttl or its retention is not there. */
export function isHere({ goneAt }: ModelJob, now: number): boolean {
  return goneAt > now
}

function startClocks(job: ModelJob, at: number, graceMs: number): void {
  job.startedAt = at
  job.deadline = at + limitOf(job) + graceMs + limits.silentTimeoutMs
}

function limitOf({ made }: ModelJob): number {
  return made.policy.executionTimeout ?? limits.executionTimeoutMs.default
}

function endRun(job: ModelJob, now: number, measuredMs?: number): void {
  const ranMs = measuredMs ?? (job.startedAt === undefined ? 0 : Math.max(0, now - job.startedAt))
  job.ranMs += ranMs
  job.lastRunMs = ranMs
  job.startedAt = undefined
  job.deadline = undefined
  job.lease = undefined
  job.progress = undefined
}

function leasedJob(job: ModelJob, now: number): LeasedJob {
  const { id, policy, input, webhook, sealedS3Config, trace } = job.made
  return {
    id,
    lease: '',
    attempt: job.attempt,
    executionTimeoutMs: limitOf(job),
    policy: { ...policy, ttl: job.ttlMs },
    input,
    ...(webhook !== undefined && { webhook }),
    ...(job.hasSecret && sealedS3Config && { sealedS3Config }),
    ...(trace && { trace }),
    waitedMs: Math.max(0, now - job.idleFrom - job.ranMs),
    isAlone: job.isAlone,
  }
}

function recordOf(job: ModelJob, now: number): JobRecord {
  const runningMs = job.startedAt === undefined ? undefined : Math.max(0, now - job.startedAt)
  const until = job.endedAt ?? now
  const record = {
    id: job.made.id,
    endpoint: job.made.endpoint,
    status: job.status,
    reason: job.reason,
    attempt: job.attempt,
    workerId: job.worker,
    submittedAt: job.made.now,
    delayTime: Math.max(0, until - job.idleFrom - job.ranMs - (runningMs ?? 0)),
    executionTime: runningMs ?? job.lastRunMs ?? 0,
    output: job.output,
    error: job.error,
    errorText: job.errorText,
    progress: job.progress,
  }
  return Object.fromEntries(
    Object.entries(record).filter(([, value]) => value !== undefined),
  ) as unknown as JobRecord
}
