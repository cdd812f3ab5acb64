// What clients, workers and servers were told, in the order in which they were told it, and whether that keeps the promises.

import { isDeepStrictEqual } from 'node:util'
import { isEnded, type JobStatus } from '../../src/job/lifecycle.ts'

/** A record as a client was shown it; what else it has is compared too. */
export interface SeenRecord {
  status: JobStatus
  attempt?: number
  output?: unknown
  [more: string]: unknown
}

export interface SeenChunk {
  index: number
  attempt?: number
  output: unknown
}

export interface SeenCounts {
  completed: number
  failed: number
  retried: number
  inQueue: number
  inProgress: number
}

export type Told =
  /** A client was given the id of its submission. */
  | { kind: 'submitted'; id: string }
  /** A client's retry was accepted. */
  | { kind: 'retried'; id: string }
  /** From here on the ttl or the retention may delete the job. */
  | { kind: 'mayGo'; id: string }
  /** A client looked; no record: it is not there. */
  | { kind: 'seen'; id: string; record?: SeenRecord | undefined }
  /** A client read the whole stream of a job. */
  | { kind: 'read'; id: string; chunks: readonly SeenChunk[] }
  /** Somebody with a right to read looked at the counters. */
  | { kind: 'counted'; counts: SeenCounts }
  | { kind: 'leased'; id: string; lease: string; worker: string }
  /** A worker was told that chunks up to this ordinal of its lease are stored; `outputs` are all it made, in order. */
  | { kind: 'streamed'; id: string; lease: string; stored: number; outputs: readonly unknown[] }
  /** A worker was told what became of its result. */
  | {
      kind: 'settled'
      id: string
      lease: string
      worker: string
      answer: 'accepted' | 'stale'
      status: JobStatus
      output?: unknown
    }

export type Promised =
  | 'no acknowledged submission is lost'
  | 'one result at most is accepted'
  | 'an accepted result is of the lease that held the job'
  | 'an end stays as it is'
  | 'chunks are whole and in order'
  | 'counters are what happened'

export interface Finding {
  promise: Promised
  job?: string
  says: string
}

type Of<K extends Told['kind']> = Told & { kind: K }

export class History {
  readonly #told: Told[] = []

  tell(told: Told): void {
    this.#told.push(told)
  }

  /** What breaks a promise; empty when all are kept. To be asked when all is quiet and every job was looked at. */
  findings(): Finding[] {
    const lives = new Map<string, Told[]>()
    for (const told of this.#told) {
      if ('id' in told) lives.set(told.id, [...(lives.get(told.id) ?? []), told])
    }
    const ofJobs = [...lives].flatMap(([job, told]) =>
      checks.flatMap(([promise, check]) => check(told).map((says) => ({ promise, job, says }))),
    )
    const ofAll = wrongCounters(this.#told, [...lives.values()])
    return [...ofJobs, ...ofAll.map((says): Finding => ({ promise: 'counters are what happened', says }))]
  }

  /** Throws with all that was found. */
  check(): void {
    const findings = this.findings()
    if (findings.length === 0) return
    const lines = findings.map(
      ({ promise, job, says }) => `${job === undefined ? '' : `Job ${job}: `}${says} (${promise})`,
    )
    throw new Error(`${findings.length} findings in ${this.#told.length} events:\n${lines.join('\n')}`)
  }
}

/** Each takes what was told of one job, and says what is wrong with it. */
const checks: readonly [Promised, (told: readonly Told[]) => string[]][] = [
  ['no acknowledged submission is lost', lostSubmission],
  ['one result at most is accepted', secondResults],
  ['an accepted result is of the lease that held the job', resultsOfOthers],
  ['an end stays as it is', changedEnds],
  ['chunks are whole and in order', brokenStream],
]

export function lostSubmission(told: readonly Told[]): string[] {
  if (!has(told, 'submitted')) return []
  const mayGo = has(told, 'mayGo')
  const seen = all(told, 'seen')
  const last = seen.at(-1)
  if (!last) return ['it was acknowledged, and nobody looked at it.']
  if (!last.record) return mayGo ? [] : ['it was acknowledged, and is gone before its time.']
  if (isEnded(last.record.status)) return []
  return [`it was acknowledged, and is left ${last.record.status}.`]
}

export function secondResults(told: readonly Told[]): string[] {
  return livesOf(told).flatMap((life) => {
    const leases = all(life, 'settled').flatMap(({ answer, lease }) => (answer === 'accepted' ? [lease] : []))
    // The answer to one report may be heard twice; two leases are two results.
    const distinct = [...new Set(leases)]
    return distinct.length > 1 ? [`results were accepted under ${distinct.join(' and ')}.`] : []
  })
}

export function resultsOfOthers(told: readonly Told[]): string[] {
  const leases = all(told, 'leased')
  return livesOf(told).flatMap((life) =>
    all(life, 'settled').flatMap((settled) => {
      if (settled.answer === 'stale') return []
      const { lease, worker, output } = settled
      const own = leases.find((given) => given.lease === lease)
      if (!own) return [`a result was accepted under ${lease}, which nobody was given.`]
      if (own.worker !== worker)
        return [`a result of ${worker} was accepted under ${lease} of ${own.worker}.`]
      const before = all(life.slice(0, life.indexOf(settled)), 'leased')
      const holder = before.at(-1)
      if (holder && holder.lease !== lease)
        return [`a result was accepted under ${lease} when ${holder.lease} of ${holder.worker} held the job.`]
      const ended = all(life, 'seen').find(({ record }) => record && isEnded(record.status))?.record
      if (!ended) return []
      if (ended.status !== settled.status)
        return [`${settled.status} was accepted under ${lease}, and the record is ${ended.status}.`]
      return isDeepStrictEqual(ended.output, output)
        ? []
        : [`${text(output)} was accepted under ${lease}, and the record has ${text(ended.output)}.`]
    }),
  )
}

export function changedEnds(told: readonly Told[]): string[] {
  return livesOf(told).flatMap((life) => {
    const seen = all(life, 'seen')
    const first = seen.findIndex(({ record }) => record && isEnded(record.status))
    const end = seen[first]?.record
    if (!end) return []
    return seen.slice(first + 1).flatMap(({ record }) => {
      if (!record) return has(told, 'mayGo') ? [] : [`it had ended ${end.status}, and then was gone.`]
      return isDeepStrictEqual(record, end)
        ? []
        : [`it had ended as ${text(end)}, and then was ${text(record)}.`]
    })
  })
}

export function brokenStream(told: readonly Told[]): string[] {
  return livesOf(told).flatMap((life) => {
    const reads = all(life, 'read')
    const findings = reads.flatMap(({ chunks }) => {
      const [first] = chunks
      const gap = chunks.find(({ index }, at) => index !== (first?.index ?? 0) + at)
      if (gap)
        return [
          `chunk ${gap.index} is not in its place among ${chunks.map(({ index }) => index).join(', ')}.`,
        ]
      const mixed = chunks.find(({ attempt }) => attempt !== first?.attempt)
      return mixed ? [`chunks of attempts ${first?.attempt} and ${mixed.attempt} are in one stream.`] : []
    })
    const accepted = all(life, 'settled').find(({ answer }) => answer === 'accepted')
    const made = all(life, 'streamed').findLast(({ lease }) => lease === accepted?.lease)
    const last = reads.at(-1)?.chunks.map(({ output }) => output)
    if (!made || !last) return findings
    if (made.stored < made.outputs.length)
      findings.push(
        `its end was accepted when ${made.stored} of its ${made.outputs.length} chunks were stored.`,
      )
    if (!isDeepStrictEqual(last, [...made.outputs]))
      findings.push(`its worker made ${text(made.outputs)}, and readers have ${text(last)}.`)
    return findings
  })
}

/** The counters that were read last, against the ends of all jobs. */
export function wrongCounters(told: readonly Told[], jobs: readonly (readonly Told[])[]): string[] {
  const counts = all(told, 'counted').at(-1)?.counts
  if (!counts) return []
  const expected: SeenCounts = { completed: 0, failed: 0, retried: 0, inQueue: 0, inProgress: 0 }
  for (const job of jobs) {
    expected.retried += all(job, 'retried').length
    for (const life of livesOf(job)) {
      const record = all(life, 'seen').findLast((seen) => seen.record)?.record
      if (!record) continue
      expected.retried += (record.attempt ?? 1) - 1
      if (record.status === 'COMPLETED') expected.completed += 1
      if (record.status === 'FAILED' || record.status === 'TIMED_OUT') expected.failed += 1
      if (record.status === 'IN_QUEUE') expected.inQueue += 1
      if (record.status === 'IN_PROGRESS') expected.inProgress += 1
    }
  }
  return (Object.keys(expected) as (keyof SeenCounts)[]).flatMap((name) =>
    counts[name] === expected[name] ? [] : [`${name} is ${counts[name]}, and ${expected[name]} happened.`],
  )
}

/** From the submission, or a retry, to the next retry. */
function livesOf(told: readonly Told[]): Told[][] {
  const lives: Told[][] = [[]]
  for (const one of told) {
    if (one.kind === 'retried') lives.push([])
    lives.at(-1)?.push(one)
  }
  return lives
}

function all<K extends Told['kind']>(told: readonly Told[], kind: K): Of<K>[] {
  return told.filter((one): one is Of<K> => one.kind === kind)
}

function has(told: readonly Told[], kind: Told['kind']): boolean {
  return told.some((one) => one.kind === kind)
}

function text(value: unknown): string {
  return JSON.stringify(value) ?? 'nothing'
}
