// Clients and workers at two servers while something goes wrong with their Redis: what everybody was told, judged.

import { describe, expect, it, onTestFinished } from 'vitest'
import { History, type Promised } from '../support/history.ts'
import { fixture, serve, startWorker } from '../support/processes.ts'
import { recordedLink } from '../support/recorded-link.ts'
import { RecordingClient } from '../support/recording-client.ts'
import {
  DURABLE,
  isRedisMissing,
  moveSlot,
  slotOwner,
  startRedis,
  startRedisCluster,
  startSentinel,
  type RedisServer,
} from '../support/redis.ts'
import { switchedLink, type SwitchedLink } from '../support/switched-link.ts'

// A sentinel that was held up by a busy machine decides nothing for half a minute.
const LONG = { timeout: 60_000, interval: 20 }
const LANES = 12
/** Jobs that are done before and after a fault. */
const SOME = 40

interface Scene {
  store: string
  serveArgs?: string[]
  /** Is over when what went wrong is. `more` waits until so many jobs more are done, `refused` until a server refuses. */
  fault: (play: { more: (jobs: number) => Promise<void>; refused: () => Promise<void> }) => Promise<void>
}

/** Twelve clients submit and wait, one job after the other, before, through and after the fault. */
async function play({ store, serveArgs = [], fault }: Scene): Promise<History> {
  const history = new History()
  const servers = await Promise.all([serve({ store, args: serveArgs }), serve({ store, args: serveArgs })])
  const links = await Promise.all(servers.map(({ endpointUrl }) => recordedLink(endpointUrl, history)))
  onTestFinished(() => links.forEach((one) => one.close()))
  const workers = await Promise.all(
    links.map(({ endpointUrl }) =>
      startWorker(endpointUrl, fixture('counts-slowly.ts'), ['--concurrency', '8']),
    ),
  )
  const clients = servers.map(({ endpointUrl }) => new RecordingClient(endpointUrl, history))
  onTestFinished(async () => void (await Promise.all(clients.map((client) => client.close()))))
  const stopping = new AbortController()
  const ids: string[] = []
  let done = 0
  const lane = async (client: RecordingClient, to: number): Promise<void> => {
    while (!stopping.signal.aborted) {
      const id = await client.submit({ input: { to } })
      ids.push(id)
      await client.read(id)
      await client.look(id)
      done += 1
    }
  }
  const lanes = Promise.all(Array.from({ length: LANES }, (_one, at) => lane(clients[at % 2]!, at % 4)))
  const more = async (jobs: number): Promise<void> => {
    const goal = done + jobs
    await expect.poll(() => done, LONG).toBeGreaterThanOrEqual(goal)
  }
  const outages = (): number =>
    servers.reduce((sum, { stderr }) => sum + stderr.split('the store is not available').length - 1, 0)
  let known = 0
  const refused = async (): Promise<void> => {
    await expect.poll(outages, LONG).toBeGreaterThan(known)
    known = outages()
  }
  const through = async (): Promise<void> => {
    await more(SOME)
    await fault({ more, refused })
    await more(SOME)
    stopping.abort()
  }
  await Promise.all([lanes, through()])
  // Whoever is asked shows the same.
  for (const client of clients) await Promise.all(ids.map((id) => client.look(id)))
  await Promise.all(ids.map((id) => clients[0]!.read(id)))
  await clients[1]!.count()
  for (const kind of ['submitted', 'leased', 'made', 'streamed', 'reported', 'settled', 'read'] as const)
    expect(history.count(kind), kind).toBeGreaterThan(SOME)
  expect(history.count('counted')).toBeGreaterThan(0)
  for (const each of [...workers, ...servers]) expect(await each.kill('SIGTERM')).toBe(0)
  return history
}

async function redis(...settings: string[]): Promise<RedisServer> {
  const server = await startRedis(settings)
  onTestFinished(() => server.stop())
  return server
}

async function link(server: RedisServer): Promise<SwitchedLink> {
  const made = await switchedLink(server.port)
  onTestFinished(() => made.close())
  return made
}

const broken = (history: History): Promised[] => [
  ...new Set(history.findings().map(({ promise }) => promise)),
]

function replicaOf({ port }: { port: number }): string[] {
  return ['--replicaof', `127.0.0.1 ${port}`]
}

/** A master and its replica, each behind a link: the master is cut off from its replica, goes on, and then dies. */
async function failOver(replicas: 0 | 1): Promise<History> {
  const master = await redis(...DURABLE, '--min-replicas-to-write', String(replicas))
  const wire = await link(master)
  const replica = await redis(...DURABLE, ...replicaOf(wire))
  await expect.poll(() => master.cli('info', 'replication'), LONG).toContain('state=online')
  const address = await link(master)
  return play({
    store: `redis://127.0.0.1:${address.port}`,
    serveArgs: ['--redis-wait', String(replicas)],
    fault: async ({ more, refused }) => {
      wire.swallow()
      if (replicas > 0) await refused()
      else await more(SOME)
      await master.kill()
      await replica.cli('replicaof', 'no', 'one')
      address.lead(replica.port)
      // Nothing is acknowledged before the new master has a replica of its own.
      if (replicas > 0) await redis(...DURABLE, ...replicaOf(replica))
    },
  })
}

describe.skipIf(isRedisMissing)('what everybody was told holds', { timeout: 180_000 }, () => {
  it('when Redis is killed and started again, with appendfsync always', async () => {
    const store = await redis(...DURABLE)
    const history = await play({
      store: store.url,
      fault: async ({ refused }) => {
        await store.kill()
        await refused()
        await store.start()
      },
    })
    history.check()
  })

  it('while Redis reads its data', async () => {
    const slow = ['--key-load-delay', '1000', '--loading-process-events-interval-bytes', '1024']
    const store = await redis(...DURABLE, '--enable-debug-command', 'yes', ...slow)
    const history = await play({
      store: store.url,
      fault: async ({ refused }) => {
        await store.kill()
        await store.start(false)
        await expect.poll(() => store.cli('ping').catch(String), LONG).toContain('LOADING')
        await refused()
      },
    })
    history.check()
  })

  it('when Redis is slow, and slower than anybody waits', async () => {
    const store = await redis('--enable-debug-command', 'yes')
    const history = await play({
      store: store.url,
      fault: async ({ refused }) => {
        await store.cli('client', 'pause', '1000')
        const asleep = store.cli('debug', 'sleep', '7')
        await refused()
        await asleep
      },
    })
    history.check()
  })

  it('when Redis is full', async () => {
    const store = await redis()
    const history = await play({
      store: store.url,
      fault: async ({ more }) => {
        await store.cli('config', 'set', 'maxmemory', '1mb')
        const refusals = async (): Promise<number> =>
          Number(/errorstat_OOM:count=(\d+)/.exec(await store.cli('info', 'errorstats'))?.[1] ?? 0)
        await expect.poll(refusals, LONG).toBeGreaterThan(LANES)
        await store.cli('config', 'set', 'maxmemory', '0')
        await more(1)
      },
    })
    history.check()
  })

  it('when connections lead nowhere', async () => {
    const store = await redis()
    const wire = await link(store)
    const history = await play({
      store: `redis://127.0.0.1:${wire.port}`,
      fault: async ({ refused }) => {
        wire.swallow()
        await refused()
      },
    })
    history.check()
  })

  it('through a failover, with --redis-wait 1 and min-replicas-to-write 1', async () => {
    const history = await failOver(1)
    history.check()
  })

  it('when sentinels promote a replica of a master that died, with nothing on its way to it', async () => {
    const master = await redis(...DURABLE)
    const replica = await redis(...DURABLE, ...replicaOf(master))
    await expect.poll(() => master.cli('info', 'replication'), LONG).toContain('state=online')
    const sentinel = await startSentinel(master)
    onTestFinished(() => sentinel.stop())
    await expect.poll(() => sentinel.cli('sentinel', 'replicas', 'queue'), LONG).toContain(`${replica.port}`)
    const history = await play({
      store: `redis+sentinel://127.0.0.1:${sentinel.port}/queue`,
      fault: async ({ refused }) => {
        // Held back, so that all that was answered is at the replica.
        await master.cli('client', 'pause', '10000', 'write')
        await expect.poll(() => master.cli('wait', '1', '100'), LONG).toBe('1')
        await master.kill()
        await refused()
      },
    })
    expect(await replica.cli('role')).toMatch(/^master/)
    history.check()
  })

  it('while the slot of the endpoint moves to another node and its master is killed there', async () => {
    const cluster = await startRedisCluster(3, [...DURABLE, '--cluster-node-timeout', '1000'])
    onTestFinished(() => cluster.stop())
    const history = await play({
      store: cluster.url,
      fault: async ({ more, refused }) => {
        const from = await slotOwner(cluster, 'longshore:{default}')
        const to = cluster.nodes.find((node) => node !== from)!
        await moveSlot({ from, to, key: 'longshore:{default}', half: refused })
        await more(SOME)
        await to.kill()
        await refused()
        await to.start()
      },
    })
    history.check()
  })
})

describe.skipIf(isRedisMissing)('what is lost without the settings', { timeout: 180_000 }, () => {
  it('through a failover without --redis-wait: what was answered and had not reached the replica', async () => {
    const history = await failOver(0)
    expect(broken(history)).toContain('no acknowledged submission is lost')
  })

  it('through a restart without appendonly: all that had been answered', async () => {
    const store = await redis()
    const history = await play({
      store: store.url,
      fault: async ({ refused }) => {
        await store.kill()
        await refused()
        await store.start()
      },
    })
    expect(broken(history)).toContain('no acknowledged submission is lost')
  })
})
