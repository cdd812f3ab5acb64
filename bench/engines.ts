// What each engine carries: no-op jobs per second and the latency of a submission, all in one run.
//
//   npm run bench:engines             10,000 jobs per way
//   npm run bench:engines -- 3000     fewer
//
// Ways: SQLite; Redis that syncs its log each second, and with every write; the latter two with one server and with two.
// Each server has one worker with ten slots.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from '../src/client/client.ts'
import { policySchema } from '../src/job/job.ts'
import { openStore } from '../src/store/open-store.ts'
import { startRedis } from '../test/support/redis.ts'

const cli = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))
const KEY = 'bench'
const SLOTS = '10'
const SUBMISSIONS = 300
const jobs = Number(process.argv[2] ?? 10_000)
if (!(Number.isInteger(jobs) && jobs > 0)) {
  process.stderr.write(`The number of jobs must be a whole number from 1, got '${process.argv[2]}'.\n`)
  process.exit(1)
}
const { model } = cpus()[0] ?? { model: 'unknown' }

interface Way {
  name: string
  /** Of Redis; without it the store is a file. */
  fsync?: 'everysec' | 'always'
  servers: number
}

const ways: readonly Way[] = [
  { name: 'SQLite FULL, one server', servers: 1 },
  { name: 'Redis everysec, one server', fsync: 'everysec', servers: 1 },
  { name: 'Redis everysec, two servers', fsync: 'everysec', servers: 2 },
  { name: 'Redis always, one server', fsync: 'always', servers: 1 },
  { name: 'Redis always, two servers', fsync: 'always', servers: 2 },
]

process.stdout.write(
  `Node ${process.versions.node}, ${cpus().length} x ${model}, ${jobs} no-op jobs per way, ${SLOTS} slots per server, start-up included; submissions one after the other, n = ${SUBMISSIONS}\n`,
)
for (const way of ways) process.stdout.write(`${way.name}: ${await measure(way)}\n`)

async function measure({ fsync, servers }: Way): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-bench-'))
  const redis = fsync && (await startRedis(['--appendonly', 'yes', '--appendfsync', fsync]))
  const store = redis ? redis.url : `sqlite:${join(dir, 'queue.db')}`
  const started: ChildProcess[] = []
  try {
    const serving = Array.from({ length: servers }, () =>
      start(started, ['serve', '--store', store, '--port', '0', '--no-rate-limits']),
    )
    const urls = await Promise.all(serving.map((server) => firstMatch(server, /Serving (\S+)/)))
    const clients = urls.map((endpointUrl) => new Client({ endpointUrl, apiKey: KEY }))
    const latencies = await submit(clients)
    await purge(urls)
    if (!redis) await end(started)
    await preload(store)
    const rate = await drain(started, { dir, urls: redis ? urls : await serveAgain(started, store) })
    for (const client of clients) await client.close()
    return `${Math.round(rate).toLocaleString('en')} jobs/s; submission median ${quantile(latencies, 0.5)} ms, p99 ${quantile(latencies, 0.99)} ms`
  } finally {
    await end(started)
    await redis?.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}

async function submit(clients: readonly Client[]): Promise<number[]> {
  const latencies: number[] = []
  for (let n = 0; n < SUBMISSIONS; n += 1) {
    const from = performance.now()
    await clients[n % clients.length]?.run({ input: { n } })
    latencies.push(performance.now() - from)
  }
  return latencies.toSorted((a, b) => a - b)
}

async function purge([url]: readonly string[]): Promise<void> {
  await fetch(`${url}/purge-queue`, { method: 'POST', headers: { authorization: `Bearer ${KEY}` } })
}

/** A file is one server's, so it serves anew once the jobs are in. */
async function serveAgain(started: ChildProcess[], store: string): Promise<string[]> {
  const server = start(started, ['serve', '--store', store, '--port', '0', '--no-rate-limits'])
  return [await firstMatch(server, /Serving (\S+)/)]
}

async function preload(store: string): Promise<void> {
  const opened = await openStore(store)
  const policy = policySchema.parse({})
  for (let n = 0; n < jobs; n += 500) {
    await Promise.all(
      Array.from({ length: Math.min(500, jobs - n) }, (_, at) =>
        opened.jobs.enqueue({
          endpoint: 'default',
          id: `job-${n + at}`,
          input: Buffer.from(`{"n":${n + at}}`),
          policy,
          retentionMs: 3_600_000,
          now: Date.now(),
        }),
      ),
    )
  }
  await opened.close()
}

/** Jobs per second from the workers' start to the last end. */
async function drain(
  started: ChildProcess[],
  { dir, urls }: { dir: string; urls: readonly string[] },
): Promise<number> {
  writeFileSync(join(dir, 'noop.mjs'), 'export default () => null\n')
  const client = new Client({ endpointUrl: urls[0] ?? '', apiKey: KEY })
  const before = (await client.health()).jobs.completed
  const from = performance.now()
  for (const endpointUrl of urls) {
    start(started, ['start', join(dir, 'noop.mjs'), '--concurrency', SLOTS], {
      LONGSHORE_ENDPOINT_URL: endpointUrl,
      LONGSHORE_WORKER_TOKEN: KEY,
    })
  }
  while ((await client.health()).jobs.completed - before < jobs)
    await new Promise((resolve) => setTimeout(resolve, 20))
  const seconds = (performance.now() - from) / 1000
  await client.close()
  return jobs / seconds
}

function start(
  started: ChildProcess[],
  args: readonly string[],
  env: Record<string, string> = {},
): ChildProcess {
  const child = spawn(process.execPath, [cli, ...args], {
    env: { ...process.env, LONGSHORE_API_KEY: KEY, LONGSHORE_LOG_LEVEL: 'warn', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  started.push(child)
  return child
}

async function firstMatch(child: ChildProcess, pattern: RegExp): Promise<string> {
  let text = ''
  for await (const chunk of child.stdout!) {
    text += String(chunk)
    const [, found] = pattern.exec(text) ?? []
    if (found !== undefined) return found
  }
  throw new Error(`It ended without ${pattern}: ${text}`)
}

async function end(started: ChildProcess[]): Promise<void> {
  for (const child of started.splice(0).toReversed()) {
    if (child.exitCode !== null) continue
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await ended
  }
}

function quantile(sorted: readonly number[], share: number): string {
  return (sorted[Math.floor(sorted.length * share)] ?? Number.NaN).toFixed(2)
}
