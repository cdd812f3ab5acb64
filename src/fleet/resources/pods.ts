// Pods: made, found, named, started, stopped, restarted and ended. All of it is written to their records, which the service that
// runs them carries out.

import type { Clock } from '../../lib/clock.ts'
import { Refusal } from '../../protocol/errors.ts'
import { given } from '../../resource/container.ts'
import { fleetLimits } from '../../resource/fleet-limits.ts'
import {
  podFrom,
  type DesiredStatus,
  type NewPod,
  type Pod,
  type PodUpdate,
  type StoredPod,
} from '../../resource/pod.ts'
import type { Template } from '../../resource/template.ts'
import type { FleetStore, Stored } from '../../store/fleet-store.ts'
import { checkEnv, checkImage, checkRegistryAuth } from './container-checks.ts'
import type { PodPlace } from './pod-place.ts'
import type { HostMachine, LogOptions } from '../providers/provider.ts'
import { newResourceId } from './resource-id.ts'
import { shownPods, type PodInclude } from './shown-pod.ts'

export interface PodsOptions {
  store: FleetStore
  clock: Clock
  /** Without it no pod is made here. */
  host?: PodPlace
  /** A record was changed that is to be carried out. */
  wake: (endpointId?: string) => void
  /** Ends whoever follows a log. */
  stopping: AbortSignal
}

/** Exact, and all of them have to fit. */
export interface PodFilter {
  /** Without it all but those that are TERMINATED. */
  desiredStatus?: DesiredStatus | undefined
  endpointId?: string | undefined
  id?: string | undefined
  imageName?: string | undefined
  name?: string | undefined
  templateId?: string | undefined
  /** Workers of endpoints too; without it only where they are those of one endpoint. */
  includeWorkers?: boolean | undefined
}

export class Pods {
  readonly #options: PodsOptions

  constructor(options: PodsOptions) {
    this.#options = options
  }

  /** Throws the Refusal NO_POD_HOST where none is run. */
  async create(made: NewPod): Promise<Pod> {
    const { store, host, clock, wake } = this.#options
    const template = await this.#template(made.templateId)
    const image = made.imageName ?? template?.imageName
    if (image === undefined)
      throw new Refusal('FIELD_INVALID', { field: 'imageName', problem: 'must be given, or a templateId' })
    checkEnv(template?.env, made.env, `that of the template '${template?.id}'`)
    await checkRegistryAuth(store, made.containerRegistryAuthId)
    if (!host) throw new Refusal('NO_POD_HOST')
    checkImage(host, image)
    const machine = await host.machine()
    checkSize(made, machine)
    const { id: machineId, vcpuCount, memoryInGb } = machine
    const from = { id: newResourceId(), machineId, vcpuCount, memoryInGb, ...(template && { template }) }
    const pod: StoredPod = {
      ...podFrom({ ...made, image }, from),
      hostId: host.id,
      createdAt: clock.now(),
    }
    await store.pods.add(pod)
    wake()
    return this.#shown(pod)
  }

  /** In order of their ids. */
  async list(filter: PodFilter, include: PodInclude = {}): Promise<Pod[]> {
    const { store } = this.#options
    // One that ends meanwhile is moved from here to there: in this order it is seen once at least.
    const records = await store.pods.list()
    const gone = filter.desiredStatus === 'TERMINATED' ? await store.endedPods.list() : []
    const readable = gone.filter(({ value }) => this.#isReadable(value))
    const pods = new Map([...records, ...readable].map(({ value }) => [value.id, value]))
    const found = [...pods.values()].filter((pod) => isMatch(pod, filter))
    const inOrder = found.toSorted((one, other) => (one.id < other.id ? -1 : 1))
    return shownPods(inOrder, include, this.#options)
  }

  /** Also one that is gone, for as long as its record is kept. Throws the Refusal RESOURCE_NOT_FOUND. */
  async get(id: string, include: PodInclude = {}): Promise<Pod> {
    return this.#shown(await this.#find(id), include)
  }

  update(id: string, update: PodUpdate): Promise<Pod> {
    return this.#change(id, (pod) => {
      if (update.locked) refuseWorker(pod)
      return { ...pod, ...given(update) }
    })
  }

  /** Of one that runs: nothing. */
  start(id: string): Promise<Pod> {
    return this.#change(id, (pod) => {
      refuseWorker(pod)
      if (pod.desiredStatus === 'RUNNING') return pod
      return { ...pod, desiredStatus: 'RUNNING', lastStatusChange: 'asked to start' }
    })
  }

  /** Of one that does not run: nothing. */
  stop(id: string): Promise<Pod> {
    return this.#change(id, (pod) => {
      refuseWorker(pod)
      refuseLocked(pod)
      if (pod.desiredStatus === 'EXITED') return pod
      return { ...pod, desiredStatus: 'EXITED', isRestartAsked: false, lastStatusChange: 'asked to stop' }
    })
  }

  /** Starts one that does not run. */
  restart(id: string): Promise<Pod> {
    return this.#change(id, (pod) => {
      refuseLocked(pod)
      if (pod.desiredStatus === 'EXITED')
        return { ...pod, desiredStatus: 'RUNNING', lastStatusChange: 'asked to start' }
      return { ...pod, isRestartAsked: true, lastStatusChange: 'asked to restart' }
    })
  }

  /** Of one that is gone: nothing. */
  async remove(id: string): Promise<void> {
    const { desiredStatus } = await this.#find(id)
    if (desiredStatus === 'TERMINATED') return
    await this.#change(id, (pod) => {
      refuseLocked(pod)
      return ended(pod, 'asked to end')
    })
  }

  /** Ends all workers of an endpoint. */
  async removeWorkers(endpointId: string, why: string): Promise<void> {
    const { store, wake } = this.#options
    for (;;) {
      const workers = (await store.pods.list()).filter(
        ({ value }) => value.endpointId === endpointId && value.desiredStatus !== 'TERMINATED',
      )
      for (const { value, revision } of workers) await store.pods.replace(ended(value, why), revision)
      if (workers.length === 0) return wake(endpointId)
    }
  }

  /** Line by line, with the pace of whoever reads. Throws the Refusals RESOURCE_NOT_FOUND and POD_ELSEWHERE. */
  async logs(
    id: string,
    { signal, ...options }: LogOptions & { signal: AbortSignal },
  ): Promise<AsyncIterable<string>> {
    const { host, stopping } = this.#options
    const { hostId } = await this.#find(id)
    if (hostId !== host?.id) throw new Refusal('POD_ELSEWHERE', { id, host: hostId })
    return host.logs(id, { ...options, signal: AbortSignal.any([signal, stopping]) })
  }

  async #shown(pod: StoredPod, include: PodInclude = {}): Promise<Pod> {
    const [shown] = await shownPods([pod], include, this.#options)
    if (!shown) throw new Error(`Pod '${pod.id}' cannot be shown.`)
    return shown
  }

  /** One that ends meanwhile is moved from the first place to the second. */
  async #find(id: string): Promise<StoredPod> {
    const { store } = this.#options
    const found = (await store.pods.find(id)) ?? (await store.endedPods.find(id))
    if (found && this.#isReadable(found.value)) return found.value
    throw new Refusal('RESOURCE_NOT_FOUND', { kind: 'pod', id, path: 'pods' })
  }

  /** Whether or not it was tidied away: a pod that is gone is not there when its time has passed. */
  #isReadable({ endedAt, desiredStatus }: StoredPod): boolean {
    if (desiredStatus !== 'TERMINATED' || endedAt === undefined) return true
    return this.#options.clock.now() < endedAt + fleetLimits.terminatedMs
  }

  /** Writes what `change` makes of the record as it is; the record itself changes nothing. */
  async #change(id: string, change: (pod: StoredPod) => StoredPod): Promise<Pod> {
    const { store, wake } = this.#options
    for (;;) {
      const { value, revision } = await this.#findLiving(id)
      const changed = change(value)
      if (changed === value) return this.#shown(value)
      if ((await store.pods.replace(changed, revision)) !== 'replaced') continue
      wake(changed.endpointId)
      return this.#shown(changed)
    }
  }

  async #findLiving(id: string): Promise<Stored<StoredPod>> {
    const found = await this.#options.store.pods.find(id)
    if (found && found.value.desiredStatus !== 'TERMINATED') return found
    await this.#find(id)
    throw new Refusal('POD_TERMINATED', { id })
  }

  async #template(id: string | undefined): Promise<Template | undefined> {
    if (id === undefined) return undefined
    const found = await this.#options.store.templates.find(id)
    if (found) return found.value
    throw new Refusal('FIELD_INVALID', {
      field: 'templateId',
      problem: `must be the id of a template, got '${id}'`,
    })
  }
}

function ended(pod: StoredPod, why: string): StoredPod {
  return { ...pod, desiredStatus: 'TERMINATED', lastStatusChange: why }
}

function isMatch(pod: StoredPod, filter: PodFilter): boolean {
  const { includeWorkers = filter.endpointId !== undefined, desiredStatus } = filter
  if (desiredStatus ? pod.desiredStatus !== desiredStatus : pod.desiredStatus === 'TERMINATED') return false
  if (pod.endpointId !== undefined && !includeWorkers) return false
  const pairs: [asked: string | undefined, is: string | undefined][] = [
    [filter.endpointId, pod.endpointId],
    [filter.id, pod.id],
    [filter.imageName, pod.image],
    [filter.name, pod.name],
    [filter.templateId, pod.templateId],
  ]
  return pairs.every(([asked, is]) => asked === undefined || asked === is)
}

function refuseWorker({ id, endpointId }: StoredPod): void {
  if (endpointId !== undefined) throw new Refusal('POD_IS_WORKER', { id, endpoint: endpointId })
}

function refuseLocked({ id, locked }: StoredPod): void {
  if (locked) throw new Refusal('POD_LOCKED', { id })
}

/** A pod gets no more than there is. */
function checkSize(made: NewPod, machine: HostMachine): void {
  for (const field of ['vcpuCount', 'memoryInGb'] as const) {
    const asked = made[field] ?? 0
    if (asked <= machine[field]) continue
    const problem = `must be at most ${machine[field]}, which is what the machine has, got ${asked}`
    throw new Refusal('FIELD_INVALID', { field, problem })
  }
}
