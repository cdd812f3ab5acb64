// The pods of an endpoint: the record of a new worker, and what the rules of the fleet see in one.

import { limits } from '../../job/limits.ts'
import type { EndpointResource } from '../../resource/endpoint.ts'
import { podFrom, type StoredPod } from '../../resource/pod.ts'
import type { Release } from '../../resource/release.ts'
import type { Presence } from '../../store/traffic.ts'
import type { FleetWorker } from '../rules/fleet-worker.ts'
import type { Death } from '../rules/restart-backoff.ts'
import { newResourceId } from '../resources/resource-id.ts'

/** What pods on a machine say of it. */
export interface PodMachine {
  id: string
  vcpuCount: number
  memoryInGb: number
}

/** A worker that is to be started: by the service `hostId`, with what its release says, whatever became of the template. */
export function workerPod(
  endpoint: EndpointResource,
  release: Release,
  from: { machine: PodMachine; hostId: string; now: number; reason: string },
): StoredPod {
  const { machine, hostId, now, reason } = from
  const { template, env, version } = release
  const { id: machineId, vcpuCount, memoryInGb } = machine
  const made = { name: endpoint.name, image: template.imageName, env }
  return {
    ...podFrom(made, { id: newResourceId(), machineId, vcpuCount, memoryInGb, template }),
    endpointId: endpoint.id,
    aiApiId: endpoint.id,
    slsVersion: version,
    lastStatusChange: `created: ${reason}`,
    hostId,
    createdAt: now,
  }
}

/** Jobs that a worker of the release runs at a time, where it says so. */
export function slotsOf({ template, env }: Release): number {
  const said = Number({ ...template.env, ...env }['LONGSHORE_CONCURRENCY'])
  return Number.isInteger(said) && said >= 1 && said <= limits.concurrency ? said : 1
}

export function versionOf({ slsVersion = 1 }: StoredPod): number {
  return slsVersion
}

/** Whether it is ending, by an order. */
export function isEnding({ drain, desiredStatus }: StoredPod): boolean {
  return drain !== undefined || desiredStatus !== 'RUNNING'
}

/** Has asked for a job: to be heard by pings alone proves nothing. */
export function hasPolled(presence: Presence | undefined): boolean {
  return presence !== undefined && !presence.isStarting
}

export interface Seen {
  /** What the pod's version counts as. */
  version: number
  presence: Presence | undefined
  now: number
  /** Since when it could be heard, if it was there. */
  hearingSince: number
  /** Since when it holds no job, as far as that was seen. */
  idleSince: number
  /** Since when it is not heard, where it was before. */
  silentSince: number
}

export function workerOf(pod: StoredPod, seen: Seen): FleetWorker {
  const { version, presence, now, hearingSince, idleSince, silentSince } = seen
  const known = { id: pod.id, version, startedAt: pod.startedAt ?? pod.createdAt }
  if (isEnding(pod)) return { ...known, state: 'draining', jobs: presence?.holds ?? 0 }
  const isSilent = pod.readyAt !== undefined
  const waitedSince = Math.max(hearingSince, isSilent ? silentSince : known.startedAt)
  if (!presence || (pod.readyAt === undefined && !hasPolled(presence)))
    return { ...known, startedAt: waitedSince, state: 'starting', ...(isSilent && { isSilent }) }
  const readyAt = pod.readyAt ?? now
  if (presence.holds === 0) return { ...known, state: 'idle', readyAt, idleSince }
  return { ...known, state: 'running', readyAt, jobs: presence.holds, lowPriorityJobs: presence.lowPriority }
}

/** Undefined where it was told to end; one that was ended because it never became ready is a death. */
export function deathOf(
  pod: StoredPod,
  { version, now }: { version: number; now: number },
): Death | undefined {
  const { failure, drain, endedAt: at = now, createdAt, startedAt = createdAt, readyAt } = pod
  if (failure === undefined || drain !== undefined) return undefined
  return { version, at, startedAt, readyAt, reason: failure }
}
