// A fleet without processes: real records, scalers and rules on a fake clock, with a queue and workers that are a model.

import { fleetRules } from '../../src/fleet/rules/fleet-rules.ts'
import { Endpoints } from '../../src/fleet/resources/endpoints.ts'
import { EndpointScaler } from '../../src/fleet/scaling/endpoint-scaler.ts'
import type { FleetLog } from '../../src/fleet/service/host-settings.ts'
import { Pods } from '../../src/fleet/resources/pods.ts'
import { Releases } from '../../src/fleet/resources/releases.ts'
import { Templates } from '../../src/fleet/resources/templates.ts'
import type { Workforce } from '../../src/fleet/service/workforce.ts'
import type { NewEndpoint } from '../../src/resource/endpoint.ts'
import type { StoredPod } from '../../src/resource/pod.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import type { FleetStore } from '../../src/store/fleet-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { Presence } from '../../src/store/traffic.ts'
import { FakeClock } from './fake-clock.ts'

/** How a worker fares: it pings after so long, is ready, or dead after its start; never without it. */
export interface Life {
  readyMs?: number
  pingMs?: number
  deathMs?: number
}

interface Job {
  endpoint: string
  arrivedAt: number
  runMs: number
  isLowPriority: boolean
  endsAt?: number
}

interface Body {
  pod: StoredPod
  pingsFrom: number
  readyAt: number
  diesAt: number
  jobs: Job[]
  isDraining: boolean
  isSilent: boolean
}

const STEP_MS = 250

export class FleetRig {
  readonly clock = new FakeClock()
  readonly store: Store = openSqliteStore({ file: ':memory:' })
  readonly releases = new Releases({ store: this.store.fleet, clock: this.clock, wake: () => {} })
  readonly templates = new Templates({
    store: this.store.fleet,
    releases: this.releases,
    clock: this.clock,
  })
  readonly endpoints = new Endpoints({
    store: this.store.fleet,
    queues: this.store.endpoints,
    releases: this.releases,
    pods: new Pods({
      store: this.store.fleet,
      clock: this.clock,
      wake: () => {},
      stopping: new AbortController().signal,
    }),
    clock: this.clock,
    wake: () => {},
  })
  /** What was logged: level, words, reason. */
  readonly logged: { level: string; message: string; fields: Record<string, unknown> }[] = []
  /** Workers whose keys were taken from them for their service is gone. */
  readonly revoked: string[] = []
  readonly bodies = new Map<string, Body>()
  /** What the queue was told of workers that it does not hear. */
  readonly fleetCounts = new Map<string, { initializing: number; throttled: number }>()
  readonly counts = { started: 0, ended: 0, killedWithJobs: 0, mostBodies: 0 }
  /** How workers of a version come up. */
  life: (version: number) => Life = () => ({ readyMs: 1_000 })
  readonly #waiting: Job[] = []
  readonly #arrived = new Map<string, number>()

  readonly log: FleetLog = {
    info: (fields, message) => this.#note('info', fields, message),
    warn: (fields, message) => this.#note('warn', fields, message),
    error: (fields, message) => this.#note('error', fields, message),
  }

  readonly workforce: Workforce = {
    heard: (endpoint) => Promise.resolve(this.#heard(endpoint)),
    load: (endpoint) => {
      const waiting = this.#waiting.filter((job) => job.endpoint === endpoint)
      const counting = waiting.filter(({ isLowPriority }) => !isLowPriority)
      const [first] = counting
      return Promise.resolve({
        waiting: counting.length,
        waitingLowPriority: waiting.length - counting.length,
        oldestWaitMs: first ? this.clock.now() - first.arrivedAt : 0,
        arrived: this.#arrived.get(endpoint) ?? 0,
        ended: this.counts.ended,
      })
    },
    drain: () => {},
    forget: () => {},
    setFleetCounts: (endpoint, counts) => void this.fleetCounts.set(endpoint, counts),
  }

  /** An endpoint on a template of its own. */
  async endpoint(more: Partial<NewEndpoint> = {}): Promise<{ id: string; templateId: string }> {
    const template = await this.templates.create({ name: `t${this.clock.now()}`, imageName: 'image:1' })
    const { id } = await this.endpoints.create({ name: 'one', ...more, templateId: template.id })
    return { id, templateId: template.id }
  }

  scaler(
    endpointId: string,
    {
      hostId = 'host-a',
      store = this.store.fleet,
      onOrder = () => {},
      contact = { lastedMs: Infinity },
      machine = async () => ({ id: `machine-${hostId}`, vcpuCount: 2, memoryInGb: 4 }),
    } = {},
  ) {
    const { releases, workforce, clock, log } = this
    const random = (): number => 0.5
    return new EndpointScaler({
      endpointId,
      store,
      releases,
      workforce,
      clock,
      log,
      hostId,
      contact,
      tokens: { revoke: async (podId) => void this.revoked.push(podId) },
      machine,
      random,
      onOrder,
    })
  }

  submit(endpoint: string, count: number, { runMs = 1_000, isLowPriority = false } = {}): void {
    const arrivedAt = this.clock.now()
    for (let n = 0; n < count; n += 1) this.#waiting.push({ endpoint, arrivedAt, runMs, isLowPriority })
    if (!isLowPriority) this.#arrived.set(endpoint, (this.#arrived.get(endpoint) ?? 0) + count)
    this.#lease()
  }

  /** What really runs comes to agree with the records, at once. */
  async hostStep(hostId = 'host-a'): Promise<void> {
    const { pods } = this.store.fleet
    for (const { value: pod } of await pods.list()) {
      if (pod.hostId !== hostId) continue
      const body = this.bodies.get(pod.id)
      if (pod.desiredStatus === 'TERMINATED') await this.#terminate(pod, body)
      else if (!body) await this.#begin(pod)
      else if (body.diesAt <= this.clock.now()) await this.#gone(pod, 'exit code 1')
      else if (pod.drain !== undefined) {
        body.isDraining = true
        if (body.jobs.length === 0) await this.#gone(pod)
      }
    }
    this.#lease()
  }

  /** Time passes: a step of each scaler and of the hosts every quarter of a second, until it is so. Throws after `withinMs`. */
  async until(
    isSo: () => boolean | Promise<boolean>,
    { scalers, withinMs = 60_000, hosts = ['host-a'] }: RunOptions,
  ): Promise<number> {
    const from = this.clock.now()
    while (!(await isSo())) {
      const passed = this.clock.now() - from
      if (passed >= withinMs)
        throw new Error(`It was not so within ${withinMs} ms: ${isSo.toString()} ${await this.#words()}`)
      await this.tick({ scalers, hosts })
    }
    return this.clock.now() - from
  }

  async run(ms: number, options: RunOptions): Promise<void> {
    const end = this.clock.now() + ms
    while (this.clock.now() < end) await this.tick(options)
  }

  async tick({ scalers, hosts = ['host-a'] }: RunOptions): Promise<void> {
    this.move()
    for (const scaler of scalers) await scaler.step()
    for (const host of hosts) await this.hostStep(host)
  }

  /** A quarter of a second of the model. */
  move(): void {
    this.clock.advance(STEP_MS)
    this.#finishJobs()
    this.#lease()
  }

  ready(version?: number): number {
    return this.#live().filter(
      ({ readyAt, pod }) => readyAt <= this.clock.now() && (version ?? pod.slsVersion) === pod.slsVersion,
    ).length
  }

  get waiting(): number {
    return this.#waiting.length
  }

  fallSilent(podId: string): void {
    const body = this.bodies.get(podId)
    if (!body) throw new Error(`No body of pod '${podId}'.`)
    body.isSilent = true
    this.#waiting.unshift(...body.jobs.splice(0))
  }

  kill(podId: string): void {
    const body = this.bodies.get(podId)
    if (!body) throw new Error(`No body of pod '${podId}'.`)
    body.diesAt = this.clock.now()
  }

  async pods(): Promise<StoredPod[]> {
    return (await this.store.fleet.pods.list()).map(({ value }) => value)
  }

  async release(endpointId: string, version: number) {
    return (await this.releases.find(endpointId, version))?.value
  }

  async scaling(endpointId: string) {
    return (await this.store.fleet.scalings.find(endpointId))?.value
  }

  async close(): Promise<void> {
    await this.store.close()
  }

  #live(): Body[] {
    return [...this.bodies.values()].filter(({ isDraining }) => !isDraining)
  }

  #note(level: string, fields: object, message: string): void {
    this.logged.push({ level, message, fields: { ...fields } })
  }

  #heard(endpoint: string): Presence[] {
    const now = this.clock.now()
    return [...this.bodies.values()]
      .filter(({ pod, isSilent }) => pod.endpointId === endpoint && !isSilent)
      .filter(({ readyAt, pingsFrom }) => Math.min(readyAt, pingsFrom) <= now)
      .map(({ pod, jobs, readyAt }) => ({
        worker: pod.id,
        aliveUntil: now + 10_000,
        holds: jobs.length,
        lowPriority: jobs.filter(({ isLowPriority }) => isLowPriority).length,
        isUnhealthy: false,
        isStarting: readyAt > now,
      }))
  }

  async #begin(pod: StoredPod): Promise<void> {
    const now = this.clock.now()
    const { readyMs = Infinity, pingMs = Infinity, deathMs = Infinity } = this.life(pod.slsVersion ?? 0)
    const body: Body = {
      pod,
      pingsFrom: now + pingMs,
      readyAt: now + readyMs,
      diesAt: now + deathMs,
      jobs: [],
      isDraining: false,
      isSilent: false,
    }
    this.bodies.set(pod.id, body)
    this.counts.started += 1
    this.counts.mostBodies = Math.max(this.counts.mostBodies, this.bodies.size)
    const found = await this.store.fleet.pods.find(pod.id)
    if (found) await this.store.fleet.pods.replace({ ...found.value, startedAt: now }, found.revision)
  }

  async #terminate(pod: StoredPod, body: Body | undefined): Promise<void> {
    if (body && body.jobs.length > 0) this.counts.killedWithJobs += 1
    await this.#gone(pod)
  }

  async #gone(pod: StoredPod, failure?: string): Promise<void> {
    const body = this.bodies.get(pod.id)
    this.bodies.delete(pod.id)
    this.#waiting.unshift(...(body?.jobs ?? []))
    const { endedPods, pods } = this.store.fleet
    const endedAt = this.clock.now()
    await endedPods.add({
      ...pod,
      desiredStatus: 'TERMINATED',
      endedAt,
      ...(failure !== undefined && { failure }),
    })
    await pods.remove(pod.id)
  }

  #finishJobs(): void {
    for (const body of this.bodies.values()) {
      const left = body.jobs.filter(({ endsAt = 0 }) => endsAt > this.clock.now())
      this.counts.ended += body.jobs.length - left.length
      body.jobs = left
    }
  }

  #lease(): void {
    const now = this.clock.now()
    for (const body of this.#live()) {
      if (body.readyAt > now || body.isSilent || body.jobs.length > 0) continue
      const at = this.#waiting.findIndex(({ endpoint }) => endpoint === body.pod.endpointId)
      const [job] = at < 0 ? [] : this.#waiting.splice(at, 1)
      if (job) body.jobs.push({ ...job, endsAt: now + job.runMs })
    }
  }

  async #words(): Promise<string> {
    const { releases, scalings } = this.store.fleet
    const all = [...(await releases.list()), ...(await scalings.list())].map(({ value }) => value)
    return JSON.stringify(all.map((one) => ('recent' in one ? one : [one.id, one.state, one.reason])))
  }
}

export interface RunOptions {
  scalers: readonly EndpointScaler[]
  withinMs?: number
  hosts?: readonly string[]
}

/** The store with a call before each write of a pod. */
export function withPodWrites(store: FleetStore, before: () => Promise<void>): FleetStore {
  const { pods } = store
  return {
    ...store,
    pods: {
      ...pods,
      async add(pod) {
        await before()
        return pods.add(pod)
      },
      async replace(pod, revision) {
        await before()
        return pods.replace(pod, revision)
      },
    },
  }
}

export const { startDeadlineMs } = fleetRules
