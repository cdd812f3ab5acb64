import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import {
  encodeExchange,
  type Ended,
  type ExchangeAnswer,
  type ExchangeRequest,
} from '../../src/protocol/exchange.ts'
import { History } from './history.ts'
import { recordedLink } from './recorded-link.ts'

const ended: Ended = { id: 'a', lease: 'l1', outcome: 'completed', executionMs: 1, chunks: 1, bytes: 1 }
const request: ExchangeRequest = {
  session: 's',
  seq: 1,
  want: 1,
  held: [],
  started: [],
  chunks: [{ id: 'a', lease: 'l1', ordinal: 1, bytes: 3 }],
  progress: [],
  ended: [ended],
}
const sent = encodeExchange(request, [Buffer.from('"x"'), Buffer.from('1')])
const answer: ExchangeAnswer = {
  leaseMs: 1000,
  acks: [{ id: 'a', lease: 'l1', state: 'accepted', ended: true, chunks: 1 }],
  stops: [],
  leases: [],
  drain: false,
}

/** Sends an exchange through a recorded link to a server that answers so; resolves with what came back. */
async function exchange(
  history: History,
  { body = sent, status = 200, told }: { body?: Buffer; status?: number; told: Buffer },
): Promise<Buffer> {
  const server = createServer((_request, response) => void response.writeHead(status).end(told))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const link = await recordedLink(`http://127.0.0.1:${port}/v2/default`, history)
  onTestFinished(() => link.close())
  const reply = await fetch(`${link.endpointUrl}/exchange/w1`, { method: 'POST', body: new Uint8Array(body) })
  return Buffer.from(await reply.arrayBuffer())
}

const kinds = ['made', 'reported', 'streamed', 'settled'] as const

it('writes down what a worker sent and what it was answered', async () => {
  const history = new History()
  const told = encodeExchange(answer, [])
  expect(await exchange(history, { told })).toEqual(told)
  expect(kinds.map((kind) => history.count(kind))).toEqual([1, 1, 1, 1])
  expect(() => history.findings()).not.toThrow()
})

it('writes down what a worker sent when it gets no answer', async () => {
  const history = new History()
  await exchange(history, { status: 503, told: Buffer.from('{}') })
  expect(kinds.map((kind) => history.count(kind))).toEqual([1, 1, 0, 0])
})

it.each([
  ['an answer', { told: Buffer.from('no exchange') }],
  ['a request', { body: Buffer.from('no exchange'), told: encodeExchange(answer, []) }],
])('passes %s on that it cannot read, and spoils the history', async (_what, given) => {
  const history = new History()
  expect(await exchange(history, given)).toEqual(given.told)
  expect(() => history.findings()).toThrow('The history has a hole')
})
