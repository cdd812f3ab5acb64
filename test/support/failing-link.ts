// A TCP proxy that fails as networks do: resets, delays, swallows and half-closes, by a given dice.

import { createServer, connect, type AddressInfo, type Socket } from 'node:net'
import { once } from 'node:events'

export type Fault = 'reset later' | 'reset at once' | 'reset on answer' | 'delay' | 'swallow' | 'half-close'

export interface FailingLink {
  readonly port: number
  /** How often each fault came up. */
  readonly faults: Map<Fault, number>
  close(): void
}

/** Listens before `port`; `next` says what happens to the next connection. */
export async function failingLink(port: number, next: () => Fault): Promise<FailingLink> {
  const open = new Set<Socket>()
  const faults = new Map<Fault, number>()
  const server = createServer((near) => {
    const fault = next()
    faults.set(fault, (faults.get(fault) ?? 0) + 1)
    const far = connect(port, '127.0.0.1')
    for (const socket of [near, far]) {
      open.add(socket)
      socket.on('error', () => undefined).on('close', () => open.delete(socket))
    }
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
    join(fault, near, far)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    faults,
    close() {
      server.close()
      for (const socket of open) socket.destroy()
    },
  }
}

function join(fault: Fault, near: Socket, far: Socket): void {
  const pass = (): void => void near.pipe(far).pipe(near)
  switch (fault) {
    case 'reset later':
      pass()
      return void setTimeout(() => near.resetAndDestroy(), 80)
    case 'reset at once':
      return void near.once('data', () => near.resetAndDestroy())
    case 'reset on answer':
      near.pipe(far)
      return void far.once('data', () => near.resetAndDestroy())
    case 'delay':
      return void setTimeout(pass, 150)
    case 'swallow':
      // What is sent arrives; no answer ever comes.
      near.pipe(far)
      return void far.resume()
    case 'half-close':
      pass()
      return void far.once('data', () => near.end())
    default:
      fault satisfies never
  }
}
