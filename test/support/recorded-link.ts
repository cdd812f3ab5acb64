// A proxy right before a service that writes into a history what the service tells the workers behind it.

import { once } from 'node:events'
import {
  createServer,
  request as ask,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { JobStatus } from '../../src/job/lifecycle.ts'
import {
  decodeExchange,
  exchangeAnswerSchema,
  exchangeRequestSchema,
  type Ended,
} from '../../src/protocol/exchange.ts'
import type { History } from './history.ts'
import type { Result } from './history/told.ts'

/** What becomes of a job by a report; a lost one ends only if no attempt is left. */
const MAY_BE: Record<Exclude<Ended['outcome'], 'released'>, JobStatus> = {
  completed: 'COMPLETED',
  failed: 'FAILED',
  timedOut: 'TIMED_OUT',
  lost: 'FAILED',
}

export interface RecordedLink {
  /** What a worker is given instead of the service's own. */
  readonly endpointUrl: string
  readonly port: number
  close(): void
}

/** Passes everything on; a request that the service does not answer is not answered either. */
export async function recordedLink(endpointUrl: string, history: History): Promise<RecordedLink> {
  const scribe = new Scribe(history)
  const server: Server = createServer((request, response) => {
    pass(request, response, { endpointUrl, scribe }).catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const own = new URL(endpointUrl)
  own.port = String(port)
  return {
    endpointUrl: own.href,
    port,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

async function pass(
  request: IncomingMessage,
  response: ServerResponse,
  { endpointUrl, scribe }: { endpointUrl: string; scribe: Scribe },
): Promise<void> {
  const given = new AbortController()
  response.once('close', () => given.abort())
  const sent = await buffer(request)
  const { method = 'GET', url = '/', headers } = request
  const worker = /\/exchange\/([^/?]+)/.exec(url)?.[1]
  const note = worker === undefined ? undefined : scribe.sent(worker, sent)
  const onward = ask(new URL(url, endpointUrl), { method, headers, signal: given.signal, agent: false })
  onward.end(sent)
  const [answer] = (await once(onward, 'response')) as [IncomingMessage]
  const told = await buffer(answer)
  if (answer.statusCode === 200) note?.(told)
  response.writeHead(answer.statusCode ?? 502, answer.headers).end(told)
}

/** Writes an exchange down; one that it cannot read spoils the history, and passes all the same. */
class Scribe {
  readonly #history: History

  constructor(history: History) {
    this.#history = history
  }

  /** What the worker says is told before it can have any effect, and the answer before the worker hears it. */
  sent(worker: string, body: Buffer): ((answer: Buffer) => void) | undefined {
    const asked = this.#history.moment()
    const results = this.#reading(() => this.#said(worker, body))
    if (!results) return undefined
    return (answer) => this.#reading(() => this.#answered({ worker, asked, results }, answer))
  }

  #reading<T>(read: () => T): T | undefined {
    try {
      return read()
    } catch (cause) {
      this.#history.spoil(cause)
      return undefined
    }
  }

  /** Answers the results by their leases. */
  #said(worker: string, body: Buffer): Map<string, Result> {
    const { head, payloads } = decodeExchange(body, exchangeRequestSchema)
    for (const { id, lease, ordinal, bytes } of head.chunks) {
      const output = parse(payloads.take(bytes))
      this.#history.tell({ kind: 'made', id, lease, worker, ordinal, output })
    }
    for (const { bytes } of head.progress) payloads.take(bytes)
    const results = new Map<string, Result>()
    for (const ended of head.ended) {
      const { id, lease, outcome, chunks } = ended
      if (outcome === 'released') continue
      const result: Result = { status: MAY_BE[outcome] }
      if (outcome !== 'completed') result.error = ended.error
      else if (ended.bytes !== undefined) result.output = parse(payloads.take(ended.bytes))
      // Whether a process that was lost ends its job depends on the attempts that are left: it is no result to be told of.
      if (outcome !== 'lost') results.set(lease, result)
      this.#history.tell({
        kind: 'reported',
        id,
        lease,
        worker,
        ...result,
        ...(chunks !== undefined && { chunks }),
      })
    }
    return results
  }

  #answered(
    { worker, asked, results }: { worker: string; asked: number; results: Map<string, Result> },
    body: Buffer,
  ): void {
    const { head } = decodeExchange(body, exchangeAnswerSchema)
    for (const { id, lease, state, ended, chunks } of head.acks) {
      if (chunks !== undefined) this.#history.tell({ kind: 'streamed', id, lease, worker, stored: chunks })
      const result = results.get(lease)
      if (ended && result)
        this.#history.tell({ kind: 'settled', id, lease, worker, answer: state, ...result })
    }
    for (const { id, lease, attempt } of head.leases)
      this.#history.tell({ kind: 'leased', id, lease, worker, attempt, asked })
  }
}

function parse(json: Uint8Array): unknown {
  return JSON.parse(Buffer.from(json).toString('utf8'))
}
