// What a worker answers to those who watch it: /health and /metrics on a port of their own.

import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import type { WorkerHealth } from './worker.ts'

/** `starting`: the handler is not ready yet. */
export type Health =
  | { status: 'starting' }
  | (WorkerHealth & { executors: { ready: number; processes: number; hasSpare: boolean } })

export interface HealthOptions {
  host: string
  /** 0 takes a free one. */
  port: number
  health: () => Health
  metrics: () => Promise<{ type: string; text: string }>
}

export interface HealthServer {
  readonly port: number
  close(): void
}

/** Listens until `close`. `/health` is 200 only while the lease loop turns. Rejects when it cannot listen. */
export async function serveHealth({ host, port, health, metrics }: HealthOptions): Promise<HealthServer> {
  const server = createServer({ requestTimeout: 5_000, headersTimeout: 5_000 }, (request, response) => {
    const path = request.url?.split('?', 1)[0]
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return send(response, 405, { error: 'Only GET is known here.' })
    if (path === '/health') {
      const now = health()
      return send(response, now.status === 'ok' ? 200 : 503, now)
    }
    if (path !== '/metrics') return send(response, 404, { error: 'There is only /health and /metrics here.' })
    metrics().then(
      ({ type, text }) => response.writeHead(200, { 'content-type': type }).end(text),
      (cause: unknown) => send(response, 500, { error: String(cause) }),
    )
  })
  server.listen(port, host)
  await once(server, 'listening')
  // Watching must not keep a worker that has left.
  server.unref()
  return {
    port: (server.address() as AddressInfo).port,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(body))
}
