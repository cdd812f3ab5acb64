import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Http, QueueUnreachableError } from '../../src/client/http.ts'

const WITHIN_MS = 300

/** A server that does a little more of its answer again and again, and never ends it. */
async function trickle(drop: (response: ServerResponse) => void): Promise<Http> {
  const server = createServer((_, response) => {
    drop(response)
    const timer = setInterval(() => drop(response), WITHIN_MS / 6)
    response.on('close', () => clearInterval(timer))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const http = new Http({ endpointUrl: `http://127.0.0.1:${port}/v2/ep`, token: 'key' })
  onTestFinished(async () => {
    await http.close()
    server.close().closeAllConnections()
  })
  return http
}

describe('an answer that comes bit by bit, without an end,', () => {
  it.each<[string, (response: ServerResponse) => void]>([
    ['a body', (response) => void response.write('x')],
    ['an error', (response) => void (response.headersSent ? response : response.writeHead(503)).write('x')],
    ['promises of an answer', (response) => response.writeProcessing()],
  ])('is given up when its time is over: %s', async (_, drop) => {
    const http = await trickle(drop)
    const begunAt = performance.now()
    const asking = http.request({ method: 'GET', path: '/health', timeoutMs: WITHIN_MS })
    const error = await asking.catch((cause: unknown) => cause)
    expect(error).toBeInstanceOf(QueueUnreachableError)
    const message = expect.stringContaining(`did not end within ${WITHIN_MS} ms`) as string
    expect(error).toMatchObject({ mayHaveArrived: true, message })
    expect(performance.now() - begunAt).toBeLessThan(10 * WITHIN_MS)
  })
})
