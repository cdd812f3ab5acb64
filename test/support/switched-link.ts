// A TCP proxy whose far side can be switched to another port, and which can swallow what passes.

import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

export interface SwitchedLink {
  readonly port: number
  /** How many connections came so far. */
  readonly connections: number
  /** From now on connections lead there; those that are open go. */
  lead(port: number): void
  /** Connections that are open stay so and carry nothing any more, as when a cable is pulled; new ones pass. */
  swallow(): void
  close(): void
}

export async function switchedLink(to: number): Promise<SwitchedLink> {
  let target = to
  let connections = 0
  const open = new Set<Socket>()
  const server = createServer((near) => {
    connections += 1
    const far = connect(target, '127.0.0.1')
    for (const socket of [near, far]) {
      open.add(socket)
      socket.on('error', () => undefined).on('close', () => open.delete(socket))
    }
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
    near.pipe(far).pipe(near)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections
    },
    lead(port) {
      target = port
      for (const socket of open) socket.destroy()
    },
    swallow() {
      for (const socket of open) {
        socket.unpipe()
        socket.removeAllListeners('end')
        socket.resume()
      }
    },
    close() {
      server.close()
      for (const socket of open) socket.destroy()
    },
  }
}
