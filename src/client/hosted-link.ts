// The exchange, spoken to the hosted platform: what the worker says becomes its posts, what it answers becomes leases and stops.

import { randomUUID } from 'node:crypto'
import type { Clock, Timer } from '../lib/clock.ts'
import type { Ack, ExchangeAnswer, ExchangeRequest, LeaseHead, LeaseRef, Stop } from '../protocol/exchange.ts'
import type { ExchangeLink, ExchangeReceived } from './exchange-client.ts'
import { Heartbeat } from './hosted-heartbeat.ts'
import type { TakenJob } from './hosted-job.ts'
import { HostedLane } from './hosted-lane.ts'
import { StopListener } from './hosted-stops.ts'
import { JobTaker } from './hosted-take.ts'
import { HostedWire, type HostedUrls } from './hosted-wire.ts'
import { QueueUnreachableError, type QueueRefusedError } from './http.ts'

export interface HostedLinkOptions {
  urls: HostedUrls
  workerId: string
  apiKey?: string | undefined
  pingIntervalMs: number
  /** How this worker calls itself, as in `longshore-1.2.3`. */
  version: string
  /** For reports of errors. */
  hostname: string
  clock: Clock
  /** Something that somebody should know of; `id` is the job that it is about. */
  onWarning: (message: string, id?: string) => void
}

/** Said to the worker, which divides it by two for how long a request may be held. */
const LEASE_MS = 30_000
/** A report waits so long for its posts; what ends meanwhile must not wait for one that is slow. */
const REPORT_MS = 20

/** A request of the worker that was not answered yet. */
interface Asker {
  isReport: boolean
  /** What it told and wants to see taken: per job the last chunk, and whether the end. */
  readonly goals: Map<string, { ref: LeaseRef; chunks: number; ended: boolean }>
  answer: () => void
  fail: (cause: Error) => void
}

export class HostedLink implements ExchangeLink {
  readonly handsBack = false
  readonly #options: HostedLinkOptions
  readonly #wire: HostedWire
  readonly #taker: JobTaker
  readonly #stops: StopListener
  readonly #heartbeat: Heartbeat
  /** Jobs that this worker holds for the platform, by id. */
  readonly #lanes = new Map<string, HostedLane>()
  /** Those that the worker has listed: it knows of them. */
  readonly #known = new Set<HostedLane>()
  readonly #askers = new Set<Asker>()
  readonly #acks = new Map<string, Ack>()
  #stopped: Stop[] = []
  #arrived: { head: LeaseHead; input: Uint8Array }[] = []
  #wanted = 0
  #isBegun = false
  #mayTake = false
  /** Why the platform could not be reached, until it is. */
  #trouble: QueueUnreachableError | undefined
  readonly #reach = {
    onAnswer: (): void => void (this.#trouble = undefined),
    onTrouble: (cause: QueueUnreachableError): void => void (this.#trouble = cause),
  }

  constructor(options: HostedLinkOptions) {
    this.#options = options
    const { urls, workerId, apiKey, version, clock, pingIntervalMs, onWarning } = options
    this.#wire = new HostedWire({ urls, workerId, apiKey, version })
    const wire = this.#wire
    const { onAnswer, onTrouble } = this.#reach
    this.#taker = new JobTaker({
      wire,
      clock,
      isBusy: () => this.#lanes.size > 0,
      onJobs: (jobs) => this.#take(jobs),
      onAnswer,
      onTrouble: (cause) => this.#failPolls(cause),
      onIdle: () => this.#releasePolls(),
      onWarning,
    })
    this.#stops = new StopListener({ wire, clock, onStops: (ids) => this.#stop(ids) })
    const held = (): string[] => [...this.#lanes.keys()]
    const intervalMs = pingIntervalMs
    this.#heartbeat = new Heartbeat({ wire, clock, intervalMs, held, onAnswer, onTrouble, onWarning })
  }

  /** Where jobs come from, for people. */
  get place(): string {
    return this.#wire.place
  }

  send(
    request: ExchangeRequest,
    payloads: readonly Uint8Array[],
    { timeoutMs, signal }: { timeoutMs: number; signal?: AbortSignal },
  ): Promise<ExchangeReceived> {
    this.#begin()
    const goals = this.#note(request, payloads)
    const isReport = goals.size > 0 || request.progress.length > 0
    return new Promise((resolve, reject) => {
      let timer: Timer | undefined
      const leave = (): void => {
        timer?.clear()
        signal?.removeEventListener('abort', giveUp)
        this.#askers.delete(asker)
      }
      const giveUp = (): void => asker.fail(signal?.reason)
      const asker: Asker = {
        isReport,
        goals,
        answer: () => {
          leave()
          resolve(this.#answer())
        },
        fail: (cause) => {
          leave()
          reject(cause)
        },
      }
      this.#askers.add(asker)
      if (signal?.aborted) return giveUp()
      signal?.addEventListener('abort', giveUp)
      timer = this.#options.clock.after(isReport ? REPORT_MS : timeoutMs / 2, () => this.#dismiss(asker))
      this.#want(request.want, asker)
      this.#wake()
    })
  }

  async close(): Promise<void> {
    this.#taker.close()
    this.#stops.close()
    this.#heartbeat.close()
    for (const lane of this.#lanes.values()) lane.close()
    for (const asker of this.#askers) asker.fail(new Error('The link to the queue is closed.'))
    await this.#wire.close()
  }

  #begin(): void {
    if (this.#isBegun) return
    this.#isBegun = true
    const { onWarning } = this.#options
    if (this.#wire.canStop) this.#stops.start()
    else onWarning('RUNPOD_WEBHOOK_GET_JOB has no /job-take/ in it: jobs cannot be stopped from outside.')
    if (!this.#wire.canPing) {
      onWarning('RUNPOD_WEBHOOK_PING is not set: the platform does not learn which jobs this worker holds.')
    }
    void this.#beginTaking()
  }

  /** The platform hears of a worker before that asks for a job. */
  async #beginTaking(): Promise<void> {
    if (this.#wire.canPing) await this.#heartbeat.start()
    this.#mayTake = true
    this.#taker.want(this.#wanted)
  }

  #want(count: number, asker: Asker): void {
    // Jobs that wait for a request to carry them are as good as given.
    this.#wanted = Math.max(0, count - this.#arrived.length)
    if (this.#mayTake) this.#taker.want(this.#wanted)
    if (asker.isReport) return
    // One request is held at a time. While a take is given up its request stays open: a job may still come of it.
    if (count > 0 || !this.#taker.isTaking) this.#releasePolls(asker)
  }

  /** Hands on what the request reports. Gives what of it is to be seen taken. */
  #note(request: ExchangeRequest, payloads: readonly Uint8Array[]): Asker['goals'] {
    const goals: Asker['goals'] = new Map()
    let at = 0
    const next = (): Uint8Array => payloads[at++] ?? new Uint8Array(0)
    const goalOf = ({ id, lease }: LeaseRef): { chunks: number; ended: boolean } => {
      const goal = goals.get(lease) ?? { ref: { id, lease }, chunks: 0, ended: false }
      goals.set(lease, goal)
      return goal
    }
    for (const report of request.chunks) {
      const output = next()
      goalOf(report).chunks = report.ordinal
      this.#laneOf(report)?.addChunk(report, output)
    }
    for (const report of request.progress) {
      const progress = next()
      this.#laneOf(report)?.setProgress(progress)
    }
    for (const ended of request.ended) {
      goalOf(ended).ended = true
      const output = ended.outcome === 'completed' && ended.bytes !== undefined ? next() : undefined
      const lane = this.#laneOf(ended)
      if (!lane) continue
      if (ended.outcome === 'released') this.#letGo(lane, { ended: true })
      else lane.end(ended, output)
    }
    this.#forgetUnlisted(request)
    return goals
  }

  /** Undefined for a job that is over, which is then told. */
  #laneOf({ id, lease }: LeaseRef): HostedLane | undefined {
    const lane = this.#lanes.get(id)
    if (lane?.ref.lease === lease) return lane
    if (!this.#acks.has(lease)) this.#acks.set(lease, { id, lease, state: 'stale' })
    return undefined
  }

  /** What the worker once listed and does not any more, without an end to tell, it has dropped. */
  #forgetUnlisted({ held }: ExchangeRequest): void {
    const listed = new Set(held.map(({ lease }) => lease))
    for (const lane of this.#lanes.values()) {
      if (listed.has(lane.ref.lease)) this.#known.add(lane)
      else if (this.#known.has(lane) && !lane.hasEnd) this.#remove(lane)
    }
  }

  #take(jobs: readonly TakenJob[]): number {
    let count = 0
    for (const { head, input } of jobs) {
      // Handed out twice: it runs here already.
      if (this.#lanes.has(head.id)) continue
      const ref: LeaseRef = { id: head.id, lease: randomUUID() }
      this.#lanes.set(head.id, this.#laneFor(ref))
      this.#arrived.push({ head: { ...head, ...ref }, input })
      count += 1
    }
    this.#wake()
    return count
  }

  #laneFor(ref: LeaseRef): HostedLane {
    const { workerId, hostname, version, clock, onWarning } = this.#options
    return new HostedLane(ref, {
      wire: this.#wire,
      clock,
      speaker: { workerId, hostname, version },
      onStored: (lane) => {
        this.#acks.set(ref.lease, { ...ref, state: 'accepted', chunks: lane.stored })
        this.#wake()
      },
      onOver: (lane, how) => {
        this.#letGo(lane, how === 'stale' ? { state: 'stale' } : { ended: true })
        this.#wake()
      },
      onFailing: () => {
        this.#acks.set(ref.lease, { ...ref, state: 'stale' })
        this.#wake()
      },
      ...this.#reach,
      onWarning,
    })
  }

  #stop(ids: readonly string[]): number {
    let count = 0
    for (const id of ids) {
      const lane = this.#lanes.get(id)
      if (!lane) continue
      this.#remove(lane)
      this.#acks.delete(lane.ref.lease)
      const waiting = this.#arrived.findIndex(({ head }) => head.id === id)
      if (waiting >= 0) this.#arrived.splice(waiting, 1)
      else this.#stopped.push({ ...lane.ref, reason: 'cancelled' })
      count += 1
    }
    this.#wake()
    return count
  }

  /** The job is over here; the worker is told. */
  #letGo(lane: HostedLane, how: Partial<Ack>): void {
    this.#remove(lane)
    const before = this.#acks.get(lane.ref.lease)
    // A run that is to be stopped is not over by its end alone.
    this.#acks.set(lane.ref.lease, { ...lane.ref, state: 'accepted', ...how, ...before })
  }

  #remove(lane: HostedLane): void {
    lane.close()
    this.#lanes.delete(lane.ref.id)
    this.#known.delete(lane)
  }

  /** Answers those who wait for what there is now. */
  #wake(): void {
    for (const asker of this.#askers) {
      const isDone = asker.isReport && [...asker.goals.values()].every((goal) => this.#isReached(goal))
      if (isDone) asker.answer()
    }
    const [first] = this.#askers
    if (!first) return
    const hasAcks = this.#acks.size > 0 && ![...this.#askers].some(({ isReport }) => isReport)
    if (hasAcks || this.#stopped.length > 0 || this.#arrived.length > 0) first.answer()
  }

  #isReached({ ref, chunks, ended }: { ref: LeaseRef; chunks: number; ended: boolean }): boolean {
    const lane = this.#lanes.get(ref.id)
    if (lane?.ref.lease !== ref.lease) return true
    return !ended && lane.stored >= chunks
  }

  /** Ends a request that waited for news: nobody is to take that for a sign that the platform is there. */
  #dismiss(asker: Asker): void {
    const isNews = this.#acks.size > 0 || this.#stopped.length > 0 || this.#arrived.length > 0
    if (this.#trouble && !isNews) asker.fail(this.#trouble)
    else asker.answer()
  }

  #failPolls(cause: QueueUnreachableError | QueueRefusedError): void {
    if (cause instanceof QueueUnreachableError) this.#trouble = cause
    for (const asker of this.#askers) if (!asker.isReport) asker.fail(cause)
  }

  #releasePolls(except?: Asker): void {
    const polls = [...this.#askers].filter(({ isReport }) => !isReport)
    const kept = except ?? polls.at(-1)
    for (const poll of polls) if (poll !== kept) this.#dismiss(poll)
  }

  #answer(): ExchangeReceived {
    const leases = this.#arrived.splice(0)
    const answer: ExchangeAnswer = {
      leaseMs: LEASE_MS,
      acks: [...this.#acks.values()],
      stops: this.#stopped.splice(0),
      leases: leases.map(({ head }) => head),
      drain: false,
    }
    this.#acks.clear()
    let at = 0
    return { answer, payloads: { take: () => leases[at++]?.input ?? new Uint8Array(0) } }
  }
}
