// Random histories on an engine and on a plain model of it, compared in everything that can be seen after every step.

import { isDeepStrictEqual } from 'node:util'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { transitions, type JobEvent } from '../../src/job/lifecycle.ts'
import type { JobPage, LeasedJob } from '../../src/store/job-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { StoreEvent } from '../../src/store/store-event.ts'
import { steps, type Step, type Verb } from './history-steps.ts'
import { isHere, ModelStore, type ModelDelivery } from './model.ts'
import { LEASE_MS, nth, play, type Play, type Stage } from './plays.ts'

/** The data of one history and the servers on it. */
export interface EngineOfHistory {
  /** One server, or two that speak in turn. */
  readonly stores: readonly Store[]
  readonly endpoints: readonly [string, string]
  /** `crash`: without the grace of a close. Whatever was answered is there after either. */
  reopen(at: number, how: 'close' | 'crash'): Promise<void>
  dispose(): Promise<void>
}

const T0 = 1_750_000_000_000

/** How many histories make one test run; LONGSHORE_HISTORIES sets another number, LONGSHORE_SEED repeats a run. */
export function describeHistories(
  name: string,
  { histories, open }: { histories: number; open: () => Promise<EngineOfHistory> },
): void {
  describe(`${name} store`, () => {
    const { LONGSHORE_HISTORIES, LONGSHORE_SEED } = process.env
    const numRuns = Number(LONGSHORE_HISTORIES ?? histories)
    const timeout = 120_000 + numRuns * 1_000
    it(`does in ${numRuns} random histories what its contract says`, { timeout }, async () => {
      const happened = new Set<JobEvent>()
      const property = fc.asyncProperty(
        fc.commands([steps.map((step) => new Command(step))], { maxCommands: 40, size: 'max' }),
        fc.boolean(),
        async (commands, isServed) => {
          const world = await World.open(await open(), isServed)
          try {
            await fc.asyncModelRun(() => ({ model: world.model, real: world }), commands)
            await world.finish()
          } finally {
            for (const event of world.model.happened) happened.add(event)
            await world.close()
          }
        },
      )
      await fc.assert(property, {
        numRuns,
        ...(LONGSHORE_SEED !== undefined && { seed: Number(LONGSHORE_SEED) }),
      })
      // Histories in which nothing happens would prove nothing.
      if (numRuns >= 1_000) expect([...happened].toSorted()).toEqual(Object.keys(transitions).toSorted())
    })
  })
}

class Command implements fc.AsyncCommand<ModelStore, World> {
  readonly #step: Step

  constructor(step: Step) {
    this.#step = step
  }

  check(): boolean {
    return true
  }

  run(_model: ModelStore, world: World): Promise<void> {
    return world.take(this.#step)
  }

  toString(): string {
    return JSON.stringify(this.#step)
  }
}

class World implements Stage {
  readonly model: ModelStore
  readonly #engine: EngineOfHistory
  /** The endpoints of the jobs that were ever made, by their ids. */
  readonly #made = new Map<string, string>()
  /** What was expected of a read when it was last made. */
  readonly #compared = new Map<string, string>()
  readonly #told: { at: number; event: StoreEvent }[] = []
  readonly #unwatch: (() => void)[] = []
  /** Deletions that were told before a sweep, by a verb that met a job that was past. */
  readonly #toldEarly = new Set<string>()
  readonly #history: string[] = []
  readonly leases: { id: string; lease: string }[] = []
  #at = 0
  #openings = 0
  #sweepers: string[] = []
  #numbers = 0
  now = T0

  private constructor(engine: EngineOfHistory) {
    this.#engine = engine
    this.model = new ModelStore({ isShared: engine.stores.length > 1, endpoints: engine.endpoints })
  }

  /** `isServed`: a first sweep, which gives every lease time, is over when the history begins. */
  static async open(engine: EngineOfHistory, isServed: boolean): Promise<World> {
    const world = new World(engine)
    for (const endpoint of engine.endpoints) await engine.stores[0]?.endpoints.ensureEndpoint(endpoint)
    for (const at of engine.stores.keys()) world.#watch(at)
    if (isServed) await world.take({ kind: 'sweep', afterMs: 0, servedMs: 0 })
    return world
  }

  /** Whatever the last steps did not touch is still as it was, at every server. */
  async finish(): Promise<void> {
    for (const at of this.#engine.stores.keys()) {
      this.#compared.clear()
      await this.take({ kind: 'turn' })
      this.#note(`the end at server ${at}`)
    }
  }

  async close(): Promise<void> {
    for (const unwatch of this.#unwatch) unwatch()
    await this.#engine.dispose()
  }

  get endpoints(): readonly [string, string] {
    return this.#engine.endpoints
  }

  readonly next = (): number => (this.#numbers += 1)

  async take(step: Step): Promise<void> {
    try {
      // What was told to the other server may come at any time.
      this.#told.length = 0
      this.model.events = []
      const past = this.#past()
      await this.#do(step)
      this.#compareEvents(past)
      await this.#compareAll()
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`${this.#history.join('\n')}\n${why}`, { cause })
    }
  }

  get #store(): Store {
    const store = this.#engine.stores[this.#at]
    if (!store) throw new Error('There is no such store.')
    return store
  }

  #watch(at: number): void {
    this.#sweepers[at] = `server ${(this.#openings += 1)}`
    const store = this.#engine.stores[at]
    if (store) this.#unwatch[at] = store.watch((event) => this.#told.push({ at, event }))
  }

  #note(words: string): void {
    this.#history.push(`${String(this.#history.length + 1).padStart(3)}. ${this.now - T0} ms: ${words}`)
  }

  async #do(step: Step): Promise<void> {
    switch (step.kind) {
      case 'verbs':
        return this.#verbs(step.verbs)
      case 'pass':
        this.now += step.ms
        return this.#note(`after ${step.ms} ms`)
      case 'sweep':
        return this.#sweep(step)
      case 'pages':
        return this.#pages(step)
      case 'firstChunk':
        return this.#firstChunk(step)
      case 'claim':
        return this.#claim(step)
      case 'drop':
      case 'postpone':
        return this.#deliver(step)
      case 'turn':
        this.#at = (this.#at + 1) % this.#engine.stores.length
        return this.#note(`server ${this.#at} speaks`)
      case 'reopen':
        this.#note(`${step.how} of server ${this.#at}, and open again`)
        this.#unwatch[this.#at]?.()
        await this.#engine.reopen(this.#at, step.how)
        this.model.reopened()
        this.#compared.clear()
        return this.#watch(this.#at)
      default:
        return step satisfies never
    }
  }

  /** Asked in one turn of the event loop, they take effect in this order. */
  async #verbs(verbs: readonly Verb[]): Promise<void> {
    const plays = verbs.flatMap((verb) => play(verb, this) ?? [])
    this.#note(plays.map(({ words }) => words).join(' + ') || 'nothing to do')
    const asked = plays.map(({ ask }) => ask(this.#store))
    const answers: [Play, unknown, unknown][] = []
    for (const [at, real] of (await Promise.all(asked)).entries()) {
      const one = plays[at]
      if (one) answers.push([one, real, one.answer()])
    }
    for (const [{ words }, real, expected] of answers) this.#answered(words, real, expected)
  }

  #answered(words: string, real: unknown, expected: unknown): void {
    for (const { made } of this.model.jobs.values()) this.#made.set(made.id, made.endpoint)
    if (!words.startsWith('lease')) return same(words, real, expected)
    const leased = real as LeasedJob[]
    same(
      words,
      leased.map((job) => ({ ...job, lease: '' })),
      expected,
    )
    for (const { id, lease } of leased) {
      if (this.leases.some((known) => known.lease === lease))
        throw new Error(`${words}: the token is not a new one.`)
      this.leases.push({ id, lease })
      this.model.bindLease(id, lease)
    }
  }

  async #sweep({ afterMs, servedMs }: Step & { kind: 'sweep' }): Promise<void> {
    this.now += afterMs
    this.#note(`after ${afterMs} ms sweep, served within ${servedMs}`)
    const served = { leaseMs: LEASE_MS, servedMs }
    const real = await this.#store.jobs.sweep(this.now, served)
    const { handled, removed } = this.model.sweep(this.now, served, this.#sweepers[this.#at] ?? '')
    if (real < handled || real > handled + removed)
      throw new Error(`sweep answers ${real}, not ${handled} and up to ${removed} that were removed before.`)
  }

  async #pages({ endpoint: which, count }: Step & { kind: 'pages' }): Promise<void> {
    const endpoint = this.endpoints[which]
    this.#note(`list ${endpoint} in pages of ${count}`)
    const jobs: JobPage['jobs'] = []
    let before: string | undefined
    do {
      const page: JobPage = await this.#store.jobs.list(endpoint, {
        count,
        now: this.now,
        ...(before !== undefined && { before }),
      })
      if (page.next !== undefined && page.jobs.length !== count) throw new Error('A page is not full.')
      jobs.push(...page.jobs)
      before = page.next
    } while (before !== undefined)
    same('pages', jobs, this.model.list(endpoint, this.now))
  }

  async #firstChunk({ job, after }: Step & { kind: 'firstChunk' }): Promise<void> {
    const made = nth([...this.model.jobs.values()], job)?.made
    if (!made) return this.#note('nothing to do')
    this.#note(`read one chunk of ${made.id} after ${after ?? 'its read position'}`)
    const ask = { now: this.now, ...(after !== undefined && { after }) }
    const real = await this.#store.jobs.readChunks(made.endpoint, made.id, { ...ask, maxBytes: 1 })
    const all = this.model.readChunks(made.endpoint, made.id, ask)
    same('read', real, all.kind === 'read' ? { ...all, chunks: all.chunks.slice(0, 1) } : all)
  }

  async #claim({ count, holdMs, without }: Step & { kind: 'claim' }): Promise<void> {
    this.#note(`claim ${count} deliveries for ${holdMs} ms, without ${without ?? 'nothing'}`)
    const outer = without === undefined ? [] : [without]
    const due = this.model.due(outer, this.now)
    const claimed = await this.#store.webhooks.claimDeliveries({
      count,
      holdMs,
      without: outer,
      now: this.now,
    })
    const found = claimed.map(({ record }) => due.find(({ job }) => job === record.id))
    // Among those due at the same time any may come first.
    same(
      'the times that what was claimed was due',
      found.map((delivery) => delivery?.dueAt),
      due.slice(0, count).map(({ dueAt }) => dueAt),
    )
    if (new Set(found).size !== found.length) throw new Error('A delivery was claimed twice.')
    for (const [at, { id, attempt, ...told }] of claimed.entries()) {
      const delivery = found[at]
      if (!delivery) continue
      same(
        `delivery of ${delivery.job}`,
        { ...told, attempt },
        { ...delivery.told, attempt: delivery.tries + 1 },
      )
      if (delivery.id !== undefined) same('its id', id, delivery.id)
      delivery.id = id
      delivery.dueAt = this.now + holdMs
    }
  }

  async #deliver(step: Step & { kind: 'drop' | 'postpone' }): Promise<void> {
    const { webhooks } = this.#store
    const known = this.model.deliveries.filter(({ id }) => id !== undefined)
    const delivery: ModelDelivery | undefined = nth(known, step.delivery)
    if (delivery?.id === undefined) return this.#note('nothing to do')
    this.#note(`${step.kind} the delivery of ${delivery.job}`)
    if (step.kind === 'drop') {
      await webhooks.dropDelivery(delivery.id)
      this.model.deliveries = this.model.deliveries.filter((one) => one !== delivery)
    } else {
      delivery.dueAt = this.now + step.byMs
      delivery.tries += 1
      await webhooks.postponeDelivery(delivery.id, delivery.dueAt)
    }
  }

  #past(): Set<string> {
    return new Set(
      [...this.model.jobs.values()].filter((job) => !isHere(job, this.now)).map(({ made }) => made.id),
    )
  }

  /** What another verb met past its ttl may be deleted, and told of, before a sweep comes by; it is told of once. */
  #compareEvents(pastBefore: ReadonlySet<string>): void {
    const past = new Set([...pastBefore, ...this.#past()])
    const told = this.#told.filter(({ at, event }) => at === this.#at && event.kind !== 'missed')
    const expected = new Set(this.model.events.map(nameOf))
    for (const name of this.#toldEarly) expected.delete(name)
    const found = new Set<string>()
    for (const { event } of told) {
      const name = nameOf(event)
      const isEarly = 'id' in event && past.has(event.id) && isDeletion(event)
      if (this.#toldEarly.has(name)) throw new Error(`It is told again that ${name}.`)
      if (isEarly && !expected.has(name)) this.#toldEarly.add(name)
      else found.add(name)
    }
    same('events', [...found].toSorted(), [...expected].toSorted())
  }

  /** Lists and counts are read after every step; what else there is when it is to have changed, and at the end. */
  async #compareAll(): Promise<void> {
    const { jobs, webhooks } = this.#store
    const { model, now } = this
    const reads: Promise<void>[] = []
    const read = (words: string, ask: () => Promise<unknown>, expected: unknown, isAlways = false): void => {
      const text = JSON.stringify(plain(expected)) ?? ''
      if (!isAlways && this.#compared.get(words) === text) return
      this.#compared.set(words, text)
      reads.push(ask().then((real) => same(words, real, expected)))
    }
    for (const [id, endpoint] of this.#made) {
      read(`find ${id}`, () => jobs.find(endpoint, id, now), model.find(endpoint, id, now))
      for (const after of model.jobs.get(id)?.lastIndex ? [undefined, 0] : []) {
        const ask = { now, ...(after !== undefined && { after }) }
        const chunks = (): Promise<unknown> => jobs.readChunks(endpoint, id, { ...ask, maxBytes: 1e6 })
        read(`chunks of ${id} after ${after}`, chunks, model.readChunks(endpoint, id, ask))
      }
    }
    for (const endpoint of new Set(this.#made.values())) {
      const list = { jobs: model.list(endpoint, now) }
      read(`list ${endpoint}`, () => jobs.list(endpoint, { count: 100, now }), list, true)
      const waitedMs = model.headWaitedMs(endpoint, now)
      read(`headWaitedMs ${endpoint}`, () => jobs.headWaitedMs(endpoint, now), waitedMs)
      reads.push(this.#compareCount(endpoint), this.#compareLoad(endpoint))
    }
    read('nextDeliveryAt', () => webhooks.nextDeliveryAt(), model.nextDeliveryAt())
    await Promise.all(reads)
  }

  async #compareCount(endpoint: string): Promise<void> {
    const real = await this.#store.jobs.count(endpoint)
    const { pastInQueue, pastInProgress, ...expected } = this.model.count(endpoint, this.now)
    const { inQueue, inProgress } = real
    same(
      `count ${endpoint}`,
      {
        ...real,
        inQueue: within(inQueue, expected.inQueue, pastInQueue),
        inProgress: within(inProgress, expected.inProgress, pastInProgress),
      },
      expected,
    )
  }

  async #compareLoad(endpoint: string): Promise<void> {
    const real = await this.#store.jobs.load(endpoint, this.now)
    const { past, pastLow, ...expected } = this.model.load(endpoint, this.now)
    same(
      `load ${endpoint}`,
      {
        ...real,
        waiting: within(real.waiting, expected.waiting, past),
        waitingLowPriority: within(real.waitingLowPriority, expected.waitingLowPriority, pastLow),
      },
      expected,
    )
  }
}

/** What is past its time may be counted or not. */
function within(value: number, least: number, past: number): number {
  return value >= least && value <= least + past ? least : value
}

function isDeletion(event: StoreEvent): boolean {
  return event.kind === 'changed'
    ? event.status === 'deleted'
    : event.kind === 'stop' && event.reason === 'expired'
}

/** Without the token, which the model knows only once the step is over. */
function nameOf(event: StoreEvent): string {
  return Object.values({ ...event, lease: undefined })
    .filter((word) => word !== undefined)
    .join(' ')
}

function same(words: string, real: unknown, expected: unknown): void {
  const [found, wanted] = [plain(real), plain(expected)]
  if (isDeepStrictEqual(found, wanted)) return
  try {
    expect(found).toEqual(wanted)
  } catch (cause) {
    throw new Error(`${words}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
  throw new Error(`${words}: found ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}.`)
}

/** Bytes as text, sets as arrays, what is undefined left out; of the engines' own errors only the worker they name. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('latin1')
  if (value instanceof Set) return [...(value as Set<string>)].toSorted((a, b) => a.localeCompare(b))
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).filter(([, one]) => one !== undefined)
  const isOwn = 'type' in value && (value.type === 'TimeoutError' || value.type === 'WorkerLostError')
  return Object.fromEntries(
    entries.map(([name, one]) => {
      if (isOwn && name === 'message') return [name, /worker (\S+) /i.exec(String(one))?.[1]]
      return [name, plain(one)]
    }),
  )
}
