// Real processes of the command line, for tests that go end to end; none outlives its test.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { Client } from '../../src/client/client.ts'

export const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
export const KEY = 'end-to-end-key'

export interface Process {
  readonly child: ChildProcess
  readonly stdout: string
  readonly stderr: string
  /** Resolves with the first group of the first match in what it has said or says; fails when it ends before. */
  says(pattern: RegExp): Promise<string>
  /** Resolves with the exit code, or the signal that ended it. */
  exit: Promise<number | NodeJS.Signals>
  /** The same, whoever else still holds its output. */
  exited: Promise<number | NodeJS.Signals>
  kill(signal: NodeJS.Signals): Promise<number | NodeJS.Signals>
}

/** Runs `longshore …args`. Ended by force when the test is over. */
export function longshore(
  args: string[],
  options: { env?: Record<string, string>; cwd?: string } = {},
): Process {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main, ...args], {
    env: { ...process.env, LONGSHORE_API_KEY: KEY, ...options.env },
    cwd: options.cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      said[name] += text
      child.emit('said')
    })
  }
  const exit = once(child, 'close').then(([code, signal]) => (signal ?? code) as number | NodeJS.Signals)
  const exited = once(child, 'exit').then(([code, signal]) => (signal ?? code) as number | NodeJS.Signals)
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await exit
  })
  return {
    child,
    exit,
    exited,
    get stdout() {
      return said.stdout
    },
    get stderr() {
      return said.stderr
    },
    async says(pattern) {
      for (;;) {
        const match = pattern.exec(said.stdout + said.stderr)
        if (match) return match[1] ?? match[0]
        if (child.exitCode !== null || child.signalCode !== null) {
          throw new Error(`It ended before it said ${pattern}:\n${said.stdout}${said.stderr}`)
        }
        await Promise.race([nextSaid(child), exit])
      }
    },
    async kill(signal) {
      child.kill(signal)
      return exit
    },
  }
}

export interface Serving extends Process {
  endpointUrl: string
  file: string
  client: Client
}

/** `longshore serve` on a free port and a file in a folder that goes with the test, or on another store. */
export async function serve(
  options: { file?: string; store?: string; args?: string[]; env?: Record<string, string> } = {},
): Promise<Serving> {
  const file = options.file ?? join(temporaryDir(), 'queue.db')
  const args = ['serve', '--store', options.store ?? `sqlite:${file}`, '--port', '0', ...(options.args ?? [])]
  const server = longshore(args, options.env ? { env: options.env } : {})
  const endpointUrl = await server.says(/Serving (\S+)/)
  const client = new Client({ endpointUrl, apiKey: KEY, attempts: 1 })
  onTestFinished(() => client.close())
  return Object.assign(server, { endpointUrl, file, client })
}

/** `longshore start` on a handler; resolves when it leases. */
export async function startWorker(
  endpointUrl: string,
  handler: string,
  args: string[] = [],
  env: Record<string, string> = {},
): Promise<Process> {
  const worker = longshore(['start', handler, ...args], {
    env: {
      LONGSHORE_ENDPOINT_URL: endpointUrl,
      LONGSHORE_WORKER_TOKEN: KEY,
      LONGSHORE_LOG_LEVEL: 'debug',
      ...env,
    },
  })
  await worker.says(/(ready after)/)
  return worker
}

export function temporaryDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-test-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

export function fixture(name: string): string {
  return fileURLToPath(new URL(`../fixtures/handlers/${name}`, import.meta.url))
}

export function template(name: string): string {
  return fileURLToPath(new URL(`../../templates/${name}`, import.meta.url))
}

/** Not node's once(): that adds a listener for errors each time, and a chatty process is asked often. */
function nextSaid(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => child.once('said', resolve))
}
