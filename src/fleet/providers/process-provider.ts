// Pods as processes of this machine. Linux only: a process is known again by what /proc says of it.

import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Clock, Timer } from '../../lib/clock.ts'
import { resourceIdSchema } from '../../resource/container.ts'
import { readHostMachine } from './host-machine.ts'
import { MemoryGroup } from './memory-group.ts'
import { memoryBytes, podEnv, podPorts } from './pod-env.ts'
import { PodFolder, type PodStart } from './pod-folder.ts'
import { launch } from './pod-launch.ts'
import { PodLog } from './pod-log.ts'
import { PodRun } from './pod-run.ts'
import { PodTurns } from './pod-turns.ts'
import { readBootId, readStat, type ProcessIdentity } from './process-identity.ts'
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

const LOG_FILES = 3
const LOG_FILE_BYTES = 10_000_000
/** How often logs are looked at, and pods that an earlier service started. */
const TICK_MS = 1_000

export interface ProcessProviderOptions {
  /** For the files of all pods. */
  dir: string
  clock: Clock
  /** What every pod has in its environment unless its own says otherwise, PATH for one. */
  baseEnv: Readonly<Record<string, string>>
  logFileBytes?: number
  tickMs?: number
  /** Something went wrong while a pod was looked after, and nobody waits for it. */
  onTrouble: (podId: string, error: unknown) => void
}

interface KnownPod {
  folder: PodFolder
  log: PodLog
  run?: PodRun
  end?: EndedPod
}

export class ProcessProvider implements Provider {
  readonly kind = 'process'
  readonly #options: ProcessProviderOptions
  readonly #dir: string
  readonly #bootId = readBootId()
  readonly #pods = new Map<string, KnownPod>()
  readonly #turns = new PodTurns()
  readonly #listeners = new Set<(pod: EndedPod) => void>()
  #timer: Timer | undefined

  private constructor(options: ProcessProviderOptions) {
    this.#options = options
    this.#dir = join(options.dir, 'pods')
  }

  /** Finds the pods again that were started on this folder before. */
  static async open(options: ProcessProviderOptions): Promise<ProcessProvider> {
    if (!readStat(process.pid))
      throw new ProviderError(
        'ENGINE_FAILED',
        'Pods cannot be processes here: this system has no /proc. Use the docker provider.',
      )
    const provider = new ProcessProvider(options)
    mkdirSync(provider.#dir, { recursive: true, mode: 0o700 })
    const ids = readdirSync(provider.#dir).filter((name) => resourceIdSchema.safeParse(name).success)
    for (const podId of ids) await provider.#adopt(podId)
    provider.#tick()
    return provider
  }

  start(spec: PodSpec): Promise<RunningPod> {
    return this.#turns.take(spec.pod.id, async () => {
      const pod = this.#know(spec.pod.id)
      if (pod.run?.isStopping) await pod.run.ended
      return pod.run?.facts ?? (await this.#launch(spec, pod))
    })
  }

  async stop(podId: string, { graceMs }: { graceMs: number }): Promise<void> {
    await this.#pods.get(podId)?.run?.stop(graceMs)
  }

  remove(podId: string): Promise<void> {
    return this.#turns.take(podId, async () => {
      const pod = this.#pods.get(podId)
      await pod?.run?.stop(0)
      new PodFolder(this.#dir, podId).remove()
      this.#pods.delete(podId)
    })
  }

  async list(): Promise<PodFacts[]> {
    return [...this.#pods.values()]
      .map(({ run, end }) => run?.facts ?? end)
      .filter((pod) => pod !== undefined)
  }

  async *logs(podId: string, options: LogOptions = {}): AsyncGenerator<string> {
    const pod = this.#pods.get(podId)
    if (pod) yield* pod.log.lines(options, () => !pod.run)
  }

  onExit(listener: (pod: EndedPod) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** A process cannot be: another one has another number. */
  onRestart(): () => void {
    return () => undefined
  }

  machine(): Promise<HostMachine> {
    return readHostMachine(this.#dir)
  }

  async close(): Promise<void> {
    this.#timer?.clear()
    this.#timer = undefined
    this.#listeners.clear()
    for (const { run } of this.#pods.values()) run?.release()
  }

  #know(podId: string): KnownPod {
    const known = this.#pods.get(podId)
    if (known) return known
    const folder = new PodFolder(this.#dir, podId)
    const { clock, logFileBytes = LOG_FILE_BYTES } = this.#options
    const log = new PodLog({ dir: folder.path, clock, fileBytes: logFileBytes, files: LOG_FILES })
    const pod = { folder, log }
    this.#pods.set(podId, pod)
    return pod
  }

  async #launch(spec: PodSpec, pod: KnownPod): Promise<RunningPod> {
    const { clock, baseEnv } = this.#options
    const podId = spec.pod.id
    const { folder } = pod
    const command = commandOf(spec)
    const env = { ...baseEnv, ...podEnv(spec, folder.volume) }
    // One that a run before has left would count its kills as ours.
    MemoryGroup.find(podId)?.remove()
    const group = MemoryGroup.make(podId, memoryBytes(spec))
    const start: PodStart = {
      startedAt: clock.now(),
      bootId: this.#bootId,
      portMappings: Object.fromEntries(podPorts(spec).map((port) => [String(port), port])),
      memoryLimit: group ? 'kernel' : 'none',
    }
    folder.prepare(start)
    try {
      const { child, identity } = await launch({
        podId,
        command,
        env,
        disk: folder.disk,
        log: pod.log.file,
        identityFile: folder.identityFile,
        membersFile: group?.membersFile,
      })
      const facts = factsOf(podId, identity, start)
      this.#watch(
        pod,
        new PodRun({ facts, identity, folder, group, clock, child, onTrouble: this.#troubleOf(podId) }),
      )
      return facts
    } catch (cause) {
      group?.remove()
      folder.forgetStart()
      throw cause
    }
  }

  /** Whether it runs, is told by its number and its start; one that does not has left nothing behind when this resolves. */
  async #adopt(podId: string): Promise<void> {
    const pod = this.#know(podId)
    const start = pod.folder.readStart()
    if (!start) return
    const end = pod.folder.readEnd()
    if (end) return void (pod.end = { state: 'ended', podId, startedAt: start.startedAt, ...end })
    const written = start.bootId === this.#bootId ? pod.folder.readIdentity() : undefined
    const facts = factsOf(podId, written ?? { pid: 0, startTicks: '' }, start)
    const { clock } = this.#options
    const group = MemoryGroup.find(podId)
    const run = new PodRun({
      facts,
      identity: written,
      folder: pod.folder,
      group,
      clock,
      onTrouble: this.#troubleOf(podId),
    })
    this.#watch(pod, run)
    await run.look()
  }

  #watch(pod: KnownPod, run: PodRun): void {
    pod.run = run
    delete pod.end
    void run.ended.then((end) => {
      delete pod.run
      pod.end = end
      for (const listener of this.#listeners) listener(end)
      return undefined
    })
  }

  #troubleOf(podId: string): (error: unknown) => void {
    return (error) => this.#options.onTrouble(podId, error)
  }

  #tick(): void {
    for (const [podId, { log, run }] of this.#pods) {
      try {
        void run?.look()
        if (run) log.rotate()
      } catch (error) {
        this.#options.onTrouble(podId, error)
      }
    }
    const { clock, tickMs = TICK_MS } = this.#options
    this.#timer = clock.after(tickMs, () => this.#tick(), { background: true })
  }
}

function factsOf(podId: string, { pid, startTicks }: ProcessIdentity, start: PodStart): RunningPod {
  const { startedAt, portMappings, memoryLimit } = start
  const handle = { kind: 'process', pid, startTicks } as const
  return { state: 'running', podId, handle, startedAt, portMappings, memoryLimit }
}

function commandOf({ pod, command }: PodSpec): readonly string[] {
  const words = command ?? [...pod.dockerEntrypoint, ...pod.dockerStartCmd]
  if (words.length > 0) return words
  throw new ProviderError(
    'COMMAND_MISSING',
    `Pod ${pod.id} cannot be started: nothing says what to run. As a process it has no image to take the command from: give the template a dockerStartCmd, or an imageName of the form file:/path/handler.ts.`,
  )
}
