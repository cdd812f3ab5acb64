// A port of the loopback for a server that has to be told its own.

import { once } from 'node:events'
import { createServer } from 'node:net'

// A node of a Redis cluster listens 10,000 above its port as well, which nobody else here does.
// Below the ports that Linux gives to whoever does not ask for one: those come and go while a server is yet to listen.
const FIRST = 10_000
/** Of each of the processes that run tests side by side, so that no two are given the same. */
const SHARE = 1_000
const SHARES = 10

const first = FIRST + SHARE * (Number(process.env['VITEST_POOL_ID'] ?? 0) % SHARES)
let next = Math.floor(Math.random() * SHARE)

/** One that nobody listens on, and that this process was not given before. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < SHARE; tries += 1) {
    const port = first + next
    next = (next + 1) % SHARE
    if (await isFree(port)) return port
  }
  throw new Error(`No port from ${first} to ${first + SHARE - 1} is free.`)
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
  } catch {
    return false
  }
  await once(server.close(), 'close')
  return true
}
