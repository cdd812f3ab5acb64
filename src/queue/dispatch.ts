// What Longshore's own workers ask: the exchange, in which results, heartbeats, stops and leases travel together.

import type { Clock } from '../lib/clock.ts'
import type { Ack, ExchangeAnswer, ExchangeRequest, LeaseRef, PayloadReader } from '../protocol/exchange.ts'
import type { Store } from '../store/store.ts'
import type { StoreEvent } from '../store/store-event.ts'
import type { Drained } from './drained.ts'
import { readReports, writeReports } from './exchange-report.ts'
import { leaseHead } from './lease-head.ts'
import type { LeaseLine, OpenedJob } from './lease-line.ts'
import { fenceOf, NOTHING_TO_SAY, Session, type SessionAnswer } from './session.ts'
import type { Telemetry } from './telemetry.ts'
import type { Workers } from './workers.ts'

/** Workers that came before by the same id and may still speak. */
const REMEMBERED_SESSIONS = 16

export interface DispatchOptions {
  store: Store
  line: LeaseLine
  workers: Workers
  drained: Drained
  clock: Clock
  /** How long a lease lives without being listed; a request is held for half of it at most. */
  leaseMs: number
  telemetry: Telemetry
  onError: (cause: unknown) => void
}

export interface ExchangeReply {
  head: ExchangeAnswer
  payloads: Uint8Array[]
  /** To be called when the reply could not be written: its leases go back. */
  undelivered(): Promise<void>
}

export class Dispatch {
  readonly #options: DispatchOptions
  readonly #sessions = new Map<string, Session>()
  readonly #stopWatching: () => void
  #isClosing = false

  constructor(options: DispatchOptions) {
    this.#options = options
    this.#stopWatching = options.store.watch((event) => this.#onStoreEvent(event))
  }

  /** Handles one request of a worker. The answer waits only while there is nothing to say; `gone` ends the wait. */
  async exchange(
    endpoint: string,
    worker: string,
    request: ExchangeRequest,
    payloads: PayloadReader,
    gone: AbortSignal,
  ): Promise<ExchangeReply> {
    const { store, clock, leaseMs, telemetry } = this.#options
    const session = this.#sessionOf(endpoint, worker, request.session)
    const isNewest = request.seq > session.lastSeq
    if (isNewest) {
      session.lastSeq = request.seq
      session.answerHeld(NOTHING_TO_SAY)
    }
    this.#keep(session)
    // Payloads are read before anything is awaited or written: a body that is too short changes nothing.
    const reports = readReports(request, payloads)
    const fresh = session.confirm(request)
    this.#hear(session)
    const givenBack = (request.failed ?? []).map((seq) => this.#giveBack(session, seq))
    const acks = writeReports({ store, telemetry }, session, reports, { leaseMs, now: clock.now() })
    const stale = this.#keepAlive(session, request, fresh)
    const needsAnswer =
      request.ended.length + request.chunks.length + request.progress.length > 0 || givenBack.length > 0
    const leases = needsAnswer ? this.#leaseAtOnce(session, request, isNewest) : Promise.resolve([])

    const answer = await this.#allOrNothing(session, acks, leases, Promise.all([...givenBack, stale]))
    for (const ref of await stale) session.oweStop({ ...ref, reason: 'lease-lost' })
    answer.stops = session.takeStops()
    const hasSomething =
      this.#mustLeave(session, request.want) || needsAnswer || answer.acks.length + answer.stops.length > 0
    // What is still being leased for another request counts against this one's wish, and only that.
    if (!hasSomething) await session.asked
    if (hasSomething || session.lastSeq !== request.seq) return this.#reply(session, request.seq, answer)
    return this.#reply(session, request.seq, await this.#hold(session, request, gone))
  }

  /** Answers every held request; from now on nobody is leased anything. */
  close(): void {
    this.#isClosing = true
    this.#stopWatching()
    for (const session of this.#sessions.values()) session.answerHeld(NOTHING_TO_SAY)
  }

  #sessionOf(endpoint: string, worker: string, id: string): Session {
    const known = this.#sessions.get(keyOf({ endpoint, worker }))
    if (known?.id === id) return known
    // Another worker has come by this id: the one before may end its jobs, and gets no more.
    const replaced = known?.replaced ?? new Map<string, Session>()
    const former = replaced.get(id)
    if (former) return former
    if (known) {
      known.isReplaced = true
      known.answerHeld(NOTHING_TO_SAY)
      replaced.set(known.id, known)
    }
    const session = new Session({ id, endpoint, worker, replaced })
    for (const oldest of replaced.keys()) if (replaced.size > REMEMBERED_SESSIONS) replaced.delete(oldest)
    return session
  }

  /** From now on it is leased nothing, and told to end after the jobs that it has. What is being leased for it goes back. */
  drain(endpoint: string, worker: string): void {
    this.#options.drained.add(endpoint, worker)
    const session = this.#sessions.get(keyOf({ endpoint, worker }))
    if (session && !session.isToldToDrain) session.answerHeld(NOTHING_TO_SAY)
  }

  forget(endpoint: string, worker: string): void {
    this.#options.drained.delete(endpoint, worker)
    this.#sessions.get(keyOf({ endpoint, worker }))?.answerHeld(NOTHING_TO_SAY)
    this.#sessions.delete(keyOf({ endpoint, worker }))
  }

  #isDraining({ isReplaced, endpoint, worker }: Session): boolean {
    return isReplaced || this.#options.drained.has(endpoint, worker)
  }

  /** Whether it has to be told to leave at once. One that knows, and runs its last jobs, is held as ever. */
  #mustLeave(session: Session, want: number): boolean {
    return this.#isDraining(session) && (want > 0 || !session.isToldToDrain)
  }

  #keep(session: Session): void {
    const { clock, leaseMs } = this.#options
    const now = clock.monotonic()
    session.aliveUntil = now + leaseMs
    // Kept in the order in which they were heard, so that the silent ones stand first.
    if (!session.isReplaced) {
      this.#sessions.delete(keyOf(session))
      this.#sessions.set(keyOf(session), session)
    }
    for (const [key, other] of this.#sessions) {
      if (other.aliveUntil + leaseMs >= now) break
      this.#sessions.delete(key)
    }
  }

  #hear(session: Session): void {
    const { leaseMs, workers } = this.#options
    const { endpoint, worker, holds, holdsLowPriority } = session
    workers.hear(endpoint, worker, { holds, lowPriority: holdsLowPriority, aliveMs: leaseMs })
  }

  async #giveBack(session: Session, seq: number): Promise<void> {
    const { store, clock } = this.#options
    const refs = session.undelivered(seq)
    await Promise.all(refs.map((ref) => store.jobs.release(fenceOf(session, ref), clock.now())))
  }

  /** Extends what is new to this server at once and the rest now and then; answers what the worker has lost. */
  async #keepAlive(
    session: Session,
    request: ExchangeRequest,
    fresh: readonly LeaseRef[],
  ): Promise<LeaseRef[]> {
    const { store, clock, leaseMs } = this.#options
    const isDue = clock.monotonic() >= session.extendAt
    if (isDue) session.extendAt = clock.monotonic() + leaseMs / 8
    // A start has just extended its lease by itself.
    const started = new Set(request.started.map(({ lease }) => lease))
    const due = (isDue ? request.held : fresh).filter(({ lease }) => !started.has(lease))
    if (due.length === 0) return []
    const stale = await store.jobs.extend(session.endpoint, due, { now: clock.now(), leaseMs })
    return due.filter(({ lease }) => stale.has(lease))
  }

  /** For a worker that is speaking anyway: what it wants and is not on its way to it already. */
  async #leaseAtOnce(session: Session, request: ExchangeRequest, isNewest: boolean): Promise<OpenedJob[]> {
    const count = request.want - session.inFlight - session.asking
    if (!isNewest || this.#isClosing || this.#isDraining(session) || count <= 0) return []
    const { line, leaseMs } = this.#options
    session.asking += count
    const asked = line
      .leaseNow(session.endpoint, { worker: session.worker, count, leaseMs })
      .finally(() => (session.asking -= count))
      .then((leases) => {
        session.answering(request.seq, leases, [])
        return leases
      })
    session.asked = asked.catch(() => undefined)
    return asked
  }

  /** When a report could not be written the worker gets no answer and sends it again; leases must not be lost with it. */
  async #allOrNothing(
    session: Session,
    acks: Promise<Ack[]>,
    leases: Promise<OpenedJob[]>,
    rest: Promise<unknown>,
  ): Promise<SessionAnswer> {
    const [written, leased, others] = await Promise.allSettled([acks, leases, rest])
    if (written.status === 'fulfilled' && leased.status === 'fulfilled' && others.status === 'fulfilled') {
      return { acks: written.value, stops: [], leases: leased.value }
    }
    if (leased.status === 'fulfilled') this.#putBack(session, leased.value)
    throw [written, leased, others].find((result) => result.status === 'rejected')?.reason
  }

  #putBack(session: Session, leases: readonly OpenedJob[]): void {
    const { store, clock, onError } = this.#options
    for (const lease of leases) store.jobs.release(fenceOf(session, lease), clock.now()).catch(onError)
  }

  #hold(session: Session, { seq, want }: ExchangeRequest, gone: AbortSignal): Promise<SessionAnswer> {
    const { clock, line, leaseMs } = this.#options
    const count = this.#isClosing || this.#isDraining(session) ? 0 : want - session.inFlight
    return new Promise((resolve) => {
      const answer = (said: SessionAnswer): void => {
        timer.clear()
        gone.removeEventListener('abort', leave)
        leaveLine()
        resolve(said)
      }
      const leave = (): void => {
        if (session.held?.seq === seq) session.answerHeld(NOTHING_TO_SAY)
      }
      const timer = clock.after(leaseMs / 2, leave)
      gone.addEventListener('abort', leave, { once: true })
      let leaveLine = (): void => undefined
      session.held = { seq, answer }
      if (count > 0) {
        leaveLine = line.join(session.endpoint, {
          ask: { worker: session.worker, count, leaseMs },
          take: (leases) => this.#hand(session, seq, leases, gone),
        })
      }
      if (gone.aborted || this.#isClosing || this.#mustLeave(session, want)) leave()
    })
  }

  /** Gives leases to the request they were asked for; when that was answered meanwhile they go back. */
  #hand(session: Session, seq: number, leases: OpenedJob[], gone: AbortSignal): void {
    if (session.held?.seq === seq && !gone.aborted) return session.answerHeld({ acks: [], stops: [], leases })
    this.#putBack(session, leases)
  }

  #reply(session: Session, seq: number, { acks, stops, leases }: SessionAnswer): ExchangeReply {
    const drain = this.#isDraining(session)
    session.answering(seq, leases, stops)
    session.isToldToDrain = drain
    if (leases.length > 0) this.#hear(session)
    return {
      head: {
        leaseMs: this.#options.leaseMs,
        acks,
        stops,
        leases: leases.map(leaseHead),
        drain,
      },
      payloads: leases.map((lease) => lease.input),
      undelivered: () => this.#giveBack(session, seq),
    }
  }

  #onStoreEvent(event: StoreEvent): void {
    if (event.kind === 'missed') return this.#lookForStops(event.endpoint)
    if (event.kind !== 'stop') return
    const session = this.#sessions.get(keyOf(event))
    if (!session) return
    for (const one of [session, ...session.replaced.values()]) {
      one.oweStop({ id: event.id, lease: event.lease, reason: event.reason })
    }
    this.#tellStops(session)
  }

  #tellStops(session: Session): void {
    if (session.held) session.answerHeld({ acks: [], stops: session.takeStops(), leases: [] })
  }

  /** A stop may have been missed: the store knows which leases hold. */
  #lookForStops(endpoint: string): void {
    for (const session of this.#sessions.values()) {
      const held = session.confirmed
      if (session.endpoint !== endpoint || held.length === 0) continue
      this.#lookForStopsOf(session, held).catch(this.#options.onError)
    }
  }

  async #lookForStopsOf(session: Session, held: readonly LeaseRef[]): Promise<void> {
    // Asked alone: nobody has said here that they live.
    const { store, clock } = this.#options
    const stale = await store.jobs.extend(session.endpoint, held, { now: clock.now(), leaseMs: 0 })
    for (const ref of held) if (stale.has(ref.lease)) session.oweStop({ ...ref, reason: 'lease-lost' })
    if (stale.size > 0) this.#tellStops(session)
  }
}

function keyOf({ endpoint, worker }: { endpoint: string; worker: string }): string {
  return `${endpoint}/${worker}`
}
