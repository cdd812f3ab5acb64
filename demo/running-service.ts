// A queue service and a worker as processes of their own, on a fresh queue file, for as long as the demo runs.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface RunningService {
  endpointUrl: string
  apiKey: string
  /** Ends both processes and removes the queue file. */
  stop(): Promise<void>
}

const cli = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))
const READY_MS = 30_000

/** Starts `longshore serve` on a free port and `longshore start` on a handler; resolves when both are ready, with nothing when interrupted before. */
export async function startService(
  handler: string,
  interrupted: AbortSignal,
): Promise<RunningService | undefined> {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-demo-'))
  const apiKey = randomBytes(16).toString('hex')
  const children: ChildProcess[] = []
  const stop = async (): Promise<void> => {
    for (const child of children.toReversed()) await end(child)
    rmSync(dir, { recursive: true, force: true })
  }
  const run = (args: string[], env: Record<string, string>): ChildProcess => {
    const child = spawn(process.execPath, [cli, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    children.push(child)
    return child
  }
  try {
    const server = run(
      ['serve', '--store', `sqlite:${join(dir, 'queue.db')}`, '--port', '0', '--endpoint', 'ocr'],
      {
        LONGSHORE_API_KEY: apiKey,
      },
    )
    const endpointUrl = await saidBy(server, 'stdout', /Serving (\S+)/, interrupted)
    const worker = run(['start', handler], {
      LONGSHORE_ENDPOINT_URL: endpointUrl,
      LONGSHORE_WORKER_TOKEN: apiKey,
    })
    await saidBy(worker, 'stderr', /(ready after)/, interrupted)
    return { endpointUrl, apiKey, stop }
  } catch (cause) {
    await stop()
    if (interrupted.aborted) return undefined
    throw cause
  }
}

async function saidBy(
  child: ChildProcess,
  from: 'stdout' | 'stderr',
  pattern: RegExp,
  interrupted: AbortSignal,
): Promise<string> {
  const said: string[] = []
  const found = Promise.withResolvers<string>()
  const listen = (piece: unknown): void => {
    said.push(String(piece))
    const match = pattern.exec(said.join(''))
    if (match?.[1]) found.resolve(match[1])
  }
  child[from]?.on('data', listen)
  // What it says elsewhere matters only when it fails.
  child[from === 'stdout' ? 'stderr' : 'stdout']?.on('data', (piece) => said.push(String(piece)))
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`A process ended with code ${String(code)} before it was ready:\n${said.join('')}`)
  })
  const late = AbortSignal.any([AbortSignal.timeout(READY_MS), interrupted])
  const timedOut = aborted(late).then(() => {
    throw new Error(`A process was not ready within ${READY_MS} ms:\n${said.join('')}`)
  })
  ended.catch(() => undefined)
  timedOut.catch(() => undefined)
  return Promise.race([found.promise, ended, timedOut])
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  const insist = setTimeout(() => child.kill('SIGKILL'), 5_000)
  await gone
  clearTimeout(insist)
}
