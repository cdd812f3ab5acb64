// Pods as containers of a Docker engine.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock } from '../../lib/clock.ts'
import { containerLines } from './container-log.ts'
import {
  containerName,
  containerRequest,
  OWNER_LABEL,
  POD_LABEL,
  withWordsOf,
  type ContainerPlace,
} from './container-request.ts'
import { watchContainer } from './container-watch.ts'
import { DockerEngine, type ContainerFacts } from './docker-engine.ts'
import { hostMachine, readHostMachine } from './host-machine.ts'
import { exitFrom } from './pod-exit.ts'
import { PodFolder } from './pod-folder.ts'
import { PodTurns } from './pod-turns.ts'
import {
  ProviderError,
  type EndedPod,
  type HostMachine,
  type LogOptions,
  type PodFacts,
  type PodSpec,
  type Provider,
  type RunningPod,
} from './provider.ts'

interface Watched {
  podId: string
  /** Epoch ms, of the run that is watched. */
  startedAt: number
  over: AbortController
}

export interface DockerProviderOptions extends Omit<ContainerPlace, 'volume'> {
  engine: DockerEngine
  /** For the volumes; a folder of the engine's machine. */
  dir: string
  clock: Clock
  onTrouble: (podId: string, error: unknown) => void
}

export class DockerProvider implements Provider {
  readonly kind = 'docker'
  readonly #options: DockerProviderOptions
  readonly #engine: DockerEngine
  readonly #dir: string
  readonly #turns = new PodTurns()
  readonly #closing = new AbortController()
  readonly #starting = new Map<string, AbortController>()
  /** The containers whose end is still to be told, by id. */
  readonly #watched = new Map<string, Watched>()
  readonly #watches = new Set<Promise<void>>()
  /** The containers that were asked to end. */
  readonly #stopped = new Set<string>()
  readonly #listeners = new Set<(pod: EndedPod) => void>()
  readonly #restartListeners = new Set<(pod: RunningPod) => void>()

  private constructor(options: DockerProviderOptions) {
    this.#options = options
    this.#engine = options.engine
    this.#dir = join(options.dir, 'pods')
  }

  /** Finds the pods again that were started with this owner before. */
  static async open(options: DockerProviderOptions): Promise<DockerProvider> {
    const provider = new DockerProvider(options)
    mkdirSync(provider.#dir, { recursive: true, mode: 0o700 })
    await provider.#removeUnstarted()
    await provider.list()
    return provider
  }

  start(spec: PodSpec): Promise<RunningPod> {
    const podId = spec.pod.id
    return this.#turns.take(podId, async () => {
      const starting = new AbortController()
      this.#starting.set(podId, starting)
      try {
        return await this.#start(spec, starting.signal)
      } finally {
        this.#starting.delete(podId)
      }
    })
  }

  async stop(podId: string, { graceMs }: { graceMs: number }): Promise<void> {
    const starting = this.#starting.get(podId)
    if (starting) {
      starting.abort()
      await this.#turns.take(podId, async () => undefined)
    }
    const running = (await this.#containersOf(podId)).filter(({ State }) => State.Running)
    // The engine counts in seconds: rather a little more time than less.
    await Promise.all(running.map(({ Id }) => this.#end(Id, Math.ceil(graceMs / 1_000))))
  }

  async remove(podId: string): Promise<void> {
    this.#starting.get(podId)?.abort()
    await this.#turns.take(podId, async () => {
      await this.#removeContainers(podId)
      this.#removeFolder(new PodFolder(this.#dir, podId), podId)
    })
  }

  async list(): Promise<PodFacts[]> {
    return (await this.#containers())
      .filter(({ State }) => State.Status !== 'created')
      .map((container) => this.#factsOf(container))
  }

  async *logs(podId: string, options: LogOptions = {}): AsyncGenerator<string> {
    const { tail, follow = false } = options
    const signals = [this.#closing.signal, ...(options.signal ? [options.signal] : [])]
    const signal = AbortSignal.any(signals)
    const [container] = await this.#containersOf(podId)
    if (container) yield* containerLines(this.#engine.logs(container.Id, { tail, follow, signal }))
  }

  onExit(listener: (pod: EndedPod) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  onRestart(listener: (pod: RunningPod) => void): () => void {
    this.#restartListeners.add(listener)
    return () => this.#restartListeners.delete(listener)
  }

  /** The engine says how much it has; of the rest, what this machine is, for there it mostly runs. */
  async machine(): Promise<HostMachine> {
    const { name, cpus, memoryBytes } = await this.#engine.info()
    const host = await readHostMachine(this.#dir)
    const { displayName, threadsPerCore } = host.machine.cpuType
    const engine = { id: name, threads: cpus, memoryBytes, diskBytes: host.diskBytes }
    return hostMachine({ cpuModel: displayName, threadsPerCore, ...engine })
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#listeners.clear()
    this.#restartListeners.clear()
    await Promise.all(this.#watches)
  }

  async #start(spec: PodSpec, signal: AbortSignal): Promise<RunningPod> {
    const { pod } = spec
    if (pod.image.startsWith('file:'))
      throw new ProviderError(
        'IMAGE_UNSUPPORTED',
        `Pod ${pod.id} cannot be started: ${pod.image} is a file, and the docker provider runs images. Make one with "longshore build", or use the process provider.`,
      )
    const folder = new PodFolder(this.#dir, pod.id)
    const request = containerRequest(spec, { ...this.#options, volume: folder.volume })
    const before = (await this.#containersOf(pod.id)).find(({ State }) => State.Running)
    if (before) return this.#runningOf(before)
    folder.makeVolume()
    const image = await this.#imageOf(spec, signal)
    // Another container has a disk of its own: nothing of the run before is on it.
    await this.#removeContainers(pod.id)
    try {
      await this.#engine.create(withWordsOf(image, spec, request))
      requireGoingOn(pod.id, signal)
      await this.#engine.start(containerName(pod.id))
      requireGoingOn(pod.id, signal)
    } catch (cause) {
      await this.#removeContainers(pod.id)
      throw cause
    }
    const container = await this.#engine.inspect(containerName(pod.id))
    if (!container) throw new Error(`The container of pod ${pod.id} is gone as soon as it was started.`)
    return this.#runningOf(container)
  }

  async #imageOf({ pod: { image }, registryAuth }: PodSpec, signal: AbortSignal) {
    const known = await this.#engine.findImage(image)
    if (known) return known
    await this.#engine.pull(image, registryAuth, signal)
    const pulled = await this.#engine.findImage(image)
    if (!pulled) throw new Error(`The image ${image} is gone as soon as it was pulled.`)
    return pulled
  }

  /** By its label: a name may be changed by others. */
  #containersOf(podId: string): Promise<ContainerFacts[]> {
    return this.#containers([`${POD_LABEL}=${podId}`])
  }

  async #containers(labels: readonly string[] = [POD_LABEL]): Promise<ContainerFacts[]> {
    const ids = await this.#engine.list([...labels, `${OWNER_LABEL}=${this.#options.owner}`])
    const found = await Promise.all(ids.map((id) => this.#engine.inspect(id)))
    return found.filter((container) => container !== undefined)
  }

  /** A service that is killed between making a container and starting it leaves one that nobody knows. */
  async #removeUnstarted(): Promise<void> {
    const left = (await this.#containers()).filter(({ State }) => State.Status === 'created')
    await Promise.all(left.map(({ Id }) => this.#engine.remove(Id)))
  }

  async #removeContainers(podId: string): Promise<void> {
    for (const { Id, State } of await this.#containersOf(podId)) {
      // Ended before it is removed, so that it is seen how it ended.
      if (State.Running) await this.#end(Id, 0)
      else await this.#look(Id)
      await this.#engine.remove(Id)
      this.#stopped.delete(Id)
    }
  }

  /** Another try would fail as this one did: what stays is told once, and the pod is gone all the same. */
  #removeFolder(folder: PodFolder, podId: string): void {
    try {
      folder.remove()
    } catch (cause) {
      const { code = '', message } = cause as NodeJS.ErrnoException
      if (!['EACCES', 'EPERM'].includes(code)) throw cause
      const text = `Files of pod ${podId} stay in ${folder.path}: its container wrote them as another user, and this service may not remove them (${message}). Remove that folder as root.`
      this.#options.onTrouble(podId, new ProviderError('VOLUME_LEFT', text, cause))
    }
  }

  async #end(containerId: string, graceSeconds: number): Promise<void> {
    this.#stopped.add(containerId)
    await this.#engine.stop(containerId, graceSeconds)
    await this.#look(containerId)
  }

  #factsOf(container: ContainerFacts): PodFacts {
    return container.State.Running ? this.#runningOf(container) : this.#endOf(container)
  }

  #endOf(container: ContainerFacts): EndedPod {
    const { State, Id } = container
    const wasStopped = this.#stopped.has(Id)
    return {
      state: 'ended',
      podId: podIdOf(container),
      startedAt: Date.parse(State.StartedAt),
      endedAt: Date.parse(State.FinishedAt),
      exit: exitFrom(State.ExitCode, { isOverMemory: State.OOMKilled, wasStopped }),
    }
  }

  #runningOf(container: ContainerFacts): RunningPod {
    if (!this.#watched.has(container.Id)) this.#watch(container)
    return runningFacts(container)
  }

  #watch(container: ContainerFacts): void {
    const { Id } = container
    const { podId, startedAt } = runningFacts(container)
    const over = new AbortController()
    this.#watched.set(Id, { podId, startedAt, over })
    const signal = AbortSignal.any([this.#closing.signal, over.signal])
    const watch = watchContainer({
      wait: (mostMs) => this.#engine.wait(Id, { mostMs, signal }),
      look: (code) => this.#look(Id, { code, signal }),
      onTrouble: (error) => this.#options.onTrouble(podId, error),
      clock: this.#options.clock,
      signal,
    })
    this.#watches.add(watch)
    void watch.then(() => this.#watches.delete(watch))
  }

  /** What has become of a container that is watched: its end is told once, whoever looks. */
  async #look(
    containerId: string,
    { code, signal }: { code?: number | undefined; signal?: AbortSignal } = {},
  ): Promise<void> {
    if (!this.#watched.has(containerId)) return
    const container = await this.#engine.inspect(containerId, signal)
    const watched = this.#watched.get(containerId)
    if (!watched || this.#closing.signal.aborted) return
    if (container?.State.Running) return this.#noteRun(watched, runningFacts(container))
    this.#watched.delete(containerId)
    watched.over.abort()
    const end = container ? this.#endOf(container) : this.#endOfGone(containerId, watched, code)
    for (const listener of this.#listeners) listener(end)
  }

  /** Restarted by others, it may be running again before anybody could see that it ended. */
  #noteRun(watched: Watched, facts: RunningPod): void {
    if (watched.startedAt === facts.startedAt) return
    watched.startedAt = facts.startedAt
    for (const listener of this.#restartListeners) listener(facts)
  }

  /** Removed by others. */
  #endOfGone(containerId: string, { podId, startedAt }: Watched, code: number | undefined): EndedPod {
    const wasStopped = this.#stopped.delete(containerId)
    const exit = exitFrom(code ?? null, { isOverMemory: false, wasStopped })
    return { state: 'ended', podId, startedAt, endedAt: this.#options.clock.now(), exit }
  }
}

function runningFacts(container: ContainerFacts): RunningPod {
  return {
    state: 'running',
    podId: podIdOf(container),
    handle: { kind: 'container', id: container.Id },
    startedAt: Date.parse(container.State.StartedAt),
    portMappings: portsOf(container),
    memoryLimit: 'kernel',
  }
}

function podIdOf({ Config }: ContainerFacts): string {
  return Config.Labels[POD_LABEL] ?? ''
}

/** Those of the pod, not what its image exposes. On the network of the machine, a port is the same without and within. */
function portsOf({ NetworkSettings, HostConfig }: ContainerFacts): Record<string, number> {
  const asked = Object.keys((HostConfig.PortBindings ?? {}) as object).map((port) =>
    Number.parseInt(port, 10),
  )
  if (HostConfig.NetworkMode === 'host') return Object.fromEntries(asked.map((port) => [String(port), port]))
  const published = Object.entries(NetworkSettings.Ports as Record<string, { HostPort: string }[] | null>)
  return Object.fromEntries(
    published.flatMap(([port, places]) => {
      const [place] = places ?? []
      return place ? [[String(Number.parseInt(port, 10)), Number(place.HostPort)]] : []
    }),
  )
}

function requireGoingOn(podId: string, signal: AbortSignal): void {
  if (signal.aborted)
    throw new ProviderError('START_STOPPED', `Pod ${podId} was stopped while it was being started.`)
}
