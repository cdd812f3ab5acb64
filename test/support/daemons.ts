// Servers that are not ours, started for tests: what they say goes into files, and none outlives its owner.

import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, closeSync, constants, openSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { delimiter, join } from 'node:path'
import { setInterval } from 'node:timers/promises'
import { promisify } from 'node:util'

const PATIENCE_MS = 60_000
const POLL_MS = 50
const TAIL_LINES = 15

/** A server that speaks S3, and an account that it knows. */
export interface ObjectStore {
  readonly endpoint: string
  readonly accessId: string
  readonly accessSecret: string
}

export interface StartedObjectStore extends ObjectStore {
  close(): Promise<void>
}

interface Daemon {
  readonly name: string
  readonly log: string
  readonly child: ChildProcess
}

export class Daemons {
  readonly #dir: string
  readonly #started: Daemon[] = []

  /** What the daemons say is kept in `dir`, one file each, and is left there. */
  constructor(dir: string) {
    this.#dir = dir
    process.on('exit', this.#kill)
  }

  start(name: string, command: string, args: string[]): void {
    const log = join(this.#dir, `${name}.log`)
    const file = openSync(log, 'a')
    const child = spawn(command, args, { stdio: ['ignore', file, file] })
    closeSync(file)
    this.#started.push({ name, log, child })
    // One that cannot be started has no pid; it is told with the others that ended.
    child.on('error', () => {})
  }

  /** Runs a command to its end and gives what it printed. */
  async run(command: string, args: string[], input = ''): Promise<string> {
    const running = promisify(execFile)(command, args, { timeout: PATIENCE_MS, killSignal: 'SIGKILL' })
    running.child.stdin?.on('error', () => {}).end(input)
    try {
      return (await running).stdout
    } catch (cause) {
      const { stderr } = cause as { stderr: string }
      throw new Error(`${command} failed: ${stderr}\n${this.#tails()}`, { cause })
    }
  }

  /** Resolves when each address has given an HTTP answer, whichever; fails when a daemon ends, or after a minute. */
  async answerAt(...urls: string[]): Promise<void> {
    const silent = new Set(urls)
    const patience = AbortSignal.timeout(PATIENCE_MS)
    for await (const _ of setInterval(POLL_MS)) {
      await Promise.all(
        [...silent].map(async (url) => (await hasAnswer(url, patience)) && silent.delete(url)),
      )
      if (silent.size === 0) return
      const ended = this.#started.find(hasEnded)
      if (ended) throw new Error(`${ended.name} ended before it answered.\n${this.#tails()}`)
      if (patience.aborted) {
        throw new Error(`No answer at ${[...silent].join(', ')} within ${PATIENCE_MS} ms.\n${this.#tails()}`)
      }
    }
  }

  async close(): Promise<void> {
    const running = this.#started.filter((daemon) => !hasEnded(daemon))
    const ended = running.map(({ child }) => once(child, 'exit'))
    this.#kill()
    await Promise.all(ended)
    process.off('exit', this.#kill)
  }

  /** At once: nothing that they keep is wanted after the tests. */
  readonly #kill = (): void => {
    for (const { child } of this.#started) child.kill('SIGKILL')
  }

  #tails(): string {
    return this.#started
      .map(({ name, log }) => {
        const lines = readFileSync(log, 'utf8')
          .split('\n')
          .filter((line) => line.trim() !== '')
        return [`The last lines of ${name}:`, ...lines.slice(-TAIL_LINES)].join('\n')
      })
      .join('\n')
  }
}

/** Ports of 127.0.0.1 in a row that are ours alone, also among test runs side by side, until released. */
export interface Ports {
  readonly first: number
  readonly last: number
  release(): Promise<void>
}

// Below the ports that Linux gives to outgoing connections, which come and go.
const BLOCKS = { from: 30_000, to: 32_000, size: 16 }

/**
 * A block of free ports. We listen on the port before the first for as long as the block is taken, so that another run
 * which comes upon the same block finds it taken, even while our servers have yet to listen on theirs.
 */
export async function reservePorts(): Promise<Ports> {
  const blocks = (BLOCKS.to - BLOCKS.from) / BLOCKS.size
  for (let attempt = 0; attempt < blocks; attempt += 1) {
    const guardPort = BLOCKS.from + BLOCKS.size * Math.floor(Math.random() * blocks)
    const guard = await findListener(guardPort)
    if (!guard) continue
    const [first, last] = [guardPort + 1, guardPort + BLOCKS.size - 1]
    if (await areFree(first, last)) return { first, last, release: () => stopListening(guard) }
    await stopListening(guard)
  }
  throw new Error(`No ${BLOCKS.size} ports in a row are free from ${BLOCKS.from} to ${BLOCKS.to}.`)
}

export function isInstalled(program: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

async function areFree(first: number, last: number): Promise<boolean> {
  for (let port = first; port <= last; port += 1) {
    const listener = await findListener(port)
    if (!listener) return false
    await stopListening(listener)
  }
  return true
}

/** Undefined when somebody else listens there. */
async function findListener(port: number): Promise<Server | undefined> {
  const server = createServer().unref()
  server.listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
    return server
  } catch {
    return undefined
  }
}

async function stopListening(server: Server): Promise<void> {
  await new Promise((resolve) => server.close(resolve))
}

function hasEnded({ child }: Daemon): boolean {
  return child.pid === undefined || child.exitCode !== null || child.signalCode !== null
}

async function hasAnswer(url: string, signal: AbortSignal): Promise<boolean> {
  try {
    await (await fetch(url, { signal })).text()
    return true
  } catch {
    return false
  }
}
