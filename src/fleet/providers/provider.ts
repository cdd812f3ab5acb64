// What starts and stops pods: the one interface that the rest of the fleet knows, whatever stands behind it.

import type { Machine } from '../../resource/machine.ts'
import type { Pod } from '../../resource/pod.ts'
import type { PodExit } from './pod-exit.ts'

/** For a registry of private images. Goes to the registry alone. */
export interface RegistryCredentials {
  username: string
  password: string
}

/** What a pod is started from. */
export interface PodSpec {
  pod: Pod
  /** All that the pod finds in its environment, the service's own included. Shown and logged nowhere. */
  env: Readonly<Record<string, string>>
  /** In place of the entrypoint and command of the pod's record: the words of one program, read by no shell. */
  command?: readonly string[]
  registryAuth?: RegistryCredentials
}

/** How a running pod is told from all others, also by the next service. */
export type PodHandle =
  { kind: 'process'; pid: number; startTicks: string } | { kind: 'container'; id: string }

export interface RunningPod {
  state: 'running'
  podId: string
  handle: PodHandle
  /** Epoch ms. */
  startedAt: number
  /** Port within the pod to port on the machine. */
  portMappings: Record<string, number>
  /** Whether the kernel holds it to its memory; where it cannot, nobody does. */
  memoryLimit: 'kernel' | 'none'
}

/** It ran, and its files and log are still there. */
export interface EndedPod {
  state: 'ended'
  podId: string
  startedAt: number
  /** Epoch ms; of one that ended while no service looked, when that was noticed. */
  endedAt: number
  exit: PodExit
}

export type PodFacts = RunningPod | EndedPod

export interface LogOptions {
  /** How many of the last lines; all that are kept when left out. */
  tail?: number
  /** Waits for more until the pod has ended or the signal aborts. */
  follow?: boolean
  signal?: AbortSignal
}

export interface HostMachine {
  id: string
  /** What a pod may have at most. */
  vcpuCount: number
  memoryInGb: number
  diskBytes: number
  machine: Machine
}

/**
 * Every verb names a pod by its id, can be repeated, and finds what it asked for when that is so already. Pods outlive the
 * service: the next provider that is opened on the same folder or engine lists them again.
 */
export interface Provider {
  readonly kind: 'process' | 'docker'
  /**
   * Resolves once the pod's program was started; at once when it runs. Of one that has ended, the volume is kept and the
   * container's own disk is wiped. Rejects with a ProviderError when it cannot be started; then nothing runs.
   */
  start(spec: PodSpec): Promise<RunningPod>
  /**
   * Asks it to end, insists after `graceMs`, resolves when all of its processes are gone; also one that is being started.
   * Of several calls the shortest grace counts. Files and log are kept.
   */
  stop(podId: string, options: { graceMs: number }): Promise<void>
  /** Ends it at once, and removes all that was made for it, the volume too, but what in it this service has no right to. */
  remove(podId: string): Promise<void>
  /** What really is there, running or ended. */
  list(): Promise<PodFacts[]>
  /**
   * What the pod printed, line by line, oldest first: at least since its latest start, for a container's log goes with it. Of an
   * unknown pod there is none.
   */
  logs(podId: string, options?: LogOptions): AsyncIterable<string>
  /** Calls back once for each pod that ends from now on, after it is gone. Returns the way to be told no more. */
  onExit(listener: (pod: EndedPod) => void): () => void
  /** Calls back when others have started a pod anew that runs, with the run as it is now. Returns as onExit does. */
  onRestart(listener: (pod: RunningPod) => void): () => void
  machine(): Promise<HostMachine>
  /** Looks after the pods no more; they go on. */
  close(): Promise<void>
}

export type ProviderErrorCode =
  /** A variable is not one. */
  | 'ENV_INVALID'
  /** Nothing says what to run. */
  | 'COMMAND_MISSING'
  /** There is no such program. */
  | 'COMMAND_NOT_FOUND'
  /** The provider cannot run images of this kind. */
  | 'IMAGE_UNSUPPORTED'
  /** The image is neither here nor at its registry. */
  | 'IMAGE_NOT_PULLED'
  /** The registry does not give it to whom we say we are. */
  | 'REGISTRY_REFUSED'
  /** It was stopped while it was being started. */
  | 'START_STOPPED'
  /** Some of its processes are still there after SIGKILL. */
  | 'POD_NOT_GONE'
  /** Its container wrote as another user, and the service may not remove that. */
  | 'VOLUME_LEFT'
  /** What runs the pods does not answer, or refuses. */
  | 'ENGINE_FAILED'
  /** Another service runs its pods there. */
  | 'FOLDER_IN_USE'

export class ProviderError extends Error {
  readonly code: ProviderErrorCode

  constructor(code: ProviderErrorCode, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}
