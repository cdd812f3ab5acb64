// Scales one endpoint: looks at its queue and workers, asks the rules, and writes what they answer into the records.

import type { Clock } from '../../lib/clock.ts'
import type { EndpointResource } from '../../resource/endpoint.ts'
import type { StoredPod } from '../../resource/pod.ts'
import type { Release } from '../../resource/release.ts'
import type { FleetStore, Stored } from '../../store/fleet-store.ts'
import type { Presence } from '../../store/traffic.ts'
import { changeRecord } from '../resources/change-record.ts'
import { EndpointPods } from './endpoint-pods.ts'
import { planFleet, type FleetPlan } from '../rules/fleet-plan.ts'
import { FleetOrders } from './fleet-orders.ts'
import { fleetRules } from '../rules/fleet-rules.ts'
import type { FleetWorker } from '../rules/fleet-worker.ts'
import type { FleetLog } from '../service/host-settings.ts'
import { lostWords } from '../service/lost-pods.ts'
import { ReleaseLines, type ReleaseLine } from './release-line.ts'
import type { Releases } from '../resources/releases.ts'
import { DutyLostError, ScalingDuty } from './scaling-duty.ts'
import { ScalingMemory } from './scaling-memory.ts'
import { ScalingRecord } from './scaling-record.ts'
import type { StoreContact } from '../service/store-contact.ts'
import type { WorkerTokens } from '../service/worker-token.ts'
import type { Workforce } from '../service/workforce.ts'
import { hasPolled, slotsOf, versionOf, type PodMachine } from './worker-pod.ts'

export interface EndpointScalerOptions {
  endpointId: string
  store: FleetStore
  releases: Releases
  workforce: Workforce
  clock: Clock
  log: FleetLog
  /** The service that runs what is started here. */
  hostId: string
  contact: Pick<StoreContact, 'lastedMs'>
  tokens: Pick<WorkerTokens, 'revoke'>
  machine: () => Promise<PodMachine>
  /** Gives numbers from 0 up to 1. */
  random: () => number
  /** Called when records of pods have changed, for whoever carries them out. */
  onOrder?: () => void
}

/** What one step has seen. */
interface Seen {
  /** Why workers died that were not told to end, in words. */
  deaths: string[]
  endpoint: EndpointResource
  line: ReleaseLine
  pods: StoredPod[]
  workers: FleetWorker[]
  now: number
}

export class EndpointScaler {
  readonly #options: EndpointScalerOptions
  readonly #duty: ScalingDuty
  readonly #pods: EndpointPods
  readonly #orders: FleetOrders
  #lines: ReleaseLines
  #record: ScalingRecord
  /** Of the steps since this server has the duty. */
  #memory: ScalingMemory | undefined
  /** Workers whose end was decided here, and whose death is not counted yet. */
  readonly #ended = new Set<string>()
  #isOver = false

  constructor(options: EndpointScalerOptions) {
    this.#options = options
    this.#duty = new ScalingDuty(options)
    this.#pods = new EndpointPods(options)
    this.#orders = new FleetOrders({ ...options, pods: this.#pods, duty: this.#duty })
    this.#lines = new ReleaseLines(options.releases)
    this.#record = new ScalingRecord(options)
  }

  /** Whether the endpoint and all its pods are gone: nothing is left to be done. */
  get isOver(): boolean {
    return this.#isOver
  }

  /** One decision, carried out. Does nothing while another server has the duty. Not to be called again before it is over. */
  async step(): Promise<void> {
    try {
      if (!(await this.#duty.hold())) return this.#forget()
      const endpoint = await this.#options.store.endpoints.find(this.#options.endpointId)
      await (endpoint ? this.#scale(endpoint.value) : this.#clear())
    } catch (cause) {
      if (!(cause instanceof DutyLostError)) {
        // Another server may be able to do it. Where this cannot be said either, the duty lapses.
        await this.#duty.letGo().catch(() => undefined)
        throw cause
      }
      this.#options.log.info({ endpoint: this.#options.endpointId }, 'another server scales the endpoint now')
      this.#forget()
    }
  }

  /** Lets another server take over at once. */
  async close(): Promise<void> {
    this.#forget()
    await this.#duty.letGo()
  }

  async #scale(endpoint: EndpointResource): Promise<void> {
    const line = await this.#lines.read(endpoint)
    await this.#mendReleases(endpoint, line)
    const memory = this.#memory ?? (await this.#begin(line))
    this.#memory = memory
    const { workforce, clock, contact } = this.#options
    // A job that is taken between the two is seen on neither side, which the next step mends; twice would start a worker for it.
    const heard = await this.#heard()
    const load = await workforce.load(endpoint.id)
    const now = clock.now()
    const { pods, deaths } = await this.#look({ memory, line, heard, now })
    const hearingSince = now - contact.lastedMs
    const workers = pods.map((pod) =>
      memory.worker(pod, {
        version: line.asOf(versionOf(pod)),
        presence: heard.get(pod.id),
        now,
        hearingSince,
      }),
    )
    const running = [...heard.values()].reduce((sum, { holds }) => sum + holds, 0)
    const plan = planFleet({
      now,
      settings: endpoint,
      queue: memory.queue(load, { now, running, settings: endpoint, slotsPerWorker: slotsOf(line.serving) }),
      workers,
      demand: memory.demand,
      serving: line.serving.version,
      rolling: line.rolling?.value.version,
      newest: line.newest,
      backoffs: memory.backoffs(workers, now),
    })
    memory.demand = plan.wanted.demand
    await this.#carryOut(plan, { endpoint, line, pods, deaths, workers, now })
  }

  async #heard(): Promise<Map<string, Presence>> {
    const { workforce, endpointId, clock } = this.#options
    const all = await workforce.heard(endpointId)
    const now = clock.now()
    return new Map(all.filter(({ aliveUntil }) => aliveUntil > now).map((one) => [one.worker, one]))
  }

  /** The pods as they are, those that are gone since told to the memory, and those heard for the first time noted. */
  async #look(seen: {
    memory: ScalingMemory
    line: ReleaseLine
    heard: Map<string, Presence>
    now: number
  }): Promise<Pick<Seen, 'pods' | 'deaths'>> {
    const { memory, line, heard, now } = seen
    const dead: StoredPod[] = []
    const listed = await this.#pods.list()
    await this.#duty.check()
    const pods = await this.#withoutLost(listed, heard)
    for (const id of memory.look(pods)) {
      const ended = await this.#options.store.endedPods.find(id)
      if (ended && this.#countDeath(ended.value, { memory, line, now })) dead.push(ended.value)
      memory.forget(id)
      this.#options.workforce.forget(this.#options.endpointId, id)
    }
    for (const pod of pods)
      if (pod.failure !== undefined && this.#countDeath(pod, { memory, line, now })) dead.push(pod)
    const ready = pods.filter(({ id, readyAt }) => readyAt === undefined && hasPolled(heard.get(id)))
    await Promise.all(
      ready.map(async (pod) => {
        await this.#pods.markReady(pod.id, now)
        memory.becameReady(pod, now)
      }),
    )
    return { pods, deaths: dead.flatMap((pod) => this.#deathWords(pod)) }
  }

  /** None of what was decided here: that has been told. */
  #deathWords({ id, slsVersion, failure }: StoredPod): string[] {
    return this.#ended.delete(id) ? [] : [`worker ${id} of version ${slsVersion} died: ${failure}`]
  }

  /** Those of a service that is gone are ended: by themselves where they are heard, for nobody else can end them. */
  async #withoutLost(listed: readonly StoredPod[], heard: Map<string, Presence>): Promise<StoredPod[]> {
    const { workforce, endpointId } = this.#options
    const lost = await this.#pods.lost(listed)
    const buried = await this.#pods.bury(lost.filter(({ id }) => !heard.has(id)))
    const leaving = new Map(lost.filter(({ id }) => heard.has(id)).map((pod) => [pod.id, lostWords(pod)]))
    for (const [id, words] of leaving) {
      await this.#pods.drain(id, words)
      workforce.drain(endpointId, id)
    }
    const gone = new Set(buried.map(({ id }) => id))
    return listed
      .filter(({ id }) => !gone.has(id))
      .map((pod) => {
        const drain = pod.drain ?? leaving.get(pod.id)
        return drain === undefined ? pod : { ...pod, drain }
      })
  }

  #countDeath(
    pod: StoredPod,
    { memory, line, now }: { memory: ScalingMemory; line: ReleaseLine; now: number },
  ): boolean {
    const death = memory.died(pod, { version: line.asOf(versionOf(pod)), now })
    if (!death) return false
    const { endpointId: endpoint, log } = this.#options
    log.warn({ endpoint, pod: pod.id, version: pod.slsVersion, reason: death.reason }, 'a worker died')
    return true
  }

  async #carryOut(plan: FleetPlan, seen: Seen): Promise<void> {
    const { onOrder, workforce, endpointId } = this.#options
    const isRecorded = await this.#recordRelease(plan, seen.line.rolling)
    // Somebody has just replaced the release: what was planned for it no longer holds.
    const orders = isRecorded ? plan : { ...plan, starts: [], drains: [], ends: [] }
    for (const { id } of orders.ends) this.#ended.add(id)
    const decisions = [
      ...seen.deaths,
      ...(isRecorded && plan.release && plan.release.state !== 'ROLLING'
        ? [`version ${seen.line.newest} ${plan.release.state}: ${plan.release.reason}`]
        : []),
      ...(await this.#orders.carryOut(orders, {
        ...seen,
        heard: () => this.#heard(),
        made: (pod) => this.#memory?.made(pod),
      })),
    ]
    await this.#duty.check()
    const standing = standingOf(orders, seen)
    const { wanted, starting, idle, running } = standing
    const throttled = Math.max(0, wanted - starting - idle - running)
    workforce.setFleetCounts(endpointId, { initializing: starting, throttled })
    await this.#record.write(standing, { decisions, now: seen.now })
    const { starts, drains, ends } = orders
    if (starts.length + drains.length + ends.length > 0) onOrder?.()
  }

  /** False when the release was replaced meanwhile. */
  async #recordRelease({ release }: FleetPlan, rolling: Stored<Release> | undefined): Promise<boolean> {
    if (!release || !rolling) return true
    const { value } = rolling
    const { state, reason, ready, older } = release
    const isSame =
      value.state === state && value.reason === reason && value.ready === ready && value.older === older
    if (isSame) return true
    await this.#duty.check()
    if (!(await this.#options.releases.record(rolling, { state, reason, ready, older }))) return false
    if (state !== 'ROLLING') this.#logRelease({ version: value.version, state, reason })
    return true
  }

  #logRelease(ended: { version: number; state: Release['state']; reason: string }): void {
    const { log, endpointId: endpoint } = this.#options
    const level = ended.state === 'STOPPED' ? 'warn' : 'info'
    log[level]({ endpoint, ...ended }, 'a release is over')
  }

  /** What a server left half done that died while it recorded a release. */
  async #mendReleases(endpoint: EndpointResource, { newest, overtaken }: ReleaseLine): Promise<void> {
    const { store, releases } = this.#options
    for (const left of overtaken) {
      const { ready, older, version } = left.value
      const reason = `version ${newest} was released`
      await this.#duty.check()
      if (await releases.record(left, { state: 'SUPERSEDED', reason, ready, older }))
        this.#logRelease({ version, state: 'SUPERSEDED', reason })
    }
    if (newest <= endpoint.version) return
    await this.#duty.check()
    await changeRecord(store.endpoints, endpoint.id, (value) =>
      newest > value.version ? { ...value, version: newest } : undefined,
    )
  }

  /** A memory with the latest deaths in it, so that what fails goes on to wait, and to stop its release. */
  async #begin({ asOf, serving, rolling }: ReleaseLine): Promise<ScalingMemory> {
    const { store, endpointId, clock, random } = this.#options
    const now = clock.now()
    const since = now - 2 * fleetRules.startDeadlineMs
    const memory = new ScalingMemory(random)
    const ended = (await store.endedPods.list())
      .map(({ value }) => value)
      .filter((pod) => pod.endpointId === endpointId && (pod.endedAt ?? 0) >= since)
      .toSorted((a, b) => (a.endedAt ?? 0) - (b.endedAt ?? 0))
    for (const pod of ended) {
      const version = asOf(versionOf(pod))
      if (version === serving.version || version === rolling?.value.version)
        memory.died(pod, { version, now })
    }
    return memory
  }

  /** The endpoint is gone, and so are its workers and what is known of it. */
  async #clear(): Promise<void> {
    const { store, releases, endpointId, log, onOrder } = this.#options
    const pods = await this.#pods.list()
    const lost = await this.#pods.bury(await this.#pods.lost(pods))
    for (const { id } of lost) this.#options.workforce.drain(endpointId, id)
    const left = pods.filter(({ id, desiredStatus }) => {
      return desiredStatus !== 'TERMINATED' && lost.every((pod) => pod.id !== id)
    })
    const reason = 'its endpoint was deleted'
    await this.#duty.check()
    await Promise.all(left.map(({ id }) => this.#pods.end(id, { reason, isFailure: false })))
    if (left.length > 0) {
      log.info({ endpoint: endpointId, pods: left.map(({ id }) => id), reason }, 'workers ended')
      onOrder?.()
    }
    if (pods.length > lost.length) return
    await releases.forget(endpointId)
    await store.scalings.remove(endpointId)
    this.#isOver = true
  }

  #forget(): void {
    const { workforce, endpointId } = this.#options
    workforce.setFleetCounts(endpointId, { initializing: 0, throttled: 0 })
    this.#memory = undefined
    this.#lines = new ReleaseLines(this.#options.releases)
    this.#record = new ScalingRecord(this.#options)
  }
}

/** As it is once the orders are carried out. */
function standingOf(
  { wanted, reason, starts, drains, ends }: FleetPlan,
  { workers, line }: Pick<Seen, 'workers' | 'line'>,
): Parameters<ScalingRecord['write']>[0] {
  const ending = new Set([...drains, ...ends].map(({ id }) => id))
  const counts = { starting: 0, idle: 0, running: 0, draining: 0 }
  for (const { id, state } of workers) counts[ending.has(id) ? 'draining' : state] += 1
  counts.starting += starts.reduce((sum, { count }) => sum + count, 0)
  return { wanted: wanted.workers, ...counts, reason: `${refusalWords(line)}${reason}` }
}

/** Of a version that was stopped the endpoint's own record says nothing. */
function refusalWords({ newest, serving, rolling, asOf }: ReleaseLine): string {
  if (rolling || asOf(newest) === serving.version) return ''
  return `version ${newest} was stopped and version ${serving.version} serves; `
}
