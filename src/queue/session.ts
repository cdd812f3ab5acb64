// One Longshore worker as this server sees it: the request it holds, the leases on their way to it, the stops it is owed.

import type { Ack, ExchangeRequest, LeaseRef, Stop } from '../protocol/exchange.ts'
import type { Fence } from '../store/job-store.ts'
import type { OpenedJob } from './lease-line.ts'

/** What an answer says; leases still have their inputs beside them. */
export interface SessionAnswer {
  acks: Ack[]
  stops: Stop[]
  leases: OpenedJob[]
}

export interface HeldRequest {
  seq: number
  answer(answer: SessionAnswer): void
}

interface Given {
  leases: Map<string, LeaseRef>
  stops: Stop[]
}

/** How many unanswered requests are remembered, should the worker say that an answer never came. */
const REMEMBERED_ANSWERS = 64

export class Session {
  readonly id: string
  readonly endpoint: string
  readonly worker: string
  lastSeq = -1
  held: HeldRequest | undefined
  extendAt = 0
  /** Jobs that requests being answered just now have asked for, and when the last of them has got what it gets. */
  asking = 0
  asked: Promise<unknown> = Promise.resolve()
  aliveUntil = 0
  /** Whether another worker has come by this one's id: it gets no more jobs. */
  isReplaced = false
  /** Whether its last answer told it to leave, as far as is known. */
  isToldToDrain = false
  readonly replaced: Map<string, Session>
  readonly #stops = new Map<string, Stop>()
  readonly #answered = new Map<number, Given>()
  readonly #confirmed = new Map<string, LeaseRef>()
  /** Of what was given here, the leases of jobs of low priority. Those from before this server are not known to be. */
  readonly #low = new Set<string>()

  constructor(ids: { id: string; endpoint: string; worker: string; replaced?: Map<string, Session> }) {
    this.id = ids.id
    this.endpoint = ids.endpoint
    this.worker = ids.worker
    this.replaced = ids.replaced ?? new Map<string, Session>()
  }

  /** How many leases were given that the worker has not spoken of yet. */
  get inFlight(): number {
    let leases = 0
    for (const answered of this.#answered.values()) leases += answered.leases.size
    return leases
  }

  /** Notes what an answer carries, until the worker shows that it came. */
  answering(seq: number, leases: readonly OpenedJob[], stops: Stop[]): void {
    if (leases.length === 0 && stops.length === 0) return
    const given: Given = this.#answered.get(seq) ?? { leases: new Map(), stops: [] }
    for (const lease of leases) {
      given.leases.set(lease.lease, lease)
      if (lease.policy.lowPriority) this.#low.add(lease.lease)
    }
    given.stops.push(...stops)
    this.#answered.set(seq, given)
    for (const oldest of this.#answered.keys()) {
      if (this.#answered.size <= REMEMBERED_ANSWERS) break
      this.#answered.delete(oldest)
    }
  }

  /** Takes what the worker says it has. Answers the leases it has confirmed but not before this request. */
  confirm(request: ExchangeRequest): LeaseRef[] {
    const listed = new Set<string>()
    const fresh: LeaseRef[] = []
    for (const ref of request.held) {
      listed.add(ref.lease)
      if (!this.#confirmed.has(ref.lease)) fresh.push(ref)
    }
    this.#confirmed.clear()
    for (const ref of request.held) this.#confirmed.set(ref.lease, ref)
    for (const { lease } of request.ended) listed.add(lease)
    for (const [seq, given] of this.#answered) {
      for (const lease of given.leases.keys()) if (listed.has(lease)) given.leases.delete(lease)
      if (given.leases.size === 0 && given.stops.length === 0) this.#answered.delete(seq)
      // An answer that a later request does not call failed has come; its stops are known.
      else if (seq < request.seq && !request.failed?.includes(seq)) given.stops = []
    }
    for (const lease of this.#low) if (!this.#isOut(lease)) this.#low.delete(lease)
    return fresh
  }

  /** The leases that went with an answer that never came; its stops are owed again. */
  undelivered(seq: number): LeaseRef[] {
    this.isToldToDrain = false
    const given = this.#answered.get(seq)
    if (!given) return []
    this.#answered.delete(seq)
    for (const stop of given.stops) this.oweStop(stop)
    return [...given.leases.values()]
  }

  oweStop(stop: Stop): void {
    // The first reason told is the nearest to the cause.
    if (!this.#stops.has(stop.lease)) this.#stops.set(stop.lease, stop)
    for (const given of this.#answered.values()) given.leases.delete(stop.lease)
  }

  takeStops(): Stop[] {
    const stops = [...this.#stops.values()]
    this.#stops.clear()
    return stops
  }

  /** What it said last that it has. */
  get confirmed(): LeaseRef[] {
    return [...this.#confirmed.values()]
  }

  /** With what is on its way to it. */
  get holds(): number {
    return this.#confirmed.size + this.inFlight
  }

  /** Of these, jobs of low priority. */
  get holdsLowPriority(): number {
    let jobs = 0
    for (const lease of this.#low) if (this.#isOut(lease)) jobs += 1
    return jobs
  }

  #isOut(lease: string): boolean {
    if (this.#confirmed.has(lease)) return true
    for (const given of this.#answered.values()) if (given.leases.has(lease)) return true
    return false
  }

  answerHeld(answer: SessionAnswer): void {
    const held = this.held
    this.held = undefined
    held?.answer(answer)
  }
}

export const NOTHING_TO_SAY: SessionAnswer = { acks: [], stops: [], leases: [] }

/** The right to speak for one of a session's leases. */
export function fenceOf(session: Session, ref: LeaseRef): Fence {
  return { endpoint: session.endpoint, id: ref.id, lease: ref.lease }
}
