// How many no-op jobs a second one worker gets through: preloaded, counted when acknowledged, start-up included.
//
//   npm run bench            concurrency 1, 10, 100, three runs each
//   npm run bench -- 10 5    concurrency 10, five runs

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from '../src/client/client.ts'
import { policySchema } from '../src/job/job.ts'
import { openStore } from '../src/store/open-store.ts'

const cli = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))
const KEY = 'bench'
const SECONDS = 3
const GUESS: Record<number, number> = { 1: 4_000, 10: 10_000, 100: 30_000 }

const [only, runs = 3] = process.argv.slice(2).map(Number)
const { model } = cpus()[0] ?? { model: 'unknown' }
process.stdout.write(
  `Node ${process.versions.node}, ${cpus().length} x ${model}, SQLite FULL, one worker, isolated child\n`,
)
for (const concurrency of only ? [only] : [1, 10, 100]) {
  const rates: number[] = []
  for (let run = 0; run < runs; run += 1)
    rates.push(await measure(concurrency, (GUESS[concurrency] ?? 10_000) * SECONDS))
  rates.sort((a, b) => a - b)
  const shown = rates.map((rate) => Math.round(rate).toLocaleString('en'))
  process.stdout.write(
    `concurrency ${concurrency}: median ${shown[Math.floor(shown.length / 2)]} jobs/s [${shown[0]} to ${shown.at(-1)}], n = ${rates.length}\n`,
  )
}

/** Jobs per second from the worker's start to the last acknowledgement. */
async function measure(concurrency: number, jobs: number): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-bench-'))
  try {
    await preload(join(dir, 'queue.db'), jobs)
    writeFileSync(join(dir, 'noop.mjs'), 'export default () => null\n')
    const server = start([
      'serve',
      '--store',
      `sqlite:${join(dir, 'queue.db')}`,
      '--port',
      '0',
      '--no-rate-limits',
    ])
    const endpointUrl = await firstMatch(server, /Serving (\S+)/)
    const client = new Client({ endpointUrl, apiKey: KEY })
    const from = performance.now()
    const worker = start(['start', join(dir, 'noop.mjs'), '--concurrency', String(concurrency)], {
      LONGSHORE_ENDPOINT_URL: endpointUrl,
      LONGSHORE_WORKER_TOKEN: KEY,
    })
    let completed = 0
    while (completed < jobs) {
      await new Promise((resolve) => setTimeout(resolve, 20))
      completed = (await client.health()).jobs.completed
    }
    const seconds = (performance.now() - from) / 1000
    await client.close()
    await stop(worker)
    await stop(server)
    return jobs / seconds
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

async function preload(file: string, jobs: number): Promise<void> {
  const store = await openStore(`sqlite:${file}`)
  await store.endpoints.ensureEndpoint('default')
  const policy = policySchema.parse({})
  const input = Buffer.from('{}')
  for (let at = 0; at < jobs; at += 1000) {
    const batch = Array.from({ length: Math.min(1000, jobs - at) }, (_, n) =>
      store.jobs.enqueue({
        endpoint: 'default',
        id: `job-${at + n}`,
        input,
        policy,
        retentionMs: 1_800_000,
        now: Date.now(),
      }),
    )
    await Promise.all(batch)
  }
  await store.close()
}

function start(args: string[], env: Record<string, string> = {}): ChildProcess {
  return spawn(process.execPath, [cli, ...args], {
    env: { ...process.env, LONGSHORE_API_KEY: KEY, LONGSHORE_LOG_LEVEL: 'warn', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

async function firstMatch(child: ChildProcess, pattern: RegExp): Promise<string> {
  let text = ''
  for await (const piece of child.stdout ?? []) {
    text += String(piece)
    const match = pattern.exec(text)
    if (match?.[1]) return match[1]
  }
  throw new Error('The service ended before it was ready.')
}

async function stop(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit')
  child.kill('SIGTERM')
  await gone
}
