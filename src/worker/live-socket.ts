// A local socket on which a worker says in one word how it is, to those beside it who ask whether it lives.

import { once } from 'node:events'
import { lstatSync, unlinkSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import type { Health } from './health.ts'

export interface LiveSocketOptions {
  path: string
  status: () => Health['status']
}

export interface LiveSocket {
  close(): void
}

/** Listens until `close`. A socket that a dead worker left is replaced; rejects when a living one has it. */
export async function openLiveSocket({ path, status }: LiveSocketOptions): Promise<LiveSocket> {
  const answer = createServer((asker) => {
    asker.on('error', () => undefined)
    asker.end(`${status()}\n`)
  })
  try {
    await listen(answer, path)
  } catch (cause) {
    const isTaken = (cause as NodeJS.ErrnoException).code === 'EADDRINUSE'
    // Never a file that is something else: whoever named it may have meant another.
    if (!isTaken || !lstatSync(path).isSocket() || (await isAnswered(path))) throw cause
    unlinkSync(path)
    await listen(answer, path)
  }
  // Being asked must not keep a worker that has left.
  answer.unref()
  return { close: () => void answer.close() }
}

async function listen(server: Server, path: string): Promise<void> {
  server.listen(path)
  await once(server, 'listening')
}

/** Nobody listens any more on the socket of a process that was killed. */
async function isAnswered(path: string): Promise<boolean> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
