// Whether a worker can work for its queue: it answers, takes the key, keeps leases, and has the same time.

import { randomUUID } from 'node:crypto'
import { ExchangeClient } from '../../client/exchange-client.ts'
import { Connections, QueueRefusedError, QueueUnreachableError } from '../../client/http.ts'
import type { Clock } from '../../lib/clock.ts'
import { problem, type Finding } from '../../lib/finding.ts'
import { ExchangeFormatError } from '../../protocol/exchange.ts'

const PATIENCE_MS = 10_000
/** Beyond it times in records are hard to read, and signed addresses begin to fail. */
const MOST_APART_MS = 1_000
/** A `Date` header tells no more. */
const DATE_MS = 1_000

export interface ExaminedQueue {
  endpointUrl: string
  workerToken: string
  clock: Clock
  /** Where the two were said. */
  origins?: { endpointUrl?: string; workerToken?: string }
}

export async function examineQueue(queue: ExaminedQueue): Promise<Finding[]> {
  try {
    const [trips, clocks] = await Promise.all([leaseTrip(queue), clockFindings(queue)])
    return [...trips, ...clocks]
  } catch (cause) {
    if (!(cause instanceof QueueUnreachableError)) throw cause
    return [problem(`${cause.message} Check ${urlPlace(queue)}, and that the service runs there.`)]
  }
}

/** An exchange that wants no job and lists a lease that nobody gave: the queue has to look it up, and to say that it is lost. */
async function leaseTrip(queue: ExaminedQueue): Promise<Finding[]> {
  const { endpointUrl, workerToken, origins } = queue
  const other = `Check ${urlPlace(queue)}, and that the service there is longshore of this version.`
  // An id of its own: by that of a worker it would take its place.
  const link = new ExchangeClient({ endpointUrl, token: workerToken, workerId: `doctor-${randomUUID()}` })
  const unknown = { id: randomUUID(), lease: randomUUID() }
  const nothing = { started: [], chunks: [], progress: [], ended: [] }
  try {
    const request = { session: randomUUID(), seq: 0, want: 0, held: [unknown], ...nothing }
    const { answer } = await link.send(request, [], { timeoutMs: PATIENCE_MS })
    if (answer.stops.some(({ lease, reason }) => lease === unknown.lease && reason === 'lease-lost'))
      return []
    return [problem(`The queue at ${endpointUrl} does not say which leases are lost. ${other}`)]
  } catch (cause) {
    if (cause instanceof QueueRefusedError) {
      const mend = cause.status === 401 ? `Check ${origins?.workerToken ?? 'LONGSHORE_WORKER_TOKEN'}.` : other
      return [problem(`The queue at ${endpointUrl} refuses this worker: ${cause.message} ${mend}`)]
    }
    if (cause instanceof ExchangeFormatError)
      return [problem(`What answers at ${endpointUrl} is no queue of ours: ${cause.message}. ${other}`)]
    throw cause
  } finally {
    await link.close()
  }
}

function urlPlace({ origins }: ExaminedQueue): string {
  return origins?.endpointUrl ?? 'LONGSHORE_ENDPOINT_URL'
}

async function clockFindings({ endpointUrl, clock }: ExaminedQueue): Promise<Finding[]> {
  const { origin, pathname } = new URL(endpointUrl)
  const path = pathname.replace(/\/v2\/[^/]+\/?$/, '/healthz')
  const connections = new Connections()
  try {
    const before = clock.now()
    const { headers } = await connections.call({ origin, path }, { method: 'GET', timeoutMs: PATIENCE_MS })
    const after = clock.now()
    const theirs = Date.parse(String(headers['date']))
    const aheadMs = Math.max(0, theirs - after)
    const behindMs = Math.max(0, before - (theirs + DATE_MS))
    const apartMs = Math.max(aheadMs, behindMs)
    // Without a header it is not a number, and nothing is known.
    if (!(apartMs > MOST_APART_MS)) return []
    const words = `about ${Math.round(apartMs / 1000)} s ${aheadMs > 0 ? 'ahead of' : 'behind'}`
    return [
      problem(`The clock of the queue at ${origin} is ${words} this machine's. Have both keep time (NTP).`),
    ]
  } finally {
    await connections.close()
  }
}

/** Of a platform whose takes give jobs away, no more than that it answers. */
export async function examineOrigin(url: string): Promise<Finding[]> {
  const connections = new Connections()
  try {
    await connections.call(
      { origin: new URL(url).origin, path: '/' },
      { method: 'GET', timeoutMs: PATIENCE_MS },
    )
    return []
  } catch (cause) {
    if (!(cause instanceof QueueUnreachableError)) throw cause
    return [problem(`${cause.message} Check RUNPOD_WEBHOOK_GET_JOB, and the network of this machine.`)]
  } finally {
    await connections.close()
  }
}
