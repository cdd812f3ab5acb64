// An HTTP proxy before a store, through which any one request or answer can be cut, lost, or held.

import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Transform } from 'node:stream'
import { onTestFinished } from 'vitest'
import { Facts } from './facts.ts'

export interface SeenRequest {
  method: string
  /** Path and query. */
  path: string
  /** Counts from 1. */
  number: number
}

export interface Treatment {
  /** The connection is reset after so many bytes of the request's body, which do not all arrive. */
  cutRequestAt?: number
  /** The store does what it is asked, and the connection is reset after so many bytes of its answer's body. */
  cutAnswerAt?: number
  /** The store does what it is asked; nobody learns of it. */
  loseAnswer?: true
  /** What was asked arrives only then. */
  holdRequest?: Promise<void>
  /** The store does what it is asked; its answer comes only then. */
  holdAnswer?: Promise<void>
}

export interface StoreLink {
  readonly endpoint: string
  readonly seen: Facts<SeenRequest>
}

/** Stands before `endpoint` until the test ends. Signatures hold: the store is told the name that was signed for. */
export async function storeLink(
  endpoint: string,
  treat: (request: SeenRequest) => Treatment = () => ({}),
): Promise<StoreLink> {
  const seen = new Facts<SeenRequest>()
  const server = createServer((near, answer) => {
    const request = { method: near.method ?? '', path: near.url ?? '', number: seen.all.length + 1 }
    const treatment = treat(request)
    seen.add(request)
    void pass(endpoint, near, answer, treatment)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen }
}

async function pass(
  endpoint: string,
  near: IncomingMessage,
  answer: ServerResponse,
  treatment: Treatment,
): Promise<void> {
  const reset = (): void => void near.socket.resetAndDestroy()
  near.on('error', () => undefined)
  await treatment.holdRequest
  const far = httpRequest(new URL(near.url ?? '', endpoint), {
    method: near.method,
    headers: near.rawHeaders,
    agent: false,
  })
  far.on('error', reset)
  near.on('close', () => near.complete || far.destroy())
  near.pipe(cut(treatment.cutRequestAt, () => (far.destroy(), reset()))).pipe(far)
  far.on('response', (given: IncomingMessage) => {
    given.on('error', reset)
    void give(given, answer, treatment, reset)
  })
}

async function give(
  given: IncomingMessage,
  answer: ServerResponse,
  { loseAnswer, holdAnswer, cutAnswerAt }: Treatment,
  reset: () => void,
): Promise<void> {
  await holdAnswer
  if (loseAnswer) return reset()
  answer.writeHead(given.statusCode ?? 500, given.rawHeaders)
  given.pipe(cut(cutAnswerAt, reset)).pipe(answer)
}

/** Lets so many bytes pass, then calls `end`. */
function cut(at: number | undefined, end: () => void): Transform {
  let left = at ?? Infinity
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const part = chunk.subarray(0, Math.min(left, chunk.length))
      left -= part.length
      if (left > 0 || at === undefined) return done(null, part)
      this.push(part)
      // What passed is to be on its way before the connection goes.
      setImmediate(end)
    },
    flush(done) {
      // Whatever was shorter is cut at its end.
      if (at !== undefined && left > 0) setImmediate(end)
      else done()
    },
  })
}
