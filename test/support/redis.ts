// A real Redis of a test's own, on a free port of the loopback; where there is none its tests are skipped, except in CI.

import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { isInstalled } from './daemons.ts'

export interface RedisServer {
  readonly url: string
  readonly port: number
  readonly dir: string
  /** One word of redis-cli after the other; answers what it prints. */
  cli(...words: string[]): Promise<string>
  /** Ends it as a power cut does; what it wrote stays. */
  kill(): Promise<void>
  /** On the same folder and port, with the same settings; `isReady` false does not wait until its data is read. */
  start(isReady?: boolean): Promise<void>
  stop(): Promise<void>
}

const execute = promisify(execFile)

export async function startRedis(settings: readonly string[] = []): Promise<RedisServer> {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-redis-'))
  const port = await freePort()
  const common = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', '']
  let child: ChildProcess
  const start = async (isReady = true): Promise<void> => {
    child = spawn('redis-server', [...common, ...settings], { stdio: ['ignore', 'pipe', 'inherit'] })
    if (isReady) await ready(child)
    else child.stdout!.resume()
  }
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  await start()
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    dir,
    cli: async (...words) => (await execute('redis-cli', ['-p', String(port), ...words])).stdout.trim(),
    kill,
    start,
    async stop() {
      await kill()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/** What keeps each write before it is answered. */
export const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always']

/** Masters that share all slots. */
export async function startRedisCluster(
  masters = 3,
  settings: readonly string[] = [],
): Promise<{ url: string; nodes: RedisServer[]; stop(): Promise<void> }> {
  const nodes = await Promise.all(
    Array.from({ length: masters }, () => startRedis(['--cluster-enabled', 'yes', ...settings])),
  )
  const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`)
  await execute('redis-cli', [
    '--cluster',
    'create',
    ...addresses,
    '--cluster-replicas',
    '0',
    '--cluster-yes',
  ])
  for (const { port } of nodes) await untilOk(port)
  return {
    url: `redis+cluster://${addresses.join(',')}`,
    nodes,
    stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  }
}

/** Each node has to have heard of the others' slots. */
async function untilOk(port: number): Promise<void> {
  for (let tries = 0; tries < 200; tries += 1) {
    const { stdout } = await execute('redis-cli', ['-p', String(port), 'cluster', 'info'])
    if (stdout.includes('cluster_state:ok')) return
  }
  throw new Error(`The cluster node at port ${port} does not come up.`)
}

async function ready(child: ChildProcess): Promise<void> {
  for await (const text of child.stdout!) if (String(text).includes('Ready to accept connections')) break
  child.stdout!.resume()
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

/** True where its tests are to be skipped: on a machine without it, and never where CI runs. */
export const isRedisMissing = !isInstalled('redis-server') && process.env['CI'] !== 'true'
