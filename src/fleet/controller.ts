// Keeps the fleet going: asks each endpoint's scaler and the host of the pods in turn, each second and when something has happened.

import type { Clock, Timer } from '../lib/clock.ts'
import type { Store } from '../store/store.ts'
import type { StoreEvent } from '../store/store-event.ts'
import { fleetRules } from './rules/fleet-rules.ts'
import type { FleetLog } from './service/host-settings.ts'
import { Lane } from './lane.ts'
import { hostDuty, LostPods } from './service/lost-pods.ts'
import type { StoreContact } from './service/store-contact.ts'
import type { WorkerTokens } from './service/worker-token.ts'

/** Scales one endpoint. */
export interface Scaler {
  step(): Promise<void>
  close(): Promise<void>
  /** Whether the endpoint and its pods are gone. */
  readonly isOver: boolean
}

export interface FleetControllerOptions {
  store: Pick<Store, 'fleet' | 'watch'>
  clock: Clock
  log: FleetLog
  /** This service. */
  hostId: string
  contact: StoreContact
  tokens: Pick<WorkerTokens, 'revoke'>
  /** Runs the pods of this service. Without it nothing is scaled here. */
  podHost?: { step(): Promise<void> }
  /** `onOrder` is to be called when the scaler has changed records of pods. */
  makeScaler: (endpointId: string, more: { onOrder: () => void }) => Scaler
}

/** Between two looks at everything, ms. */
const TICK_MS = 1_000
/** Between two looks at one endpoint, ms, however many jobs arrive. */
const GAP_MS = 200

export class FleetController {
  readonly #options: FleetControllerOptions
  readonly #endpoints = new Map<string, { scaler: Scaler; lane: Lane }>()
  readonly #lost: LostPods
  readonly #host: Lane
  readonly #round: Lane
  #unwatch: (() => void) | undefined
  #timer: Timer | undefined
  #isRunning = false

  constructor(options: FleetControllerOptions) {
    this.#options = options
    this.#lost = new LostPods({ ...options, store: options.store.fleet })
    this.#host = this.#lane({ gapMs: 0, work: async () => options.podHost?.step() }, 'running pods failed')
    this.#round = this.#lane({ gapMs: 0, work: () => this.#lookAtAll() }, 'reading the fleet failed')
  }

  start(): void {
    const { store, podHost } = this.#options
    if (!podHost || this.#isRunning) return
    this.#isRunning = true
    this.#unwatch = store.watch((event) => this.#heard(event))
    this.#tick()
  }

  /** Something has changed: an endpoint and its pods, or, without an id, anything. */
  wake(endpointId?: string): void {
    if (!this.#isRunning) return
    this.#host.ask()
    if (endpointId === undefined) this.#round.ask()
    else this.#endpoint(endpointId).ask()
  }

  /** Begins nothing more, waits for what is under way, and lets other servers take over at once. */
  async close(): Promise<void> {
    this.#isRunning = false
    this.#timer?.clear()
    this.#unwatch?.()
    await this.#round.close()
    const all = [...this.#endpoints]
    this.#endpoints.clear()
    await Promise.all([this.#host.close(), ...all.map(([, { lane }]) => lane.close())])
    await Promise.all(all.map(([id, { scaler }]) => this.#letGo(id, scaler)))
  }

  #tick(): void {
    this.#round.ask()
    this.#timer = this.#options.clock.after(TICK_MS, () => this.#tick(), { background: true })
  }

  #heard(event: StoreEvent): void {
    if (event.kind !== 'queued' && event.kind !== 'missed') return
    // Most queues may be no endpoint of the fleet's; one that is new is found with the next tick.
    this.#endpoints.get(event.endpoint)?.lane.ask()
  }

  async #lookAtAll(): Promise<void> {
    const { store, clock, hostId, contact } = this.#options
    await store.fleet.hold(hostDuty(hostId), {
      holder: hostId,
      forMs: fleetRules.hostSilentMs,
      now: clock.now(),
    })
    contact.answered()
    const [endpoints, pods] = await Promise.all([store.fleet.endpoints.list(), store.fleet.pods.list()])
    if (!this.#isRunning) return
    this.#host.ask()
    // Pods of an endpoint that is gone are still to be ended.
    const owners = pods.flatMap(({ value: { endpointId } }) => (endpointId === undefined ? [] : [endpointId]))
    const ids = new Set([...endpoints.map(({ value }) => value.id), ...owners])
    for (const id of new Set([...ids, ...this.#endpoints.keys()])) this.#endpoint(id).ask()
    const records = pods.map(({ value }) => value)
    await this.#lost.tidy(records, this.#options.log)
  }

  #endpoint(id: string): Lane {
    const known = this.#endpoints.get(id)
    if (known) return known.lane
    const scaler = this.#options.makeScaler(id, { onOrder: () => this.#host.ask() })
    const lane = this.#lane(
      {
        gapMs: GAP_MS,
        work: async () => {
          await scaler.step()
          if (!scaler.isOver) return
          lane.stop()
          this.#endpoints.delete(id)
          await scaler.close()
        },
      },
      'scaling an endpoint failed',
      id,
    )
    this.#endpoints.set(id, { scaler, lane })
    return lane
  }

  async #letGo(endpoint: string, scaler: Scaler): Promise<void> {
    try {
      await scaler.close()
    } catch (err) {
      this.#options.log.warn({ err, endpoint }, 'the duty to scale an endpoint was not given back; it lapses')
    }
  }

  #lane(doing: { gapMs: number; work: () => Promise<void> }, message: string, endpoint?: string): Lane {
    const { clock, log } = this.#options
    const onError = (err: unknown): void =>
      log.error({ err, ...(endpoint !== undefined && { endpoint }) }, `${message}; the next tick tries again`)
    return new Lane({ ...doing, clock, onError })
  }
}
