// What workers do to jobs in Redis: lease, start, keep alive, stream, settle, give back.

import { randomBytes } from 'node:crypto'
import type { TraceContext } from '../../job/job.ts'
import { limits } from '../../job/limits.ts'
import type {
  End,
  Fence,
  FencedAnswer,
  JobStore,
  LeaseAsk,
  LeaseTerm,
  LeasedJob,
  NewChunk,
} from '../job-store.ts'
import type { JobParts } from '../compose-jobs.ts'
import { numberOf, optional, textOf } from './reply.ts'
import type { Argument, Scripts } from './scripts.ts'
import { appendChunks, extend, lease, lose, release, setProgress, settle, start } from './worker-scripts.ts'

type WorkerVerbs = JobParts['worker']

/** Jobs that one lease looks at for nothing in one script: while it runs Redis does nothing else. */
const LOOKS = 500

export class RedisWorkerVerbs implements WorkerVerbs {
  readonly #scripts: Scripts

  constructor(scripts: Scripts) {
    this.#scripts = scripts
  }

  async lease(ask: LeaseAsk): Promise<LeasedJob[]> {
    const { now, worker, count, leaseMs, startsAtLease, notLostSince } = ask
    const args = [
      worker,
      count,
      leaseMs,
      startsAtLease ? startsAtLease.graceMs + limits.silentTimeoutMs : '',
      notLostSince ?? Number.MAX_SAFE_INTEGER,
      `${randomBytes(9).toString('base64url')}.`,
    ]
    let after: Argument | undefined = '-inf'
    while (after !== undefined) {
      const answered = await this.#scripts.run(lease, ask.endpoint, [now, ...args, after, LOOKS])
      const [rows, next] = answered as [(Buffer | null)[][], Buffer?]
      if (rows.length > 0) return rows.map(readLease)
      after = next
    }
    return []
  }

  async start(fence: Fence, report: Parameters<JobStore['start']>[1]): Promise<FencedAnswer> {
    const { now, agoMs, leaseMs, graceMs } = report
    const times = [now - agoMs, now + leaseMs, graceMs + limits.silentTimeoutMs]
    return answer(await this.#scripts.run(start, fence.endpoint, [now, ...holderOf(fence), ...times]))
  }

  async extend(
    endpoint: string,
    leases: readonly { id: string; lease: string }[],
    { now, leaseMs }: LeaseTerm,
  ): Promise<Set<string>> {
    const named = leases.flatMap(({ id, lease: token }) => [id, token])
    const args = [now, 'lease', now + leaseMs, ...named]
    const stale = (await this.#scripts.run(extend, endpoint, args)) as Buffer[]
    return new Set(stale.filter((_one, at) => at % 2 === 1).map(textOf))
  }

  async extendHeldBy(
    endpoint: string,
    worker: string,
    ids: readonly string[],
    { now, leaseMs }: LeaseTerm,
  ): Promise<Set<string>> {
    const named = ids.flatMap((id) => [id, worker])
    const args = [now, 'worker', now + leaseMs, ...named]
    const stale = (await this.#scripts.run(extend, endpoint, args)) as Buffer[]
    return new Set(stale.filter((_one, at) => at % 2 === 0).map(textOf))
  }

  async appendChunks(
    fence: Fence,
    report: Parameters<JobStore['appendChunks']>[1],
  ): ReturnType<JobStore['appendChunks']> {
    const { firstOrdinal, now } = report
    const stored = (await this.#scripts.run(appendChunks, fence.endpoint, [
      now,
      ...holderOf(fence),
      firstOrdinal ?? '',
      ...report.chunks.flatMap((chunk) => [headOf(chunk), asBuffer(chunk.output)]),
    ])) as number | null
    return stored === null ? { state: 'stale' } : { state: 'accepted', stored }
  }

  async setProgress(fence: Fence, progress: Uint8Array): Promise<FencedAnswer> {
    return answer(
      await this.#scripts.run(setProgress, fence.endpoint, [0, ...holderOf(fence), asBuffer(progress)]),
    )
  }

  async settle(...[fence, end, report]: Parameters<JobStore['settle']>): ReturnType<JobStore['settle']> {
    const { executionMs, chunks = 0, now } = report
    const said = await this.#scripts.run(settle, fence.endpoint, [
      now,
      ...holderOf(fence),
      end.event,
      executionMs ?? '',
      chunks,
      ...dataOf(end),
    ])
    return textOf(said as Buffer) as FencedAnswer | 'behind'
  }

  async release(fence: Fence, now: number): Promise<FencedAnswer> {
    return answer(await this.#scripts.run(release, fence.endpoint, [now, ...holderOf(fence)]))
  }

  async lose(...[fence, { error, executionMs, now }]: Parameters<JobStore['lose']>): Promise<FencedAnswer> {
    const args = [now, ...holderOf(fence), JSON.stringify(error), executionMs]
    return answer(await this.#scripts.run(lose, fence.endpoint, args))
  }
}

function holderOf(fence: Fence): string[] {
  return 'lease' in fence ? [fence.id, 'lease', fence.lease] : [fence.id, 'worker', fence.worker]
}

function answer(changed: unknown): FencedAnswer {
  return changed === 1 ? 'accepted' : 'stale'
}

function headOf({ metrics, part }: NewChunk): string {
  return JSON.stringify({ ...(metrics !== undefined && { metrics }), ...(part && { part }) })
}

function dataOf(end: End): Argument[] {
  const fields: Argument[] = []
  if ('output' in end && end.output) fields.push('output', asBuffer(end.output))
  if ('error' in end) fields.push('error', JSON.stringify(end.error))
  if ('errorText' in end && end.errorText !== undefined) fields.push('errorText', end.errorText)
  return fields
}

function readLease(row: (Buffer | null)[]): LeasedJob {
  const [id, token, attempt, limit, timeout, low, ttl, waited, alone, input, webhook, s3, trace] = row
  return {
    id: textOf(id),
    lease: textOf(token),
    attempt: numberOf(attempt),
    executionTimeoutMs: numberOf(limit),
    policy: {
      ...optional('executionTimeout', timeout, numberOf),
      lowPriority: textOf(low) === '1',
      ttl: numberOf(ttl),
    },
    input: input ?? Buffer.alloc(0),
    ...optional('webhook', webhook, textOf),
    ...optional('sealedS3Config', s3, (bytes) => bytes),
    ...optional('trace', trace, (value) => JSON.parse(textOf(value)) as TraceContext),
    waitedMs: numberOf(waited),
    isAlone: textOf(alone) === '1',
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
