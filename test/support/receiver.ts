// A webhook's receiver on loopback, which notes what it gets and answers as it is told.

import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { Facts } from './facts.ts'

export interface Call {
  path: string
  method: string
  headers: IncomingHttpHeaders
  body: string
  at: number
}

export interface Answer {
  status: number
  headers?: Record<string, string>
}

export interface Receiver {
  url: string
  calls: Facts<Call>
}

/** Answers each call with what `answer` gives for it: `undefined` never answers. */
export async function startReceiver(
  answer: (call: Call, number: number) => Answer | undefined = () => ({ status: 200 }),
): Promise<Receiver> {
  const calls = new Facts<Call>()
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const { url: path = '', method = '', headers } = request
      const call = { path, method, headers, body: Buffer.concat(parts).toString('utf8'), at: Date.now() }
      calls.add(call)
      const given = answer(call, calls.all.length)
      if (given) response.writeHead(given.status, given.headers).end('noted')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls }
}
