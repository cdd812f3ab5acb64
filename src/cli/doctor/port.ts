// Whether a port can be listened on, or is so already by what belongs there.

import { once } from 'node:events'
import { createServer } from 'node:net'
import { Connections, QueueUnreachableError } from '../../client/http.ts'
import { problem, type Finding } from '../../lib/finding.ts'
import { listenProblem, type Listening } from '../listen-problem.ts'

const PATIENCE_MS = 2_000

export interface ExaminedPort extends Listening {
  /** What one of ours answers there. */
  ours: { path: string; has: string }
}

export async function examinePort(port: ExaminedPort): Promise<Finding[]> {
  const server = createServer()
  try {
    server.listen(port.port, port.host)
    await once(server, 'listening')
    return []
  } catch (cause) {
    const sentence = listenProblem(cause, port)
    if (sentence === undefined) throw cause
    const isTaken = (cause as NodeJS.ErrnoException).code === 'EADDRINUSE'
    return isTaken && (await isOurs(port)) ? [] : [problem(sentence)]
  } finally {
    server.close()
  }
}

async function isOurs({ host, port, ours }: ExaminedPort): Promise<boolean> {
  const reachable = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host
  const origin = `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
  const connections = new Connections()
  try {
    const ask = { method: 'GET', timeoutMs: PATIENCE_MS } as const
    const { body } = await connections.call({ origin, path: ours.path }, ask)
    return body.includes(ours.has)
  } catch (cause) {
    if (cause instanceof QueueUnreachableError) return false
    throw cause
  } finally {
    await connections.close()
  }
}
