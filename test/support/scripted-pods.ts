// Pods that do what a test says, behind the interface of a provider; they outlive it as real ones do.

import { exitFrom } from '../../src/fleet/providers/pod-exit.ts'
import {
  ProviderError,
  type EndedPod,
  type HostMachine,
  type PodFacts,
  type PodSpec,
  type Provider,
  type RunningPod,
} from '../../src/fleet/providers/provider.ts'
import type { Clock } from '../../src/lib/clock.ts'

export class ScriptedPods {
  /** What each was started with last. */
  readonly specs = new Map<string, PodSpec>()
  /** What was asked, in order: `start a`, `stop a 5000`, `remove a`. */
  readonly asked: string[] = []
  readonly #clock: Clock
  readonly #kind: Provider['kind']
  readonly #pods = new Map<string, PodFacts>()
  readonly #starting = new Map<string, (cause: Error) => void>()
  readonly #listeners = new Set<(pod: EndedPod) => void>()
  readonly #restartListeners = new Set<(pod: RunningPod) => void>()
  readonly #held = new Map<string, { until: Promise<void>; letGo: () => void }>()
  readonly #failures = new Map<string, Error[]>()
  readonly #shortLived = new Map<string, number>()
  readonly #said = new Map<string, string[]>()
  #pid = 1_000

  constructor(clock: Clock, kind: Provider['kind'] = 'process') {
    this.#clock = clock
    this.#kind = kind
  }

  get running(): string[] {
    return this.files.filter((podId) => this.#pods.get(podId)?.state === 'running')
  }

  /** Whose files are there, running or not. */
  get files(): string[] {
    return [...this.#pods.keys()].toSorted()
  }

  /** What is asked of this pod waits from now on, until it is let go: `start a`. */
  hold(what: string): () => void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#held.set(what, { until: promise, letGo: resolve })
    return () => {
      this.#held.delete(what)
      resolve()
    }
  }

  /** The next time that it is asked, it fails. */
  fail(what: string, error: Error): void {
    this.#failures.set(what, [...(this.#failures.get(what) ?? []), error])
  }

  /** It will have ended, and that be told, before its start is answered. */
  endAtStart(podId: string, code: number): void {
    this.#shortLived.set(podId, code)
  }

  /** It has printed this. */
  say(podId: string, ...lines: string[]): void {
    this.#said.set(podId, [...(this.#said.get(podId) ?? []), ...lines])
  }

  /** The pod ends by itself. */
  exit(podId: string, code: number | null, { isSeen = true } = {}): void {
    this.#end(podId, code, { wasStopped: false, isSeen })
  }

  /** Others start the pod anew, so fast that nobody sees it end. */
  restart(podId: string): void {
    const facts = this.#pods.get(podId)
    if (facts?.state !== 'running') throw new Error(`Pod ${podId} does not run.`)
    const anew = { ...facts, startedAt: this.#clock.now() }
    this.#pods.set(podId, anew)
    for (const listener of this.#restartListeners) listener(anew)
  }

  /** As an earlier service left it. */
  put(podId: string, startedAt: number, ports: Record<string, number> = {}): RunningPod {
    const handle = { kind: 'process', pid: (this.#pid += 1), startTicks: '1' } as const
    const facts = {
      state: 'running',
      podId,
      handle,
      startedAt,
      portMappings: ports,
      memoryLimit: 'none',
    } as const
    this.#pods.set(podId, facts)
    return facts
  }

  open(): Provider {
    const own = new Set<(pod: EndedPod) => void>()
    return {
      kind: this.#kind,
      start: (spec) => this.#start(spec),
      stop: (podId, { graceMs }) => this.#stop(podId, graceMs),
      remove: async (podId) => {
        await this.#ask(`remove ${podId}`)
        this.#end(podId, 137, { wasStopped: true, isSeen: true })
        this.#pods.delete(podId)
      },
      list: async () => {
        await this.#ask('list')
        return [...this.#pods.values()]
      },
      logs: (podId, { tail } = {}) => this.#logs(podId, tail),
      onExit: (listener) => {
        own.add(listener)
        this.#listeners.add(listener)
        return () => this.#listeners.delete(listener)
      },
      onRestart: (listener) => {
        this.#restartListeners.add(listener)
        return () => this.#restartListeners.delete(listener)
      },
      machine: async () => ({ id: 'scripted', vcpuCount: 2 }) as HostMachine,
      close: async () => {
        await this.#ask('close')
        for (const listener of own) this.#listeners.delete(listener)
      },
    }
  }

  async *#logs(podId: string, tail = Infinity): AsyncGenerator<string> {
    await this.#ask(`logs ${podId}`)
    const lines = this.#said.get(podId) ?? []
    yield* lines.slice(Math.max(0, lines.length - tail))
  }

  async #start(spec: PodSpec): Promise<RunningPod> {
    const { id, ports } = spec.pod
    const stopped = new Promise<never>((_resolve, reject) => this.#starting.set(id, reject))
    try {
      await Promise.race([this.#ask(`start ${id}`), stopped])
    } finally {
      this.#starting.delete(id)
    }
    const there = this.#pods.get(id)
    if (there?.state === 'running') return there
    this.specs.set(id, spec)
    const mapped = ports.map((port) => [
      String(Number.parseInt(port, 10)),
      40_000 + Number.parseInt(port, 10),
    ])
    const facts = this.put(id, this.#clock.now(), Object.fromEntries(mapped))
    const code = this.#shortLived.get(id)
    if (code !== undefined) this.exit(id, code)
    return facts
  }

  async #stop(podId: string, graceMs: number): Promise<void> {
    this.#starting.get(podId)?.(new ProviderError('START_STOPPED', `Pod ${podId} was stopped at its start.`))
    await this.#ask(`stop ${podId} ${graceMs}`, `stop ${podId}`)
    this.#end(podId, 0, { wasStopped: true, isSeen: true })
  }

  async #ask(what: string, name = what): Promise<void> {
    this.asked.push(what)
    const error = this.#failures.get(name)?.shift()
    await this.#held.get(name)?.until
    if (error) throw error
  }

  #end(podId: string, code: number | null, told: { wasStopped: boolean; isSeen: boolean }): void {
    const pod = this.#pods.get(podId)
    if (pod?.state !== 'running') return
    const { startedAt } = pod
    const exit = exitFrom(code, { isOverMemory: false, wasStopped: told.wasStopped })
    const end: EndedPod = { state: 'ended', podId, startedAt, endedAt: this.#clock.now(), exit }
    this.#pods.set(podId, end)
    if (told.isSeen) for (const listener of this.#listeners) listener(end)
  }
}
