// A pod host on a real store, a fake clock and scripted pods; every change brings a step, as in a service.

import { expect, onTestFinished } from 'vitest'
import type { HostSettings } from '../../src/fleet/service/host-settings.ts'
import { PodHost, type PodHostOptions } from '../../src/fleet/host/pod-host.ts'
import type { Provider } from '../../src/fleet/providers/provider.ts'
import type { Workforce } from '../../src/fleet/service/workforce.ts'
import { endpointFrom } from '../../src/resource/endpoint.ts'
import { podFrom, type NewPod, type StoredPod } from '../../src/resource/pod.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { Store } from '../../src/store/store.ts'
import type { Presence } from '../../src/store/traffic.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { ScriptedPods } from '../support/scripted-pods.ts'

export const GRACE_MS = 5_000

export interface RigOptions {
  kind?: Provider['kind']
  host?: Partial<HostSettings>
  openAuth?: PodHostOptions['openAuth']
}

interface Life {
  isOver: boolean
}

export class HostRig {
  readonly clock = new FakeClock()
  readonly pods: ScriptedPods
  /** What every worker says of itself. */
  readonly heard = new Map<string, Presence>()
  readonly drained: string[] = []
  readonly forgotten: string[] = []
  readonly warnings: string[] = []
  /** Verbs of the store that fail: `pods.replace`. */
  readonly broken = new Set<string>()
  /** Called before a verb of the store, once. */
  readonly before = new Map<string, () => Promise<unknown>>()
  readonly store: Store
  readonly #options: RigOptions
  readonly #hosts = new Map<PodHost, Life>()

  private constructor(store: Store, options: RigOptions) {
    this.store = store
    this.#options = options
    this.pods = new ScriptedPods(this.clock, options.kind)
  }

  static async open(options: RigOptions = {}): Promise<HostRig> {
    const store = await openStore('sqlite::memory:')
    for (const id of ['e1', 'e2'])
      await store.fleet.endpoints.add(endpointFrom({ templateId: 't1' }, { id, createdAt: 'now' }))
    const rig = new HostRig(store, options)
    onTestFinished(async () => {
      rig.broken.clear()
      await Promise.all([...rig.#hosts.keys()].map((host) => host.close()))
      await store.close()
      expect(rig.clock.pending).toBe(0)
    })
    return rig
  }

  /** Another one on the same store and pods. */
  host(settings: Partial<HostSettings> = {}): PodHost {
    const warn = (fields: object, message: string): void => {
      const { err } = fields as { err?: Error }
      this.warnings.push(err ? `${message} ${err.message}` : message)
    }
    const { openAuth } = this.#options
    const life: Life = { isOver: false }
    const step = (): void =>
      void host.step().catch(({ message }: Error) => life.isOver || this.warnings.push(message))
    const host: PodHost = new PodHost({
      store: this.#breakable(life),
      clock: this.clock,
      log: { info: () => undefined, warn, error: warn },
      workforce: this.#workforce(),
      host: {
        id: 'here',
        kind: this.#options.kind ?? 'process',
        openProvider: async () => this.pods.open(),
        mayHavePods: false,
        url: () => 'http://127.0.0.1:8000',
        workerCommand: (handler) => ['run-worker', handler],
        allowsFileImages: true,
        cwd: '/home/owner',
        keepsPods: false,
        stopGraceMs: GRACE_MS,
        ...this.#options.host,
        ...settings,
      },
      ...(openAuth && { openAuth }),
      onChange: () => life.isOver || step(),
    })
    this.#hosts.set(host, life)
    return host
  }

  /** As a service that is killed: it reaches nothing more, and its pods go on. */
  drop(host: PodHost): void {
    const life = this.#hosts.get(host)
    if (life) life.isOver = true
    this.#hosts.delete(host)
  }

  /** A worker of endpoint `e1`. */
  async worker(id: string, more: Partial<StoredPod> & { made?: NewPod } = {}): Promise<void> {
    await this.own(id, { endpointId: 'e1', slsVersion: 1, ...more })
  }

  /** A pod of one's own. */
  async own(id: string, { made = {}, ...more }: Partial<StoredPod> & { made?: NewPod } = {}): Promise<void> {
    const from = { id, machineId: 'machine', vcpuCount: 1, memoryInGb: 1 }
    const pod = podFrom({ image: 'file:./handler.ts', ...made }, from)
    const own = { hostId: 'here', createdAt: this.clock.now() }
    expect(await this.store.fleet.pods.add({ ...pod, ...own, ...more })).toBe(true)
  }

  /** As any other part of any service does. */
  async change(id: string, fields: Partial<StoredPod>): Promise<void> {
    const found = await this.store.fleet.pods.find(id)
    if (!found) throw new Error(`There is no pod ${id}.`)
    expect(await this.store.fleet.pods.replace({ ...found.value, ...fields }, found.revision)).toBe(
      'replaced',
    )
  }

  async record(id: string): Promise<StoredPod | undefined> {
    return (await this.store.fleet.pods.find(id))?.value
  }

  async ended(id: string): Promise<StoredPod | undefined> {
    const gone = await this.store.fleet.endedPods.find(id)
    // In both places it is only for a moment.
    return (await this.record(id)) ? undefined : gone?.value
  }

  async tokens(): Promise<string[]> {
    return (await this.store.keys.listKeys()).map(({ id }) => id)
  }

  /** Steps until it is so. */
  async until(host: PodHost, look: () => unknown): Promise<void> {
    await expect
      .poll(
        async () => {
          await host.step().catch(() => undefined)
          return Boolean(await look())
        },
        { timeout: 10_000, interval: 5 },
      )
      .toBe(true)
  }

  /** Until the pod runs and its record says so. */
  async up(host: PodHost, ...ids: string[]): Promise<void> {
    for (const id of ids)
      await this.until(host, async () => {
        const { startedAt, desiredStatus } = (await this.record(id)) ?? {}
        return this.pods.running.includes(id) && desiredStatus === 'RUNNING' && startedAt !== undefined
      })
  }

  /** What the last look found is done. */
  async quiet(host: PodHost): Promise<void> {
    let asked = -1
    await this.until(host, () => {
      const isQuiet = asked === this.pods.asked.length
      asked = this.pods.asked.length
      return isQuiet
    })
  }

  holds(worker: string, holds: number): void {
    const presence = { worker, aliveUntil: Infinity, holds, lowPriority: 0, isUnhealthy: false }
    this.heard.set(worker, presence)
  }

  #workforce(): Workforce {
    return {
      heard: async () => {
        if (this.broken.has('heard')) throw new Error('Nobody can be heard.')
        return [...this.heard.values()]
      },
      load: () => Promise.reject(new Error('A host of pods does not ask for the load.')),
      drain: (endpoint, worker) => void this.drained.push(`${endpoint}/${worker}`),
      forget: (endpoint, worker) => void this.forgotten.push(`${endpoint}/${worker}`),
      setFleetCounts: () => undefined,
    }
  }

  #breakable(life: Life): Pick<Store, 'fleet' | 'keys'> {
    const { fleet, keys } = this.store
    return {
      keys: this.#guard('keys', keys, life),
      fleet: {
        ...fleet,
        hold: (duty, ask) => fleet.hold(duty, ask),
        letGo: (duty, holder) => fleet.letGo(duty, holder),
        pods: this.#guard('pods', fleet.pods, life),
        endedPods: this.#guard('endedPods', fleet.endedPods, life),
      },
    }
  }

  #guard<T extends object>(name: string, verbs: T, life: Life): T {
    return new Proxy(verbs, {
      get: (target, verb) => {
        const value = Reflect.get(target, verb, target) as unknown
        if (typeof value !== 'function') return value
        return async (...words: unknown[]): Promise<unknown> => {
          const what = `${name}.${String(verb)}`
          const first = this.before.get(what)
          this.before.delete(what)
          await first?.()
          if (life.isOver) throw new Error('The service is dead.')
          if (this.broken.has(what)) throw new Error(`${what} failed.`)
          return Reflect.apply(value, target, words) as unknown
        }
      },
    })
  }
}
