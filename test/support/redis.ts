// A real Redis of a test's own, on a free port of the loopback; where there is none its tests are skipped, except in CI.

import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { isInstalled } from './daemons.ts'
import { freePort } from './free-port.ts'

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

/** `ignores` is a signal that Redis is not to end of. */
export async function startRedis(
  settings: readonly string[] = [],
  { ignores }: { ignores?: 'XFSZ' } = {},
): Promise<RedisServer> {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-redis-'))
  // A master waits 5 s for more replicas before it begins to copy.
  return started(dir, ['--save', '', '--repl-diskless-sync-delay', '0', ...settings], ignores)
}

async function started(dir: string, settings: readonly string[], ignores?: 'XFSZ'): Promise<RedisServer> {
  const port = await freePort()
  const line = ['redis-server', ...settings, '--port', String(port), '--bind', '127.0.0.1', '--dir', dir]
  let child: ChildProcess
  let killed: number | undefined
  const start = async (isReady = true): Promise<void> => {
    const [program = '', ...args] = ignores
      ? ['sh', '-c', `trap '' ${ignores}; exec "$@"`, 'sh', ...line]
      : line
    child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    const { pid } = child
    // What its clients are told then says nothing of the reason.
    child.once('exit', (code, signal) => {
      if (pid !== killed) process.stderr.write(`redis-server at port ${port} ended: ${signal ?? code}\n`)
    })
    if (isReady) await ready(child)
    else child.stdout!.resume()
  }
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    killed = child.pid
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

/** One that decides alone, within a second, under the name `queue`. */
export async function startSentinel(master: RedisServer): Promise<RedisServer> {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-sentinel-'))
  const file = join(dir, 'sentinel.conf')
  writeFileSync(
    file,
    [
      `sentinel monitor queue 127.0.0.1 ${master.port} 1`,
      'sentinel down-after-milliseconds queue 1000',
      'sentinel failover-timeout queue 5000',
    ].join('\n'),
  )
  return started(dir, [file, '--sentinel'])
}

/** What keeps each write before it is answered. */
export const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always']

export interface RedisCluster {
  readonly url: string
  readonly nodes: readonly RedisServer[]
  stop(): Promise<void>
}

/** A cluster of one master, which tells its clients to come to another port, where somebody leads to it. */
export async function startClusterOfOne(): Promise<RedisServer & { announce(port: number): Promise<void> }> {
  const server = await startRedis(['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'])
  await server.cli('cluster', 'addslotsrange', '0', '16383')
  await untilOk(server.port)
  return {
    ...server,
    announce: async (port) => void (await server.cli('config', 'set', 'cluster-announce-port', String(port))),
  }
}

/** Masters that share all slots, each with so many replicas. */
export async function startRedisCluster(
  masters = 3,
  settings: readonly string[] = [],
  replicas = 0,
): Promise<RedisCluster> {
  const nodes = await Promise.all(
    Array.from({ length: masters * (1 + replicas) }, () =>
      startRedis(['--cluster-enabled', 'yes', ...settings]),
    ),
  )
  const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`)
  await execute('redis-cli', [
    '--cluster',
    'create',
    ...addresses,
    '--cluster-replicas',
    String(replicas),
    '--cluster-yes',
  ])
  for (const { port } of nodes) await untilOk(port)
  return {
    url: `redis+cluster://${addresses.join(',')}`,
    nodes,
    stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  }
}

/** The master whose slot the key is in; the key, or another of its slot, has to be there. */
export async function slotOwner({ nodes }: RedisCluster, key: string): Promise<RedisServer> {
  for (const node of nodes) {
    const slot = await node.cli('cluster', 'keyslot', key)
    if (!(await node.cli('role')).startsWith('master')) continue
    if ((await node.cli('cluster', 'countkeysinslot', slot)) !== '0') return node
  }
  throw new Error(`No node has a key in the slot of ${key}.`)
}

/** Moves a slot with its keys, as redis-cli does; `half` happens while the key is there and others of its slot are not. */
export async function moveSlot(move: {
  from: RedisServer
  to: RedisServer
  key: string
  half: () => Promise<void>
}): Promise<void> {
  const { from, to, key, half } = move
  const slot = await from.cli('cluster', 'keyslot', key)
  const [source, target] = [await from.cli('cluster', 'myid'), await to.cli('cluster', 'myid')]
  const migrate = (name: string): Promise<string> =>
    from.cli('migrate', '127.0.0.1', String(to.port), name, '0', '5000')
  await to.cli('cluster', 'setslot', slot, 'importing', source)
  await from.cli('cluster', 'setslot', slot, 'migrating', target)
  await migrate(key)
  await half()
  for (;;) {
    const names = (await from.cli('cluster', 'getkeysinslot', slot, '100')).split('\n').filter(Boolean)
    if (names.length === 0) break
    for (const name of names) await migrate(name)
  }
  for (const node of [to, from]) await node.cli('cluster', 'setslot', slot, 'node', target)
}

/** Each node has to have heard of the others' slots. */
async function untilOk(port: number): Promise<void> {
  for (let tries = 0; tries < 1000; tries += 1) {
    const { stdout } = await execute('redis-cli', ['-p', String(port), 'cluster', 'info'])
    if (stdout.includes('cluster_state:ok')) return
  }
  throw new Error(`The cluster node at port ${port} does not come up.`)
}

/** Throws of one that ends before: another may listen on its port, and would be taken for it. */
async function ready(child: ChildProcess): Promise<void> {
  let said = ''
  for await (const text of child.stdout!) {
    said += String(text)
    if (/Ready to accept connections|\+monitor master/.test(said)) return
  }
  throw new Error(`${child.spawnargs.join(' ')} ended before it was ready:\n${said}`)
}

/** True where its tests are to be skipped: on a machine without it, and never where CI runs. */
export const isRedisMissing = !isInstalled('redis-server') && process.env['CI'] !== 'true'
