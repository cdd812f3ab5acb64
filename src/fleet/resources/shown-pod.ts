// A pod as it is shown: its record without what the service alone has to know, with what was asked for beside it.

import type { Machine } from '../../resource/machine.ts'
import { podSchema, type Pod, type StoredPod } from '../../resource/pod.ts'
import type { Template } from '../../resource/template.ts'
import type { FleetStore } from '../../store/fleet-store.ts'
import type { PodPlace } from './pod-place.ts'

/** What a pod is shown with only where it is asked for. */
export interface PodInclude {
  includeMachine?: boolean | undefined
  includeNetworkVolume?: boolean | undefined
  includeSavingsPlans?: boolean | undefined
  includeTemplate?: boolean | undefined
}

export interface PodSurroundings {
  store: FleetStore
  host?: PodPlace | undefined
}

/** In the order that they are given. */
export async function shownPods(
  pods: readonly StoredPod[],
  include: PodInclude,
  { store, host }: PodSurroundings,
): Promise<Pod[]> {
  const machine = include.includeMachine ? (await host?.machine())?.machine : undefined
  const templates = new Map<string, Template>()
  const ids = include.includeTemplate ? new Set(pods.flatMap(({ templateId }) => templateId ?? [])) : []
  for (const id of ids) {
    const found = await store.templates.find(id)
    if (found) templates.set(id, found.value)
  }
  return pods.map((pod) => {
    // What another service runs, it alone can tell the machine of.
    const own = pod.hostId === host?.id ? machine : undefined
    return shown(pod, include, { machine: own, template: templates.get(pod.templateId ?? '') })
  })
}

function shown(
  stored: StoredPod,
  { includeNetworkVolume, includeSavingsPlans }: PodInclude,
  { machine, template }: { machine: Machine | undefined; template: Template | undefined },
): Pod {
  const { networkVolume, ...pod } = podSchema
    .omit({ machine: true, savingsPlans: true, template: true })
    .parse(stored)
  return {
    ...pod,
    ...(pod.endpointId !== undefined && { aiApiId: pod.endpointId }),
    ...(includeNetworkVolume && networkVolume && { networkVolume }),
    ...(machine && { machine }),
    // There are none here, and what is asked for is told.
    ...(includeSavingsPlans && { savingsPlans: [] }),
    ...(template && { template }),
  }
}
