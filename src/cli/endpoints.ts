// longshore endpoints: what a service has of them, in short or one in whole, and the end of one.

import { systemClock as clock } from '../lib/clock.ts'
import type { ShownEndpoint } from '../client/resource-client.ts'
import type { Flags } from './sources.ts'
import { since, terminalWidth, withService, writeJson } from './service-link.ts'
import { table } from './table.ts'

export interface ShowOptions {
  json?: boolean
}

export async function listEndpoints(flags: Flags, { json = false }: ShowOptions): Promise<void> {
  const endpoints = await withService('endpoints', flags, ({ client }) => client.endpoints())
  if (json) return writeJson(endpoints)
  const head = ['ID', 'NAME', 'VERSION', 'WORKERS', 'BOUNDS', 'WHY']
  const rows = endpoints.map((endpoint) => [
    endpoint.id,
    endpoint.name,
    String(endpoint.version),
    workersOf(endpoint),
    `${endpoint.workersMin}-${endpoint.workersMax}`,
    endpoint.scaling?.reason ?? '',
  ])
  process.stdout.write(table(head, rows, terminalWidth()))
}

export async function showEndpoint(flags: Flags, id: string, { json = false }: ShowOptions): Promise<void> {
  await withService('endpoints', flags, async ({ client, serviceUrl }) => {
    const [endpoint, releases] = await Promise.all([client.endpoint(id), client.releases(id)])
    if (json) return writeJson({ ...endpoint, releases })
    const { name, scaling, workers = [] } = endpoint
    const width = terminalWidth()
    process.stdout.write(`Endpoint ${id} '${name}': POST ${serviceUrl}/v2/${id}/run\n`)
    process.stdout.write(
      `Workers: ${workersOf(endpoint)}; ${scaling?.reason ?? 'nothing was decided yet'}\n\n`,
    )
    const podRows = workers.map((pod) => [
      pod.id,
      String(pod.slsVersion ?? ''),
      pod.desiredStatus,
      pod.lastStatusChange,
    ])
    process.stdout.write(table(['POD', 'VERSION', 'STATUS', 'LAST CHANGE'], podRows, width))
    const rows = releases.map((release) => [
      String(release.version),
      release.state,
      since(release.createdAt, clock.now()),
      release.reason,
    ])
    process.stdout.write(`\n${table(['RELEASE', 'STATE', 'AGE', 'WHY'], rows, width)}`)
  })
}

export async function deleteEndpoint(flags: Flags, id: string): Promise<void> {
  await withService('endpoints', flags, ({ client }) => client.deleteEndpoint(id))
  process.stderr.write(`Endpoint ${id} is deleted, with its queue; its workers are being stopped.\n`)
}

function workersOf({ scaling }: ShownEndpoint): string {
  if (!scaling) return '-'
  const { running, idle, starting, draining } = scaling
  const parts = Object.entries({ running, idle, starting, draining }).filter(([, count]) => count > 0)
  return parts.map(([word, count]) => `${count} ${word}`).join(', ') || '0'
}
