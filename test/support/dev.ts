// `longshore dev` on a handler in a folder of its own.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { onTestFinished, vi } from 'vitest'
import { Client } from '../../src/client/client.ts'
import { longshore, temporaryDir, type Process } from './processes.ts'

export interface Dev extends Process {
  dir: string
  /** What a user would paste. */
  curl: string
  key: string
  client: Client
  save(name: string, source: string): void
  /** How often it has told of a reload that worked. */
  readonly reloads: number
  /** Waits until it has done so as often as this. */
  reloaded(times: number): Promise<void>
  /** The output of a job with this input. */
  answer(input?: Record<string, unknown>): Promise<unknown>
}

interface DevOptions {
  args?: string[]
  env?: Record<string, string>
  /** What it takes besides to be ready: that the handler is, unless told otherwise. */
  says?: RegExp
}

/** Files by name; `handler.ts` is the handler. */
export async function startDev(files: Record<string, string>, options: DevOptions = {}): Promise<Dev> {
  const dir = temporaryDir()
  const save = (name: string, source: string): void => {
    mkdirSync(dirname(join(dir, name)), { recursive: true })
    writeFileSync(join(dir, name), source)
  }
  for (const [name, source] of Object.entries(files)) save(name, source)
  const args = ['dev', 'handler.ts', '--port', '0', ...(options.args ?? [])]
  const dev = longshore(args, { cwd: dir, env: { LONGSHORE_API_KEY: '', ...options.env } })
  const curl = await dev.says(/^ +(curl .+)$/m)
  await dev.says(options.says ?? /Handler ready/)
  const [, endpointUrl = '', key = ''] =
    /^curl (\S+)\/runsync -H 'Authorization: Bearer (\S+)'/.exec(curl) ?? []
  const client = new Client({ endpointUrl, apiKey: key, attempts: 1 })
  onTestFinished(() => client.close())
  const countReloads = (): number => dev.stdout.match(/^Reloaded in/gm)?.length ?? 0
  return Object.defineProperties(
    Object.assign(dev, {
      reloads: 0,
      reloaded: async (times: number) => {
        await vi.waitUntil(() => countReloads() >= times, { timeout: 15_000, interval: 10 })
      },
      dir,
      curl,
      key,
      client,
      save,
      answer: async (input: Record<string, unknown> = {}) => {
        const record = await client.runsync({ input })
        if (record.status !== 'COMPLETED') throw new Error(`The job is ${JSON.stringify(record)}.`)
        return record.output
      },
    }),
    { reloads: { get: countReloads } },
  )
}

/** What a shell makes of it, from another folder. */
export async function pasted(command: string): Promise<unknown> {
  const shell = spawn('bash', ['-c', command], { cwd: '/', stdio: ['ignore', 'pipe', 'ignore'] })
  let said = ''
  shell.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
  await once(shell, 'close')
  return JSON.parse(said)
}

/** A port that somebody else listens on. */
export async function takenPort(port: number): Promise<number> {
  const server = createServer()
  server.listen(port, '127.0.0.1')
  // Where another program has it already, that is as good.
  await once(server, 'listening').catch(() => undefined)
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo | null)?.port ?? port
}
