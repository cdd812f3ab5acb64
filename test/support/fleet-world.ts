// A model of one endpoint: jobs arrive, workers start, run, die and drain, and the real rules decide at each tick. On its own clock.

import { planFleet, type FleetPlan } from '../../src/fleet/rules/fleet-plan.ts'
import type { FleetWorker, Order } from '../../src/fleet/rules/fleet-worker.ts'
import { afterDeath, type RestartBackoff } from '../../src/fleet/rules/restart-backoff.ts'
import type { Demand, ScalingSettings } from '../../src/fleet/rules/scaler.ts'
import { estimateOf, observe, trafficWindowMs, type Traffic } from '../../src/fleet/rules/traffic.ts'
import type { ReleaseState } from '../../src/resource/release.ts'

export interface WorldOptions {
  settings: ScalingSettings
  /** From 0 up to 1. */
  random: () => number
  /** Jobs a worker runs at a time. */
  slots?: number
  tickMs?: number
  /** How a worker of this version comes up: ready after so long, or dead, or neither ever. */
  start: (version: number) => { readyMs?: number; deathMs?: number; diesOnJob?: boolean }
  /** Between a drain order and the worker that hears it; it may take jobs meanwhile. */
  orderMs?: () => number
  /** After each decision, for whoever checks it or draws it. */
  onTick?: (world: FleetWorld, plan: FleetPlan) => void
}

export interface Job {
  arrivedAt: number
  durationMs: number
  isLowPriority: boolean
  startedAt?: number
  endedAt?: number
}

interface Body {
  id: string
  version: number
  startedAt: number
  readyAt: number | undefined
  idleSince: number
  jobs: Set<Job>
  lowPriority: number
  isDraining: boolean
  isDeaf: boolean
  isGone: boolean
  diesOnJob: boolean
}

export interface Story {
  version: number
  state: ReleaseState
  reason: string
  startedAt: number
  endedAt?: number
}

export class FleetWorld {
  readonly options: WorldOptions
  settings: ScalingSettings
  now = 0
  readonly bodies = new Map<string, Body>()
  readonly jobs: Job[] = []
  readonly releases: Story[] = []
  readonly counts = { starts: 0, drains: 0, deaths: 0, ended: 0, arrivedCounting: 0, lost: 0 }
  serving = 1
  newest = 1
  /** Seconds that workers were there, and that jobs ran. */
  workerSeconds = 0
  jobSeconds = 0
  readonly #line: Job[] = []
  #head = 0
  #waiting = 0
  #running = 0
  readonly #free: Body[] = []
  #freeHead = 0
  readonly #events = new EventHeap()
  #backoffs = new Map<number, RestartBackoff>()
  #demand: Demand | undefined
  #traffic: Traffic | undefined
  #startMs: number | undefined
  #named = 0

  constructor(options: WorldOptions) {
    this.options = options
    this.settings = options.settings
    this.#tickAt(0)
  }

  at(time: number, run: () => void): void {
    this.#events.add(time, run)
  }

  submit(at: number, durationMs: number, isLowPriority = false): void {
    this.at(at, () => {
      const job = { arrivedAt: at, durationMs, isLowPriority }
      this.jobs.push(job)
      this.#line.push(job)
      if (!isLowPriority) {
        this.#waiting += 1
        this.counts.arrivedCounting += 1
      }
      this.#lease()
    })
  }

  update(at: number): void {
    this.at(at, () => {
      this.newest += 1
    })
  }

  kill(id: string, reason = 'killed'): void {
    const body = this.bodies.get(id)
    if (!body) return
    this.#died(body, reason)
  }

  runUntil(time: number): void {
    for (;;) {
      const event = this.#events.next(time)
      if (!event) break
      this.now = event.at
      event.run()
    }
    this.now = time
  }

  get waiting(): number {
    return this.#waiting
  }

  get lined(): number {
    return this.#line.length - this.#head
  }

  get oldestWaitMs(): number {
    for (let at = this.#head; at < this.#line.length; at += 1) {
      const job = this.#line[at]
      if (job && !job.isLowPriority) return this.now - job.arrivedAt
    }
    return 0
  }

  get running(): number {
    return this.#running
  }

  ready(version?: number): number {
    let count = 0
    for (const body of this.bodies.values()) {
      const isOf = version === undefined || body.version === version
      if (isOf && body.readyAt !== undefined && !body.isDraining) count += 1
    }
    return count
  }

  seen(): FleetWorker[] {
    return [...this.bodies.values()].map((body) => {
      const { id, version, startedAt, readyAt, jobs, lowPriority, idleSince, isDraining } = body
      const known = { id, version, startedAt }
      if (isDraining) return { ...known, state: 'draining', jobs: jobs.size }
      if (readyAt === undefined) return { ...known, state: 'starting' }
      if (jobs.size === 0) return { ...known, state: 'idle', readyAt, idleSince }
      return { ...known, state: 'running', readyAt, jobs: jobs.size, lowPriorityJobs: lowPriority }
    })
  }

  #tickAt(at: number): void {
    this.at(at, () => {
      this.#tick()
      this.#tickAt(at + (this.options.tickMs ?? 1000))
    })
  }

  #tick(): void {
    const { now, settings, counts } = this
    const running = this.#running
    this.#traffic = observe(
      this.#traffic,
      { now, arrived: counts.arrivedCounting, ended: counts.ended, running },
      trafficWindowMs(settings),
    )
    const rolling = this.#rolling()
    const plan = planFleet({
      now,
      settings,
      queue: {
        waiting: this.#waiting,
        waitingLowPriority: this.lined - this.#waiting,
        oldestWaitMs: this.#waiting > 0 ? this.oldestWaitMs : 0,
        ...estimateOf(this.#traffic),
        ...(this.#startMs !== undefined && { startMs: this.#startMs }),
        slotsPerWorker: this.options.slots ?? 1,
      },
      workers: this.seen(),
      demand: this.#demand,
      serving: this.serving,
      rolling: rolling?.version,
      newest: this.newest,
      backoffs: [...this.#backoffs.values()],
    })
    this.#demand = plan.wanted.demand
    this.options.onTick?.(this, plan)
    this.#carryOut(plan, rolling)
  }

  /** The release to go on with, a new one where an update began it. */
  #rolling(): Story | undefined {
    const last = this.releases.at(-1)
    if (last?.state === 'ROLLING') return last
    if (this.newest <= (last?.version ?? 1)) return undefined
    const begun: Story = {
      version: this.newest,
      state: 'ROLLING',
      reason: '',
      startedAt: this.now,
    }
    this.releases.push(begun)
    return begun
  }

  #carryOut(plan: FleetPlan, rolling: Story | undefined): void {
    if (rolling && plan.release) {
      rolling.state = plan.release.state
      rolling.reason = plan.release.reason
      if (rolling.state !== 'ROLLING') rolling.endedAt = this.now
      if (rolling.state === 'COMPLETED') this.serving = rolling.version
    }
    for (const { version, count } of plan.starts) for (let n = 0; n < count; n += 1) this.#start(version)
    for (const order of plan.drains) this.#drain(order)
    for (const { id, reason } of plan.ends) this.kill(id, reason)
  }

  #start(version: number): void {
    this.#named += 1
    this.counts.starts += 1
    const { readyMs, deathMs, diesOnJob = false } = this.options.start(version)
    const body: Body = {
      id: `w${String(this.#named).padStart(6, '0')}`,
      version,
      startedAt: this.now,
      readyAt: undefined,
      idleSince: 0,
      jobs: new Set(),
      lowPriority: 0,
      isDraining: false,
      isDeaf: false,
      isGone: false,
      diesOnJob,
    }
    this.bodies.set(body.id, body)
    if (readyMs !== undefined) this.at(this.now + readyMs, () => this.#becameReady(body))
    if (deathMs !== undefined) this.at(this.now + deathMs, () => this.#died(body, 'exit code 1'))
  }

  #becameReady(body: Body): void {
    if (body.isGone || body.isDraining) return
    body.readyAt = this.now
    body.idleSince = this.now
    const took = this.now - body.startedAt
    this.#startMs = this.#startMs === undefined ? took : this.#startMs * 0.8 + took * 0.2
    this.#offer(body)
    this.#lease()
  }

  #drain({ id }: Order): void {
    const body = this.bodies.get(id)
    if (!body || body.isDraining) return
    this.counts.drains += 1
    body.isDraining = true
    this.at(this.now + (this.options.orderMs?.() ?? 0), () => {
      body.isDeaf = true
      if (body.jobs.size === 0) this.#gone(body)
    })
  }

  #gone(body: Body): void {
    if (body.isGone) return
    body.isGone = true
    this.bodies.delete(body.id)
    this.workerSeconds += (this.now - body.startedAt) / 1000
  }

  #died(body: Body, reason: string): void {
    if (body.isGone) return
    const { version, startedAt, readyAt, jobs } = body
    this.counts.deaths += 1
    this.#gone(body)
    for (const job of jobs) {
      this.#running -= 1
      delete job.startedAt
      this.#head -= 1
      if (this.#head < 0) {
        this.#line.unshift(job)
        this.#head = 0
      } else this.#line[this.#head] = job
      if (!job.isLowPriority) this.#waiting += 1
    }
    // Whoever is idle takes them at once, as at a queue.
    this.#lease()
    if (body.isDraining) return
    const death = { version, at: this.now, startedAt, readyAt, reason }
    this.#backoffs.set(version, afterDeath(this.#backoffs.get(version), death, this.options.random()))
  }

  #offer(body: Body): void {
    this.#free.push(body)
  }

  #lease(): void {
    const slots = this.options.slots ?? 1
    while (this.#head < this.#line.length && this.#freeHead < this.#free.length) {
      const body = this.#free[this.#freeHead]
      if (!body || body.isGone || body.isDeaf || body.jobs.size >= slots) {
        this.#freeHead += 1
        continue
      }
      const job = this.#line[this.#head]
      this.#head += 1
      if (job) this.#run(body, job)
    }
    if (this.#head > 10_000) this.#head -= this.#line.splice(0, this.#head).length
    if (this.#freeHead > 10_000) this.#freeHead -= this.#free.splice(0, this.#freeHead).length
  }

  #run(body: Body, job: Job): void {
    job.startedAt = this.now
    body.jobs.add(job)
    this.#running += 1
    if (job.isLowPriority) body.lowPriority += 1
    else this.#waiting -= 1
    const startedAt = this.now
    if (body.diesOnJob) this.at(this.now + 300, () => this.#died(body, 'exit code 1 in a job'))
    this.at(this.now + job.durationMs, () => {
      if (body.isGone || !body.jobs.has(job)) return
      body.jobs.delete(job)
      if (job.isLowPriority) body.lowPriority -= 1
      job.endedAt = this.now
      this.#running -= 1
      this.counts.ended += 1
      this.jobSeconds += (this.now - startedAt) / 1000
      if (body.jobs.size === 0) body.idleSince = this.now
      if (body.isDeaf && body.jobs.size === 0) this.#gone(body)
      else this.#offer(body)
      this.#lease()
    })
  }
}

interface Event {
  at: number
  order: number
  run: () => void
}

/** Earliest first; of the same time, first come first. */
class EventHeap {
  readonly #heap: Event[] = []
  #order = 0

  add(at: number, run: () => void): void {
    this.#order += 1
    const event = { at, order: this.#order, run }
    let place = this.#heap.push(event) - 1
    while (place > 0) {
      const parent = (place - 1) >> 1
      const above = this.#heap[parent]
      if (!above || !isBefore(event, above)) break
      this.#heap[place] = above
      place = parent
    }
    this.#heap[place] = event
  }

  /** Undefined when none is left up to that time. */
  next(until: number): Event | undefined {
    const first = this.#heap[0]
    if (!first || first.at > until) return undefined
    const last = this.#heap.pop()
    if (last && last !== first) this.#sink(last)
    return first
  }

  #sink(event: Event): void {
    let place = 0
    for (;;) {
      let child = 2 * place + 1
      const left = this.#heap[child]
      if (!left) break
      const right = this.#heap[child + 1]
      if (right && isBefore(right, left)) child += 1
      const least = this.#heap[child]
      if (!least || !isBefore(least, event)) break
      this.#heap[place] = least
      place = child
    }
    this.#heap[place] = event
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}
