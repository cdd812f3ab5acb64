// The pods of services that are gone: who they are, and what is said of them. Another service cannot end what it does not run.

import type { Clock } from '../../lib/clock.ts'
import type { StoredPod } from '../../resource/pod.ts'
import type { FleetStore } from '../../store/fleet-store.ts'
import { changeRecord } from '../resources/change-record.ts'
import { fleetRules } from '../rules/fleet-rules.ts'
import { seconds } from '../rules/fleet-words.ts'
import type { FleetLog } from './host-settings.ts'
import type { StoreContact } from './store-contact.ts'
import type { WorkerTokens } from './worker-token.ts'

export interface LostPodsOptions {
  store: FleetStore
  clock: Clock
  /** Of this service. */
  hostId: string
  contact: Pick<StoreContact, 'lastedMs'>
  tokens: Pick<WorkerTokens, 'revoke'>
}

/** The duty that says that a service runs pods; it has it while it lives. */
export function hostDuty(hostId: string): string {
  return `host:${hostId}`
}

export function lostWords({ hostId }: StoredPod): string {
  return `its service '${hostId}' was not heard for ${seconds(fleetRules.hostSilentMs)}`
}

export class LostPods {
  readonly #options: LostPodsOptions
  /** Services of which it was said that they are gone. */
  #told = new Set<string>()
  /** Since when each service seems to be gone, without a break, by the monotonic clock. */
  readonly #missing = new Map<string, number>()

  constructor(options: LostPodsOptions) {
    this.#options = options
  }

  /** Those whose service is gone. While the store was away no service could say that it lives: each has its time anew. */
  async of(pods: readonly StoredPod[]): Promise<StoredPod[]> {
    const { store, clock, hostId: own, contact } = this.#options
    if (contact.lastedMs < fleetRules.hostSilentMs) {
      this.#missing.clear()
      return []
    }
    const lost: StoredPod[] = []
    const hosts = new Set(pods.map(({ hostId }) => hostId).filter((hostId) => hostId !== own))
    for (const hostId of hosts) {
      const ask = { holder: own, forMs: 1, now: clock.now() }
      // Only whose time is over can be taken from him.
      if (!(await store.hold(hostDuty(hostId), ask))) this.#missing.delete(hostId)
      else if (this.#isMissing(hostId)) lost.push(...pods.filter((pod) => pod.hostId === hostId))
    }
    return lost
  }

  /** For long enough: the store's clock may have been set, and this service may not have looked at it yet. */
  #isMissing(hostId: string): boolean {
    const now = this.#options.clock.monotonic()
    const since = this.#missing.get(hostId) ?? now
    this.#missing.set(hostId, since)
    return now - since >= fleetRules.hostMissingMs
  }

  /** Moves it to where the dead are; its key opens nothing from then on. A service that is back later removes what it finds without a record. */
  async bury(pod: StoredPod): Promise<StoredPod> {
    const { store, clock, tokens } = this.#options
    const isAsked = pod.drain !== undefined || pod.endpointId === undefined
    const failure = pod.failure ?? (isAsked ? undefined : lostWords(pod))
    const dead: StoredPod = {
      ...pod,
      desiredStatus: 'TERMINATED',
      lastStatusChange: `ended: ${lostWords(pod)}`,
      ...(failure !== undefined && { failure }),
      portMappings: {},
      endedAt: clock.now(),
    }
    if (pod.endpointId !== undefined) await tokens.revoke(pod.id)
    await store.endedPods.add(dead)
    await store.pods.remove(pod.id)
    return dead
  }

  /** Of one's own: what was to end is gone, and what was to run may be back with its service. Workers are their scalers'. */
  async tidy(pods: readonly StoredPod[], log: FleetLog): Promise<void> {
    const lost = await this.of(pods)
    this.#tell(lost, log)
    for (const pod of lost.filter(({ endpointId }) => endpointId === undefined)) {
      if (pod.desiredStatus === 'TERMINATED') await this.bury(pod)
      if (pod.desiredStatus === 'RUNNING') await this.#doubt(pod)
    }
  }

  async #doubt(pod: StoredPod): Promise<void> {
    const words = `${lostWords(pod)}: whether it runs is not known`
    if (pod.lastStatusChange === words) return
    await changeRecord(this.#options.store.pods, pod.id, (now) =>
      now.desiredStatus === 'RUNNING' ? { ...now, lastStatusChange: words } : undefined,
    )
  }

  #tell(lost: readonly StoredPod[], log: FleetLog): void {
    const byHost = Map.groupBy(lost, ({ hostId }) => hostId)
    for (const [host, pods] of byHost) {
      if (this.#told.has(host)) continue
      const message = `Service '${host}', which ran pods, was not heard for ${seconds(fleetRules.hostSilentMs)}. Start it again on its folder (--fleet-dir), and it looks after them. Where that folder is lost, delete its pods, and end what is left of their processes or containers by hand.`
      log.warn({ host, pods: pods.map(({ id }) => id) }, message)
    }
    this.#told = new Set(byHost.keys())
  }
}
