// The records of one endpoint's pods: read, begun, and told to end. What carries the orders out is the service that runs each.

import type { StoredPod } from '../../resource/pod.ts'
import { changeRecord } from '../resources/change-record.ts'
import { LostPods, type LostPodsOptions } from '../service/lost-pods.ts'

export interface EndpointPodsOptions extends LostPodsOptions {
  endpointId: string
}

export class EndpointPods {
  readonly #options: EndpointPodsOptions
  readonly #lost: LostPods

  constructor(options: EndpointPodsOptions) {
    this.#options = options
    this.#lost = new LostPods(options)
  }

  async list(): Promise<StoredPod[]> {
    const all = await this.#options.store.pods.list()
    return all.map(({ value }) => value).filter(({ endpointId }) => endpointId === this.#options.endpointId)
  }

  async add(pod: StoredPod): Promise<StoredPod> {
    await this.#options.store.pods.add(pod)
    return pod
  }

  /** It was heard for the first time. */
  async markReady(id: string, now: number): Promise<void> {
    await this.#change(id, (pod) => (pod.readyAt === undefined ? { ...pod, readyAt: now } : undefined))
  }

  /** To end after the jobs that it has. */
  async drain(id: string, reason: string): Promise<void> {
    await this.#change(id, (pod) =>
      pod.drain === undefined && pod.desiredStatus === 'RUNNING'
        ? { ...pod, drain: reason, lastStatusChange: `draining: ${reason}` }
        : undefined,
    )
  }

  /** To be ended now. With a `failure` it died, by the rules. */
  async end(id: string, { reason, isFailure }: { reason: string; isFailure: boolean }): Promise<void> {
    await this.#change(id, (pod) =>
      pod.desiredStatus === 'TERMINATED'
        ? undefined
        : {
            ...pod,
            desiredStatus: 'TERMINATED',
            lastStatusChange: `ending: ${reason}`,
            ...(isFailure && { failure: reason }),
          },
    )
  }

  /** Those of a service that is gone. */
  lost(pods: readonly StoredPod[]): Promise<StoredPod[]> {
    return this.#lost.of(pods)
  }

  /** Those that are lost and run nowhere. */
  bury(pods: readonly StoredPod[]): Promise<StoredPod[]> {
    return Promise.all(pods.map((pod) => this.#lost.bury(pod)))
  }

  async #change(id: string, change: (pod: StoredPod) => StoredPod | undefined): Promise<void> {
    await changeRecord(this.#options.store.pods, id, change)
  }
}
