// Makes what really runs on this machine agree with the records of its pods, and the records with what really runs.

import { within, type Clock } from '../../lib/clock.ts'
import type { StoredPod } from '../../resource/pod.ts'
import type { Store } from '../../store/store.ts'
import type { FleetLog, HostSettings } from '../service/host-settings.ts'
import { lastWords } from './last-words.ts'
import { PodDrains } from './pod-drains.ts'
import { drainWords, dutyOf, isDraining, isToStart, type Duty } from './pod-duty.ts'
import { PodEnds, type PodEnd } from './pod-end.ts'
import {
  asDraining,
  asLeft,
  asReplaced,
  asResting,
  asRestarted,
  asRetried,
  asSentTo,
  asStarted,
  asStopped,
} from './pod-facts.ts'
import { PodRecords } from './pod-records.ts'
import { PodRuns } from './pod-runs.ts'
import { PodStarts } from './pod-starts.ts'
import type { PodSpecParts } from './pod-spec.ts'
import { PodTasks } from './pod-tasks.ts'
import { exitWords } from '../providers/pod-exit.ts'
import type { HostMachine, LogOptions, RunningPod } from '../providers/provider.ts'
import { Waits } from './waits.ts'
import { WorkerTokens } from '../service/worker-token.ts'
import type { Workforce } from '../service/workforce.ts'

const TIDY_MS = 60_000
/** A pod that was up for this long died of something new. */
const STEADY_MS = 60_000
/** What a provider may take beyond the grace to be done with a pod. */
const LEEWAY_MS = 15_000
const PROVIDER = 'provider'

export interface PodHostOptions {
  store: Pick<Store, 'fleet' | 'keys'>
  clock: Clock
  log: FleetLog
  workforce: Workforce
  host: HostSettings
  /** Opens the sealed password of a registry. */
  openAuth?: PodSpecParts['openAuth']
  /** A pod has ended, or a record was changed: a step may find something to do. */
  onChange: () => void
}

export class PodHost {
  readonly #options: PodHostOptions
  readonly #records: PodRecords
  readonly #runs: PodRuns
  readonly #starts: PodStarts
  readonly #ends: PodEnds
  readonly #drains: PodDrains
  readonly #tasks: PodTasks
  /** Of pods of one's own. */
  readonly #deaths: Waits
  /** Of the provider, which could not be reached. */
  readonly #misses: Waits
  readonly #closing = new AbortController()
  #round: Promise<void> = Promise.resolve()
  #nextRound: Promise<void> | undefined
  #tidyAt = -Infinity
  #closed: Promise<void> | undefined

  constructor(options: PodHostOptions) {
    this.#options = options
    const { store, clock, log, workforce, host, openAuth, onChange } = options
    const { registryAuths, endpoints } = store.fleet
    const tasks = new PodTasks({ clock, log, onDone: onChange })
    const onTrouble = tasks.failed.bind(tasks)
    const tokens = new WorkerTokens({ keys: store.keys, clock })
    const records = new PodRecords(store.fleet, host.id)
    const runs = new PodRuns({ openProvider: () => host.openProvider(), onChange })
    this.#tasks = tasks
    this.#records = records
    this.#runs = runs
    this.#starts = new PodStarts({ runs, tokens, registryAuths, host, openAuth, onTrouble })
    this.#ends = new PodEnds({ records, endpoints, runs, tokens, workforce, clock, host })
    this.#drains = new PodDrains({ clock, workforce, log })
    this.#deaths = new Waits(clock)
    this.#misses = new Waits(clock)
  }

  /** Finds what an earlier service left: it goes on, or is ended, as its record says. */
  open(): Promise<void> {
    return this.step()
  }

  /**
   * One look at all pods of this service. What is to be done about one is begun and not waited for. Never two at a time: a call
   * during a look brings one more after it. Rejects when the store does.
   */
  step(): Promise<void> {
    this.#nextRound ??= this.#round.then(() => {
      this.#nextRound = undefined
      const round = this.#look()
      this.#round = round.catch(() => undefined)
      return round
    })
    return this.#nextRound
  }

  /** Until the service closes, or as the options say. */
  async *logs(podId: string, options: LogOptions = {}): AsyncGenerator<string> {
    const provider = await this.#runs.open()
    const signals = [this.#closing.signal, ...(options.signal ? [options.signal] : [])]
    yield* provider.logs(podId, { ...options, signal: AbortSignal.any(signals) })
  }

  async machine(): Promise<HostMachine> {
    return (await this.#runs.open()).machine()
  }

  /** While workers can still be answered: they hand their jobs back. Pods go on where the host keeps them. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #look(): Promise<void> {
    if (this.#closed) return
    const { host } = this.#options
    const records = await this.#records.own()
    if (records.length > 0 || host.mayHavePods || this.#runs.isOpen) {
      if (!(await this.#reachProvider(records))) return
      for (const pod of records) this.#lookAt(pod)
      const known = new Set(records.map(({ id }) => id))
      for (const id of this.#runs.ids) if (!known.has(id)) this.#tasks.begin(id, () => this.#ends.sortOut(id))
      for (const id of await this.#ends.surplus()) this.#tasks.begin(id, () => this.#ends.removeFiles(id))
      for (const id of await this.#drains.empty(records, this.#runs))
        this.#tasks.begin(id, () => this.#endDrained(id))
    }
    await this.#tidy()
  }

  /** Without it nothing is known of what runs: only what never ran is told why it does not. */
  async #reachProvider(records: readonly StoredPod[]): Promise<boolean> {
    if (this.#misses.isOn(PROVIDER)) return false
    try {
      await this.#runs.open()
      this.#misses.clear(PROVIDER)
      return true
    } catch (cause) {
      const ms = Math.round(this.#misses.after(PROVIDER))
      this.#options.log.error({ err: cause }, `The pods cannot be reached; that is tried again in ${ms} ms.`)
      const failure = cause instanceof Error ? cause.message : String(cause)
      for (const pod of records) {
        if (pod.startedAt !== undefined || !isToStart(pod)) continue
        if (pod.endpointId === undefined) this.#tasks.begin(pod.id, () => this.#retry(pod.id, failure))
        else this.#tasks.begin(pod.id, () => this.#ends.endUnstarted(pod.id, { words: failure, failure }))
      }
      return false
    }
  }

  #lookAt(pod: StoredPod): void {
    const { id } = pod
    if (pod.desiredStatus !== 'RUNNING') this.#deaths.clear(id)
    if (this.#starts.isUnderWay(id)) {
      if (!isToStart(pod)) this.#starts.callOff(id)
      return
    }
    const duty = this.#dutyOf(pod)
    const isWaiting = duty.do === 'start' && this.#deaths.isOn(id)
    if (duty.do !== 'nothing' && !isWaiting) this.#tasks.begin(id, () => this.#tend(id))
  }

  /** By the record and the run as they are now: a look is old when its task begins. */
  async #tend(podId: string): Promise<void> {
    const pod = await this.#records.find(podId)
    if (!pod || !this.#records.isOwn(pod)) return
    await this.#do(pod, this.#dutyOf(pod))
  }

  async #do(pod: StoredPod, duty: Duty): Promise<void> {
    const { id } = pod
    switch (duty.do) {
      case 'nothing':
        break
      case 'start':
        if (!this.#deaths.isOn(id)) await this.#start(pod)
        break
      case 'note':
        await this.#note(id, duty.facts)
        break
      case 'stop':
        await this.#stop(id)
        await this.#records.update(id, asStopped)
        this.#runs.forget(id)
        break
      case 'restart':
        await this.#stop(id)
        this.#runs.forget(id)
        this.#deaths.clear(id)
        await this.#records.update(id, asRestarted)
        break
      case 'rest':
        await this.#records.update(id, (now) => asResting(now, duty.words))
        this.#runs.forget(id)
        break
      case 'retry': {
        const { startedAt, endedAt, exit } = duty.end
        await this.#retry(id, exitWords(exit), { isFirst: endedAt - startedAt >= STEADY_MS })
        this.#runs.forget(id)
        break
      }
      case 'drain':
        await this.#records.update(id, (now) => asDraining(now, duty.reason))
        break
      case 'replace':
        await this.#records.update(id, (now) => asReplaced(now, duty.words))
        await this.#end(pod, duty)
        break
      case 'end':
        await this.#end(pod, await this.#explained(pod, duty))
        break
    }
  }

  #dutyOf(pod: StoredPod): Duty {
    return dutyOf(pod, this.#runs.of(pod.id), this.#options.host.url())
  }

  async #start(pod: StoredPod): Promise<void> {
    const url = this.#options.host.url()
    if (pod.endpointId !== undefined) await this.#records.update(pod.id, (now) => asSentTo(now, url))
    const answer = await this.#starts.start(pod)
    if (answer.state === 'started') return this.#note(pod.id, answer.facts)
    if (answer.state === 'called-off') return
    const failure = answer.error.message
    if (pod.endpointId === undefined) await this.#retry(pod.id, failure)
    else await this.#end(pod, { words: failure, failure })
  }

  async #note(podId: string, facts: RunningPod): Promise<void> {
    const pod = await this.#records.update(podId, (now) => asStarted(now, facts))
    this.#options.log.info({ pod: podId, endpoint: pod?.endpointId }, 'A pod was started.')
  }

  /** A pod of one's own: nobody else starts another one in its place. */
  async #retry(podId: string, failure: string, { isFirst = false } = {}): Promise<void> {
    const wait = this.#deaths.after(podId, { isFirst })
    const at = new Date(this.#options.clock.now() + wait).toISOString()
    this.#options.log.warn({ pod: podId }, `A pod is started again at ${at}: ${failure}`)
    await this.#records.update(podId, (now) => asRetried(now, { failure, at }))
  }

  async #stop(podId: string): Promise<void> {
    const provider = await this.#runs.open()
    await provider.stop(podId, { graceMs: this.#options.host.stopGraceMs })
  }

  async #endDrained(podId: string): Promise<void> {
    const pod = await this.#records.find(podId)
    if (pod && isDraining(pod, this.#runs.of(podId))) await this.#end(pod, { words: drainWords(pod) })
  }

  /** What a worker died of is in its own words: its exit code alone tells nobody what to mend. */
  async #explained(pod: StoredPod, { words, failure }: PodEnd): Promise<PodEnd> {
    const hasDied =
      failure !== undefined && pod.failure === undefined && this.#runs.of(pod.id).state === 'ended'
    if (!hasDied) return { words, ...(failure !== undefined && { failure }) }
    const said = await lastWords(await this.#runs.open(), pod.id).catch((error: unknown) => {
      this.#options.log.warn({ err: error, pod: pod.id }, `The log of pod ${pod.id} cannot be read.`)
      return undefined
    })
    const why = said === undefined ? failure : `${failure} It said: ${said}`
    return { words: why, failure: why }
  }

  async #end({ id, endpointId }: StoredPod, end: PodEnd): Promise<void> {
    await this.#ends.end(id, end)
    this.#drains.forget(id)
    this.#deaths.clear(id)
    const { log } = this.#options
    const level = end.failure === undefined ? 'info' : 'warn'
    log[level]({ pod: id, endpoint: endpointId }, `A pod has ended: ${end.words}`)
  }

  async #tidy(): Promise<void> {
    const { clock } = this.#options
    if (clock.monotonic() < this.#tidyAt) return
    this.#tidyAt = clock.monotonic() + TIDY_MS
    await this.#records.forgetOld(clock.now())
  }

  async #close(): Promise<void> {
    const { host } = this.#options
    this.#tasks.end()
    await this.#round
    if (this.#runs.isOpen) {
      // A start that is called off may end a pod that is to go on.
      if (host.keepsPods) await this.#tasks.done(host.stopGraceMs)
      for (const id of this.#starts.underWay) this.#starts.callOff(id)
      if (host.keepsPods) await this.#tasks.done(LEEWAY_MS)
      else await this.#leaveAll()
    }
    this.#closing.abort()
    await this.#runs.close()
  }

  /** All of them at once, so that one grace is enough. What a store that fails keeps from being written is found by the next service. */
  async #leaveAll(): Promise<void> {
    const { log, clock, host } = this.#options
    const records = await this.#records.own().catch((error: unknown) => {
      log.error({ err: error }, 'The records of the pods cannot be read; the pods are stopped.')
      return []
    })
    const pods = new Map(records.map((pod) => [pod.id, pod]))
    const staying = new Set([...pods.keys(), ...this.#runs.ids, ...this.#tasks.ids])
    const leaving = [...staying].map(async (id) => {
      try {
        await this.#leave(id, await this.#afterTask(id, pods.get(id)))
      } catch (error) {
        log.error({ err: error, pod: id }, `Pod ${id} could not be brought to its end with the service.`)
      }
      staying.delete(id)
    })
    await within(clock, host.stopGraceMs + LEEWAY_MS, Promise.all(leaving))
    for (const id of staying)
      log.error({ pod: id }, `Pod ${id} has not ended in time; it is left to the next service.`)
  }

  /** What is being done about it may be its end: then there is nothing left to do. */
  async #afterTask(id: string, pod: StoredPod | undefined): Promise<StoredPod | undefined> {
    const task = this.#tasks.of(id)
    if (!task) return pod
    await task
    return this.#records.find(id).catch(() => pod)
  }

  async #leave(id: string, pod: StoredPod | undefined): Promise<void> {
    if (!pod) return this.#runs.of(id).state === 'running' ? this.#stop(id) : undefined
    const duty = this.#dutyOf(pod)
    if (duty.do === 'replace' || duty.do === 'end' || duty.do === 'rest' || duty.do === 'stop')
      return this.#do(pod, duty)
    if (pod.endpointId !== undefined) return this.#end(pod, { words: 'ended with the service' })
    if (duty.do === 'nothing' && pod.desiredStatus === 'EXITED') return
    await this.#stop(id)
    await this.#records.update(id, asLeft)
  }
}
