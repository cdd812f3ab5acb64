// Several services on one Redis that start the workers of one endpoint: together as one would, and each for the other.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { Client } from '../../src/client/client.ts'
import { FLEET } from '../../src/store/redis/fleet.ts'
import { endPodsWithTest, resourcesOf, runningPods } from '../support/fleet-service.ts'
import { fixture, KEY, serve, temporaryDir } from '../support/processes.ts'
import { startRedis, type RedisServer } from '../support/redis.ts'
import { describeWithRedis } from '../support/with-redis.ts'

const LONG = { timeout: 30_000, interval: 20 }
const MOST = 2

/** One that runs its pods in a folder of its own. */
async function service(store: string) {
  const fleetDir = join(temporaryDir(), 'fleet')
  const nameFile = join(fleetDir, 'service')
  endPodsWithTest(fleetDir)
  const serving = await serve({ store, args: ['--fleet-dir', fleetDir] })
  const { origin, port } = new URL(serving.endpointUrl)
  const clientOf = (id: string): Client => {
    const client = new Client({ endpointUrl: `${origin}/v2/${id}`, apiKey: KEY, attempts: 1 })
    onTestFinished(() => client.close())
    return client
  }
  return {
    serving,
    clientOf,
    resources: resourcesOf(Number(port)),
    pods: () => runningPods(fleetDir),
    /** Its name in the records, once it has run a pod. */
    name: () => (existsSync(nameFile) ? readFileSync(nameFile, 'utf8').trim() : undefined),
  }
}

type Service = Awaited<ReturnType<typeof service>>

describeWithRedis('Two services on one Redis', () => {
  it(
    'start the workers of an endpoint once, tell the same of it, and do without the one that is killed',
    { timeout: 90_000 },
    async () => {
      const redis = await startRedis()
      onTestFinished(() => redis.stop())
      const services = await Promise.all([service(redis.url), service(redis.url)])
      const [near, far] = services
      const template = await near.resources.createTemplate({
        name: 'versions',
        imageName: `file:${fixture('says-its-version.ts')}`,
      })
      const { id } = await near.resources.createEndpoint({
        templateId: template.id,
        workersMax: MOST,
        idleTimeout: 1,
        scalerType: 'REQUEST_COUNT',
        scalerValue: 1,
      })
      const clients = services.map(({ clientOf }) => clientOf(id))
      let most = 0
      const running = (): string[] => {
        const found = services.flatMap(({ pods }) => pods())
        most = Math.max(most, found.length)
        return found
      }
      const told = async () => {
        running()
        return Promise.all(clients.map((client) => client.health()))
      }

      // Asked of both, so that both are woken.
      const ids = await Promise.all(
        Array.from({ length: 8 }, async (_, n) => (await clients[n % 2]!.run({ input: { ms: 800 } })).id),
      )
      const busy = { jobs: { inProgress: MOST }, workers: { running: MOST, idle: 0, initializing: 0 } }
      await expect.poll(told, LONG).toMatchObject([busy, busy])
      await expect.poll(async () => (await told())[0]!.jobs.completed, LONG).toBe(ids.length)
      await expect.poll(running, LONG).toEqual([])
      const asleep = {
        jobs: { completed: ids.length, failed: 0, inProgress: 0, inQueue: 0, retried: 0 },
        workers: { running: 0, idle: 0 },
      }
      await expect.poll(told, LONG).toMatchObject([asleep, asleep])
      const [holder, stays] = (await isHolder(redis, id, near)) ? [near, far] : [far, near]
      const ended = async (): Promise<number> => (await stays.resources.pods({ areGone: true })).length
      // Every worker that there ever was is on record.
      await expect.poll(ended, LONG).toBe(MOST)

      expect(await holder.serving.kill('SIGKILL')).toBe('SIGKILL')
      const client = stays.clientOf(id)
      const health = async () => {
        running()
        return client.health()
      }
      await Promise.all(Array.from({ length: 4 }, () => client.run({ input: { ms: 100 } })))
      await expect.poll(async () => (await health()).jobs.completed, LONG).toBe(12)
      expect(most).toBe(MOST)
      expect(await stays.serving.kill('SIGTERM')).toBe(0)
      expect(running()).toEqual([])
    },
  )
})

/** Whether it has the duty to scale the endpoint. */
async function isHolder(redis: RedisServer, id: string, { name }: Service): Promise<boolean> {
  const duty = await redis.cli('hget', `${FLEET}:duties`, `scale:${id}`)
  return name() !== undefined && duty.endsWith(`:${name()}`)
}
