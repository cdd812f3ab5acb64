// The keys that workers of the fleet ask their endpoint with: one for each, that opens this endpoint alone.

import type { Clock } from '../../lib/clock.ts'
import { hashKey, newKey } from '../../resource/key-text.ts'
import type { KeyStore } from '../../store/key-store.ts'

export class WorkerTokens {
  readonly #keys: KeyStore
  readonly #clock: Clock

  constructor({ keys, clock }: { keys: KeyStore; clock: Clock }) {
    this.#keys = keys
    this.#clock = clock
  }

  /** The text of a new one, kept nowhere; the pod's former one opens nothing any more. */
  async issue(podId: string, endpointId: string): Promise<string> {
    await this.revoke(podId)
    const text = newKey()
    await this.#keys.addKey({
      hash: hashKey(text),
      id: idOf(podId),
      name: `worker ${podId}`,
      permissions: ['worker'],
      endpoints: [endpointId],
      createdAt: this.#clock.now(),
    })
    return text
  }

  async revoke(podId: string): Promise<void> {
    await this.#keys.revokeKey(idOf(podId))
  }
}

function idOf(podId: string): string {
  return `pod-${podId}`
}
