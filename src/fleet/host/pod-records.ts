// The records of the pods of one service. Others change them at any time, so that every change is made to the record as it is then.

import { fleetLimits } from '../../resource/fleet-limits.ts'
import type { StoredPod } from '../../resource/pod.ts'
import type { FleetStore } from '../../store/fleet-store.ts'

export class PodRecords {
  readonly #store: Pick<FleetStore, 'pods' | 'endedPods'>
  readonly #hostId: string

  constructor(store: Pick<FleetStore, 'pods' | 'endedPods'>, hostId: string) {
    this.#store = store
    this.#hostId = hostId
  }

  /** Those that this service runs. */
  async own(): Promise<StoredPod[]> {
    const all = await this.#store.pods.list()
    return all.map(({ value }) => value).filter((pod) => this.isOwn(pod))
  }

  /** Whoever runs it. */
  async find(id: string): Promise<StoredPod | undefined> {
    return (await this.#store.pods.find(id))?.value
  }

  async findEnded(id: string): Promise<StoredPod | undefined> {
    return (await this.#store.endedPods.find(id))?.value
  }

  isOwn(pod: StoredPod): boolean {
    return pod.hostId === this.#hostId
  }

  /**
   * The record with the change, or as it was where `change` answers the very record that it was given. Undefined when it is gone.
   * The change is made anew to what another server has written meanwhile.
   */
  async update(id: string, change: (pod: StoredPod) => StoredPod): Promise<StoredPod | undefined> {
    for (;;) {
      const found = await this.#store.pods.find(id)
      if (!found) return undefined
      const changed = change(found.value)
      if (changed === found.value) return changed
      if ((await this.#store.pods.replace(changed, found.revision)) === 'replaced') return changed
    }
  }

  /** To those that are gone: a crash in between leaves it in both places, and this can be repeated. */
  async bury(pod: StoredPod): Promise<void> {
    await this.#store.endedPods.add(pod)
    await this.#store.pods.remove(pod.id)
  }

  /** Those that are gone for longer than they can be read, whoever ran them: their service may be no more. */
  async forgetOld(now: number): Promise<void> {
    for (const { value } of await this.#store.endedPods.list()) {
      const goneAt = value.endedAt ?? value.createdAt
      if (goneAt + fleetLimits.terminatedMs <= now) await this.#store.endedPods.remove(value.id)
    }
  }
}
