// Carries out what the rules have answered for one endpoint, by writing the records of its pods, and says so in the log.

import type { EndpointResource } from '../../resource/endpoint.ts'
import type { StoredPod } from '../../resource/pod.ts'
import type { Presence } from '../../store/traffic.ts'
import type { EndpointPods } from './endpoint-pods.ts'
import type { FleetPlan } from '../rules/fleet-plan.ts'
import type { Order } from '../rules/fleet-worker.ts'
import { counted } from '../rules/fleet-words.ts'
import type { FleetLog } from '../service/host-settings.ts'
import type { ReleaseLine } from './release-line.ts'
import type { ScalingDuty } from './scaling-duty.ts'
import { hasPolled, workerPod, type PodMachine } from './worker-pod.ts'

export interface FleetOrdersOptions {
  endpointId: string
  pods: EndpointPods
  duty: ScalingDuty
  log: FleetLog
  /** The service that runs what is started. */
  hostId: string
  machine: () => Promise<PodMachine>
}

export interface OrderContext {
  endpoint: EndpointResource
  line: ReleaseLine
  now: number
  /** Workers that are heard now. */
  heard: () => Promise<ReadonlyMap<string, Presence>>
  /** Called for each pod that was recorded. */
  made: (pod: StoredPod) => void
}

export class FleetOrders {
  readonly #options: FleetOrdersOptions

  constructor(options: FleetOrdersOptions) {
    this.#options = options
  }

  /** Answers in words what was started and ended. Throws DutyLostError, with a part of it done. */
  async carryOut(
    { starts, drains, ends }: Pick<FleetPlan, 'starts' | 'drains' | 'ends'>,
    context: OrderContext,
  ): Promise<string[]> {
    return [
      ...(await this.#end(ends, context)),
      ...(await this.#start(starts, context)),
      ...(await this.#drain(drains)),
    ]
  }

  async #end(ends: readonly Order[], { heard }: OrderContext): Promise<string[]> {
    const { pods, duty } = this.#options
    if (ends.length === 0) return []
    // One that was silent may have come back since, with a job.
    const back = await heard()
    const silent = ends.filter(({ id }) => !hasPolled(back.get(id)))
    await duty.check()
    await Promise.all(silent.map(({ id, reason }) => pods.end(id, { reason, isFailure: true })))
    return this.#told(silent, { what: 'ended', message: 'workers ended' })
  }

  async #start(starts: FleetPlan['starts'], { endpoint, line, now, made }: OrderContext): Promise<string[]> {
    if (starts.length === 0) return []
    const { pods, duty, hostId, log } = this.#options
    const machine = await this.#options.machine()
    const decisions: string[] = []
    for (const { version, count, reason } of starts) {
      const release = version === line.serving.version ? line.serving : line.rolling?.value
      if (release?.version !== version) throw new Error(`There is no release of version ${version} to start.`)
      const started = Array.from({ length: count }, () =>
        workerPod(endpoint, release, { machine, hostId, now, reason }),
      )
      await duty.check()
      await Promise.all(started.map(async (pod) => made(await pods.add(pod))))
      const ids = started.map(({ id }) => id)
      log.info({ endpoint: endpoint.id, version, pods: ids, reason }, 'workers started')
      decisions.push(`${counted(count, 'worker')} of version ${version} started: ${reason}`)
    }
    return decisions
  }

  async #drain(drains: readonly Order[]): Promise<string[]> {
    const { pods, duty } = this.#options
    if (drains.length === 0) return []
    await duty.check()
    await Promise.all(drains.map(({ id, reason }) => pods.drain(id, reason)))
    return this.#told(drains, { what: 'told to end', message: 'workers told to end after their last job' })
  }

  /** Logs the orders, those of one reason together; answers them in words. */
  #told(orders: readonly Order[], { what, message }: { what: string; message: string }): string[] {
    const { log, endpointId: endpoint } = this.#options
    return [...Map.groupBy(orders, ({ reason }) => reason)].map(([reason, those]) => {
      log.info({ endpoint, pods: those.map(({ id }) => id), reason }, message)
      return `${counted(those.length, 'worker')} ${what}: ${reason}`
    })
  }
}
