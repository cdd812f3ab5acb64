// A TCP proxy whose far side can be switched to another port, and which can swallow what passes.

import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { Transform } from 'node:stream'

export interface SwitchedLink {
  readonly port: number
  /** How many connections came so far. */
  readonly connections: number
  /** From now on connections lead there; those that are open go. */
  lead(port: number): void
  /** Connections that are open stay so and carry nothing any more, as when a cable is pulled; new ones pass. */
  swallow(): void
  /** The same for those alone on which somebody has subscribed to messages. */
  swallowSubscribed(): void
  /** The next message with this text passes; its answer does not, and the connection goes with it. */
  loseAnswer(text: string): void
  /** How many answers were lost so. */
  readonly lost: number
  close(): void
}

/** With a delay, all that passes takes as long in either direction. */
export async function switchedLink(to: number, delayMs = 0): Promise<SwitchedLink> {
  let target = to
  let connections = 0
  let losing: string | undefined
  let lost = 0
  const open = new Set<Socket>()
  const subscribed = new Set<Socket>()
  const swallowAll = (sockets: Iterable<Socket>): void => {
    for (const socket of sockets) {
      socket.unpipe()
      socket.removeAllListeners('end')
      socket.resume()
    }
  }
  const server = createServer((near) => {
    connections += 1
    const far = connect(target, '127.0.0.1')
    for (const socket of [near, far]) {
      open.add(socket)
      socket.on('error', () => undefined).on('close', () => open.delete(socket))
    }
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
    near.on('data', (bytes: Buffer) => {
      if (bytes.includes('psubscribe')) for (const socket of [near, far]) subscribed.add(socket)
      if (losing === undefined || !bytes.includes(losing)) return
      losing = undefined
      far.unpipe()
      far.once('data', () => {
        lost += 1
        near.destroy()
      })
      far.resume()
    })
    const [there, back] = [delayed(delayMs), delayed(delayMs)]
    near.pipe(there).pipe(far).pipe(back).pipe(near)
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
    loseAnswer(text) {
      losing = text
    },
    get lost() {
      return lost
    },
    swallow: () => swallowAll(open),
    swallowSubscribed: () => swallowAll(subscribed),
    close() {
      server.close()
      for (const socket of open) socket.destroy()
    },
  }
}

function delayed(ms: number): Transform {
  return new Transform({
    transform(bytes, _encoding, done) {
      setTimeout(() => done(null, bytes), ms)
    },
  })
}
