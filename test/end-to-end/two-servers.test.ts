import { expect, it, onTestFinished } from 'vitest'
import { History } from '../support/history.ts'
import { fixture, serve, startWorker, type Serving } from '../support/processes.ts'
import { recordedLink } from '../support/recorded-link.ts'
import { RecordingClient } from '../support/recording-client.ts'
import { startRedis } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'

const JOBS = 200

describeWithRedis('Two servers on one Redis', () => {
  it(
    'keep every promise to clients while one of them is killed and comes back',
    { timeout: 120_000 },
    async () => {
      // What is answered is on disk, as far as a killed server is concerned.
      const redis = await startRedis(['--appendonly', 'yes', '--appendfsync', 'always'])
      try {
        await throughTheKill(redis.url)
      } finally {
        await redis.stop()
      }
    },
  )
})

async function throughTheKill(store: string): Promise<void> {
  const history = new History()
  const start = (port: string): Promise<Serving> => serve({ args: ['--store', store, '--port', port] })
  const [killed, stays] = [await start('0'), await start('0')]
  const urls = [killed.endpointUrl, stays.endpointUrl]
  const links = await Promise.all(urls.map((url) => recordedLink(url, history)))
  onTestFinished(() => links.forEach((link) => link.close()))
  const workers = await Promise.all(
    [...links, ...links].map(({ endpointUrl }) =>
      startWorker(endpointUrl, fixture('takes-a-while.ts'), ['--concurrency', '4']),
    ),
  )
  const clients = urls.map((endpointUrl) => new RecordingClient(endpointUrl, history))
  const [, atTheOther] = clients
  if (!atTheOther) throw new Error('There is no second client.')
  const completed = (): Promise<number> => atTheOther.completed()

  // Submitted at both, through the kill: a client repeats what was not answered, under the same key.
  const submissions = Promise.all(
    Array.from({ length: JOBS }, (_, n) => (clients[n % 2] ?? atTheOther).submit({ input: { ms: 100 } })),
  )
  await expect.poll(completed, { timeout: 20_000 }).toBeGreaterThan(20)
  await killed.kill('SIGKILL')
  const before = await completed()
  // The one that is left goes on with its own workers.
  await expect.poll(completed, { timeout: 20_000 }).toBeGreaterThan(before + 20)
  await start(new URL(killed.endpointUrl).port)
  const ids = await submissions
  expect(new Set(ids).size).toBe(JOBS)
  for (const id of ids.slice(0, 40)) await atTheOther.look(id)

  await expect.poll(completed, { timeout: 60_000, interval: 200 }).toBe(JOBS)
  // Whoever is asked shows the same.
  for (const client of clients) await Promise.all(ids.map((id) => client.look(id)))
  await atTheOther.count()
  expect(history.count('settled')).toBeGreaterThan(JOBS / 2)
  history.check()

  await Promise.all(clients.map((client) => client.close()))
  expect(await Promise.all(workers.map((worker) => worker.kill('SIGTERM')))).toEqual([0, 0, 0, 0])
}
