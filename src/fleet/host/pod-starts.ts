// Starts of pods, which can take minutes and be called off.

import type { StoredPod } from '../../resource/pod.ts'
import type { FleetStore } from '../../store/fleet-store.ts'
import type { HostSettings } from '../service/host-settings.ts'
import type { PodRuns } from './pod-runs.ts'
import { podSpec, type PodSpecParts } from './pod-spec.ts'
import type { RunningPod } from '../providers/provider.ts'
import type { WorkerTokens } from '../service/worker-token.ts'

export interface PodStartsOptions {
  runs: PodRuns
  tokens: WorkerTokens
  registryAuths: FleetStore['registryAuths']
  host: HostSettings
  openAuth: PodSpecParts['openAuth']
  onTrouble: (podId: string, error: unknown) => void
}

export type StartAnswer =
  | { state: 'started'; facts: RunningPod }
  /** Nothing runs, for the reason that the error gives. */
  | { state: 'failed'; error: Error }
  /** Somebody did not want it any more; whether it runs is to be looked at. */
  | { state: 'called-off' }

export class PodStarts {
  readonly #options: PodStartsOptions
  readonly #underWay = new Map<string, { callOff?: Promise<void> }>()

  constructor(options: PodStartsOptions) {
    this.#options = options
  }

  get underWay(): string[] {
    return [...this.#underWay.keys()]
  }

  isUnderWay(podId: string): boolean {
    return this.#underWay.has(podId)
  }

  /** Rejects when the store does: then nothing was started. A worker's token is a new one each time. */
  async start(pod: StoredPod): Promise<StartAnswer> {
    const { runs, tokens, host, openAuth } = this.#options
    const { id, endpointId } = pod
    const start: { callOff?: Promise<void> } = {}
    this.#underWay.set(id, start)
    try {
      const provider = await runs.open()
      const registryAuth = await this.#findAuth(pod)
      const token = endpointId === undefined ? undefined : await tokens.issue(id, endpointId)
      if (start.callOff) return { state: 'called-off' }
      const parts = { kind: provider.kind, host, token, registryAuth, openAuth }
      try {
        const facts = await runs.start(id, async () => provider.start(podSpec(pod, parts)))
        return { state: 'started', facts }
      } catch (cause) {
        if (start.callOff) return { state: 'called-off' }
        return { state: 'failed', error: cause instanceof Error ? cause : new Error(String(cause)) }
      }
    } finally {
      await start.callOff
      this.#underWay.delete(id)
    }
  }

  /** One that is under way ends soon; if the pod runs already, it is stopped. Safe to repeat. */
  callOff(podId: string): void {
    const start = this.#underWay.get(podId)
    if (!start || start.callOff) return
    const { runs, host, onTrouble } = this.#options
    start.callOff = runs
      .open()
      .then((provider) => provider.stop(podId, { graceMs: host.stopGraceMs }))
      .catch((error: unknown) => onTrouble(podId, error))
  }

  async #findAuth({ containerRegistryAuthId: id }: StoredPod): Promise<PodSpecParts['registryAuth']> {
    return id === undefined ? undefined : (await this.#options.registryAuths.find(id))?.value
  }
}
