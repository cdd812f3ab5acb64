// longshore pods: what runs at a service, and how one is stopped, started and ended.

import type { PodOrder } from '../client/resource-client.ts'
import { systemClock as clock } from '../lib/clock.ts'
import type { Pod } from '../resource/pod.ts'
import type { Flags } from './sources.ts'
import { since, terminalWidth, withService, writeJson } from './service-link.ts'
import { table } from './table.ts'

export interface ListPodsOptions {
  /** Only the workers of this endpoint. */
  endpoint?: string
  /** Those too that are gone. */
  all?: boolean
  json?: boolean
}

export async function listPods(
  flags: Flags,
  { endpoint, all = false, json = false }: ListPodsOptions,
): Promise<void> {
  const found = await withService('pods', flags, async ({ client }) => [
    ...(await client.pods()),
    ...(all ? await client.pods({ areGone: true }) : []),
  ])
  const pods = found.filter((pod) => endpoint === undefined || pod.endpointId === endpoint)
  if (json) return writeJson(pods)
  const head = ['ID', 'NAME', 'ENDPOINT', 'VERSION', 'STATUS', 'UP', 'PORTS', 'LAST CHANGE']
  process.stdout.write(table(head, pods.map(rowOf), terminalWidth()))
}

export async function orderPod(flags: Flags, podId: string, order: PodOrder): Promise<void> {
  const pod = await withService('pods', flags, ({ client }) => client.order(podId, order))
  process.stderr.write(`Pod ${podId} is to be ${pod.desiredStatus}: ${pod.lastStatusChange}\n`)
}

export async function deletePod(flags: Flags, podId: string): Promise<void> {
  await withService('pods', flags, ({ client }) => client.deletePod(podId))
  process.stderr.write(`Pod ${podId} is being ended, and its volume and log removed.\n`)
}

function rowOf(pod: Pod): string[] {
  const {
    id,
    name,
    endpointId = '-',
    slsVersion,
    desiredStatus,
    lastStartedAt,
    portMappings,
    lastStatusChange,
  } = pod
  const ports = Object.entries(portMappings).map(([inside, outside]) => `${inside}:${outside}`)
  return [
    id,
    name,
    endpointId,
    String(slsVersion ?? '-'),
    desiredStatus,
    desiredStatus === 'RUNNING' ? since(lastStartedAt, clock.now()) : '-',
    ports.join(',') || '-',
    lastStatusChange,
  ]
}
