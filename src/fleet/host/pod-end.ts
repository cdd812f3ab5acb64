// The end of a pod, for good: it is stopped, what was made for it goes, and its record becomes one of those that are gone.

import type { Clock } from '../../lib/clock.ts'
import type { StoredPod } from '../../resource/pod.ts'
import type { FleetStore } from '../../store/fleet-store.ts'
import { DeadPods } from './dead-pods.ts'
import type { HostSettings } from '../service/host-settings.ts'
import type { PodRecords } from './pod-records.ts'
import type { PodRuns } from './pod-runs.ts'
import type { WorkerTokens } from '../service/worker-token.ts'
import type { Workforce } from '../service/workforce.ts'

export interface PodEndsOptions {
  records: PodRecords
  endpoints: FleetStore['endpoints']
  runs: PodRuns
  tokens: WorkerTokens
  workforce: Workforce
  clock: Clock
  host: HostSettings
}

export interface PodEnd {
  words: string
  /** Where nobody had told it to end. */
  failure?: string
}

export class PodEnds {
  readonly #options: PodEndsOptions
  readonly #dead = new DeadPods()

  constructor(options: PodEndsOptions) {
    this.#options = options
  }

  /** Its reason is written down first, so that whoever has to do the rest of this after a crash gives the same one. */
  async end(podId: string, end: PodEnd): Promise<StoredPod | undefined> {
    const { records, runs, host } = this.#options
    const provider = await runs.open()
    await provider.stop(podId, { graceMs: host.stopGraceMs })
    const pod = await this.#write(podId, end)
    const isDead = pod?.endpointId !== undefined && pod.failure !== undefined
    const isKept = isDead && runs.of(podId).state === 'ended'
    if (!isKept) await provider.remove(podId)
    if (!pod) return undefined
    await this.#forget(pod)
    await records.bury(pod)
    if (isKept) this.#keep(pod)
    runs.forget(podId)
    return pod
  }

  /** Of one that was never started, where there is nothing that it could be stopped with. */
  async endUnstarted(podId: string, end: PodEnd): Promise<void> {
    const pod = await this.#write(podId, end)
    if (!pod) return
    await this.#forget(pod)
    await this.#options.records.bury(pod)
  }

  /** What is there without a record: the files of a worker that died are kept, all else goes. */
  async sortOut(podId: string): Promise<void> {
    const { records, runs, tokens } = this.#options
    const found = await records.find(podId)
    // Its record has come since, or is another service's: then that one sees to it.
    if (found) return records.isOwn(found) ? undefined : runs.forget(podId)
    // Whoever ended its record may not have lived to do this.
    await tokens.revoke(podId)
    const gone = await records.findEnded(podId)
    const isDead = gone?.endpointId !== undefined && gone.failure !== undefined
    if (isDead && runs.of(podId).state === 'ended') this.#keep(gone)
    else await this.removeFiles(podId)
    runs.forget(podId)
  }

  /** Of the dead, those whose files are to go. Rejects when the store does. */
  async surplus(): Promise<string[]> {
    const { endpoints, clock } = this.#options
    const gone = new Set<string>()
    for (const id of this.#dead.endpointIds) if (!(await endpoints.find(id))) gone.add(id)
    return this.#dead.surplus(clock.now(), gone)
  }

  async removeFiles(podId: string): Promise<void> {
    const provider = await this.#options.runs.open()
    await provider.remove(podId)
    this.#dead.delete(podId)
  }

  #write(podId: string, { words, failure }: PodEnd): Promise<StoredPod | undefined> {
    const { records, runs, clock } = this.#options
    const run = runs.of(podId)
    const endedAt = run.state === 'ended' ? run.end.endedAt : clock.now()
    return records.update(podId, (pod) => {
      if (pod.endedAt !== undefined) return pod
      const why = pod.failure ?? failure
      return {
        ...pod,
        desiredStatus: 'TERMINATED',
        endedAt,
        portMappings: {},
        lastStatusChange: words,
        ...(why !== undefined && pod.endpointId !== undefined && { failure: why }),
      }
    })
  }

  async #forget({ id, endpointId }: StoredPod): Promise<void> {
    if (endpointId === undefined) return
    await this.#options.tokens.revoke(id)
    this.#options.workforce.forget(endpointId, id)
  }

  #keep({ id, endpointId = '', endedAt = 0 }: StoredPod): void {
    this.#dead.add({ podId: id, endpointId, endedAt })
  }
}
