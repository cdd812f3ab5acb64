// A service that is killed while it removes an endpoint with many jobs.

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import { policySchema } from '../../src/job/job.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { Store } from '../../src/store/store.ts'
import { resourcesOf } from '../support/fleet-service.ts'
import { KEY, serve, temporaryDir, type Serving } from '../support/processes.ts'
import { startRedis } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'

/** A removal takes a round for each few hundred of them. */
const JOBS = 12_000
const OTHERS = 3
const TITLE = 'is found by nobody from then on, and gone with all that is its after the next deletes'

describe('An endpoint in a file whose removal is killed', () => {
  it(TITLE, { timeout: 60_000 }, async () => {
    const file = join(temporaryDir(), 'queue.db')
    await throughTheKill({ url: `sqlite:${file}`, start: () => serve({ file }) })
    const db = new DatabaseSync(file)
    const rows = ['jobs', 'inputs', 'chunks', 'deliveries'].map((table) =>
      Number(db.prepare(`select count(*) as rows from ${table}`).get()?.['rows']),
    )
    db.close()
    expect(rows).toEqual([OTHERS, OTHERS, 0, 0])
  })
})

describeWithRedis('An endpoint in Redis whose removal is killed', () => {
  it(TITLE, { timeout: 60_000 }, async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const args = ['--fleet-dir', join(temporaryDir(), 'fleet')]
    const id = await throughTheKill({ url: redis.url, start: () => serve({ store: redis.url, args }) })
    const left = await redis.cli('keys', `*${id}*`)
    // Nobody who only keeps it is to make it anew.
    expect([left, await redis.cli('hkeys', left)]).toEqual([
      `longshore:{${id}}`,
      expect.stringMatching('removed'),
    ])
  })
})

interface Place {
  url: string
  start: () => Promise<Serving>
}

/** Answers the id of what was removed. */
async function throughTheKill({ url, start }: Place): Promise<string> {
  const first = linksTo(await start())
  const template = await first.resources.createTemplate({ name: 'one', imageName: 'image:1' })
  const { id } = await first.resources.createEndpoint({ templateId: template.id, workersMax: 0 })
  await first.serving.kill('SIGKILL')
  await withStore(url, (store) => fill(store, id))

  const second = linksTo(await start())
  const health = () => second.ask('GET', `${id}/health`)
  expect(await health()).toBe(200)
  const removing = second.resources.deleteEndpoint(id).catch(() => 'broke off')
  while ((await health()) === 200) continue
  // Each answer comes between two rounds.
  for (let rounds = 0; rounds < 3; rounds += 1) expect(await health()).toBe(404)
  await second.serving.kill('SIGKILL')
  expect(await removing).toBe('broke off')
  // In the middle of it: some are gone, and some are not.
  const left = await withStore(url, (store) => rowsOf(store, id))
  expect(left).toBeGreaterThan(0)
  expect(left).toBeLessThan(JOBS)

  const third = linksTo(await start())
  for (const [method, path] of OPERATIONS)
    expect([path, await third.ask(method, `${id}/${path}`)]).toEqual([path, 404])
  expect(await third.resources.endpoint(id)).toMatchObject({ workersMin: 0, workersMax: 0, workers: [] })
  await expect(third.resources.updateEndpoint(id, { workersMax: 1 })).rejects.toThrow(/Delete it again/)
  await third.resources.deleteEndpoint(id)
  expect((await third.resources.endpoints()).map((endpoint) => endpoint.id)).not.toContain(id)
  expect(await third.ask('GET', `${id}/health`)).toBe(404)
  expect((await third.serving.client.health()).jobs).toMatchObject({ inQueue: OTHERS, inProgress: 0 })
  expect(await third.serving.kill('SIGTERM')).toBe(0)
  expect(await withStore(url, (store) => rowsOf(store, id))).toBe(0)
  return id
}

/** What clients and workers ask an endpoint for. */
const OPERATIONS = [
  ['GET', 'health'],
  ['GET', 'requests'],
  ['POST', 'run'],
  ['POST', 'purge-queue'],
  ...['job-0', `job-${JOBS - 1}`].flatMap((job): [string, string][] => [
    ['GET', `status/${job}`],
    ['GET', `stream/${job}`],
    ['POST', `cancel/${job}`],
    ['POST', `retry/${job}`],
  ]),
  ['GET', 'job-take/w1'],
  ['GET', 'ping/w1?job_id=job-0'],
] satisfies [string, string][]

function linksTo(serving: Serving) {
  const { origin, port } = new URL(serving.endpointUrl)
  const ask = async (method: string, path: string): Promise<number> => {
    const reply = await fetch(`${origin}/v2/${path}`, {
      method,
      headers: { authorization: KEY, ...(method === 'POST' && { 'content-type': 'application/json' }) },
      ...(method === 'POST' && { body: '{"input":{}}' }),
    })
    await reply.arrayBuffer()
    return reply.status
  }
  return { serving, ask, resources: resourcesOf(Number(port)) }
}

/** One of its jobs runs and has printed something; those of another endpoint are not to be touched. */
async function fill(store: Store, id: string): Promise<void> {
  const now = store.clock.now()
  const policy = policySchema.parse({})
  const submit = (endpoint: string, job: string): Promise<unknown> =>
    store.jobs.enqueue({ endpoint, id: job, input: Buffer.from('{}'), policy, retentionMs: 600_000, now })
  await Promise.all(Array.from({ length: OTHERS }, (_, n) => submit('default', `other-${n}`)))
  await Promise.all(Array.from({ length: JOBS }, (_, n) => submit(id, `job-${n}`)))
  const [running] = await store.jobs.lease({ endpoint: id, worker: 'w1', count: 1, leaseMs: 60_000, now })
  const fence = { endpoint: id, id: running!.id, lease: running!.lease }
  await store.jobs.appendChunks(fence, { chunks: [{ output: Buffer.from('"piece"') }], now })
}

async function rowsOf(store: Store, id: string): Promise<number> {
  const { jobs } = await store.jobs.list(id, { count: JOBS, now: store.clock.now() })
  return jobs.length
}

async function withStore<T>(url: string, use: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore(url)
  try {
    return await use(store)
  } finally {
    await store.close()
  }
}
