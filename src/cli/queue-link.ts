// A worker's link to its queue: ours, or the hosted platform's. The code of the one that is not used is not loaded.

import { randomUUID } from 'node:crypto'
import type { ExchangeLink } from '../client/exchange-client.ts'
import type { Clock } from '../lib/clock.ts'
import { isHosted, type HostedConfig, type WorkerConfig } from '../worker/config.ts'
import type { WorkerEvents } from '../worker/events.ts'
import { version } from './version.ts'

export interface QueueLink {
  link: ExchangeLink
  workerId: string
  /** Where jobs come from, for people. */
  endpointUrl: string
  /** What to do when the queue refuses this worker: its key, or anything else of it. */
  mends: { key: string; other: string }
}

interface Ports {
  clock: Clock
  events: WorkerEvents
}

export async function openLink(config: WorkerConfig, ports: Ports): Promise<QueueLink> {
  if (isHosted(config)) return openHosted(config, ports)
  const { ExchangeClient } = await import('../client/exchange-client.ts')
  const { endpointUrl, workerToken: token } = config
  const workerId = config.workerId ?? randomUUID()
  const link = new ExchangeClient({ endpointUrl, token, workerId })
  const mends = {
    key: 'Check LONGSHORE_WORKER_TOKEN.',
    other: 'Check LONGSHORE_ENDPOINT_URL, and that the service there is longshore of this version.',
  }
  return { link, workerId, endpointUrl, mends }
}

async function openHosted(config: HostedConfig, { clock, events }: Ports): Promise<QueueLink> {
  const { HostedLink } = await import('../client/hosted-link.ts')
  const workerId = config.RUNPOD_POD_ID ?? randomUUID()
  const link = new HostedLink({
    urls: {
      take: config.RUNPOD_WEBHOOK_GET_JOB,
      done: config.RUNPOD_WEBHOOK_POST_OUTPUT,
      stream: config.RUNPOD_WEBHOOK_POST_STREAM,
      ping: config.RUNPOD_WEBHOOK_PING,
    },
    workerId,
    apiKey: config.RUNPOD_AI_API_KEY,
    pingIntervalMs: config.RUNPOD_PING_INTERVAL,
    version: `longshore-${version()}`,
    hostname: config.RUNPOD_POD_HOSTNAME,
    clock,
    onWarning: (message, id) => events.emit('warned', { message, ...(id !== undefined && { id }) }),
  })
  const mends = {
    key: 'Check RUNPOD_AI_API_KEY.',
    other: 'Check RUNPOD_AI_API_KEY and RUNPOD_WEBHOOK_GET_JOB.',
  }
  return { link, workerId, endpointUrl: link.place, mends }
}
