// The service and its workers while Redis is away: told so, unharmed, and back by themselves.

import { describe, expect, it, onTestFinished } from 'vitest'
import { Client } from '../../src/client/client.ts'
import { fixture, KEY, serve, startWorker, temporaryDir } from '../support/processes.ts'
import { DURABLE, isRedisMissing, startRedis, type RedisServer } from '../support/redis.ts'

const LONG = { timeout: 30_000, interval: 50 }
const JOBS = 100

async function redis(...settings: string[]): Promise<RedisServer> {
  const server = await startRedis(settings)
  onTestFinished(() => server.stop())
  return server
}

/** One that the route takes. */
function bodyFor(path: string): string {
  if (path.startsWith('/v1/templates')) return '{"name":"one","imageName":"image:1"}'
  if (path === '/v1/pods') return '{"imageName":"image:1","dockerStartCmd":["true"]}'
  if (path.startsWith('/v1/pods/')) return '{"name":"one"}'
  if (path.startsWith('/v1/containerregistryauth')) return '{"name":"one","username":"u","password":"p"}'
  return path.startsWith('/v1/') ? '{"templateId":"some-1"}' : '{"input":{}}'
}

const linesOf = (text: string): number => text.split('\n').length

describe.skipIf(isRedisMissing)('the service on a Redis that goes away', () => {
  it(
    'answers 503 meanwhile, comes back by itself, and ends each job once',
    { timeout: 120_000 },
    async () => {
      const store = await redis(...DURABLE)
      const servers = [await serve({ store: store.url }), await serve({ store: store.url })] as const
      const [near, far] = servers
      const client = new Client({ endpointUrl: near.endpointUrl, apiKey: KEY, attempts: 100 })
      onTestFinished(() => client.close())
      const args = ['--concurrency', '4']
      const workers = await Promise.all(
        [near, far].map(({ endpointUrl }) => startWorker(endpointUrl, fixture('takes-a-while.ts'), args)),
      )
      const accepted = Promise.all(
        Array.from({ length: JOBS }, async () => (await client.run({ input: { ms: 100 } })).id),
      )
      const completed = async (): Promise<number> => (await client.health()).jobs.completed
      await expect.poll(completed, LONG).toBeGreaterThan(5)

      await store.kill()
      const health = (): Promise<number> =>
        fetch(new URL('/healthz', near.endpointUrl)).then(({ status }) => status)
      await expect.poll(health, LONG).toBe(503)
      const before = servers.map(({ stderr }) => linesOf(stderr))
      const beforeWorkers = workers.map(({ stderr }) => linesOf(stderr))
      // Some seconds of it, counted by what the service answers.
      for (let refusals = 0; refusals < 3000; refusals += 1) expect(await health()).toBe(503)
      expect(
        servers.map(({ stderr }, at) => linesOf(stderr) - before[at]!).every((lines) => lines <= 3),
      ).toBe(true)
      for (const [at, { stderr }] of workers.entries())
        expect(linesOf(stderr) - beforeWorkers[at]!).toBeLessThan(60)

      await store.start()
      await expect.poll(health, LONG).toBe(200)
      await expect.poll(completed, LONG).toBe(JOBS)
      const ids = await accepted
      expect(new Set(ids).size).toBe(JOBS)
      for (const id of ids)
        expect(await client.status(id)).toMatchObject({ status: 'COMPLETED', output: 'done' })
      expect((await client.health()).jobs).toMatchObject({
        completed: JOBS,
        failed: 0,
        inQueue: 0,
        inProgress: 0,
      })
      await near.says(/the store is not available/)
      await near.says(/the store is available again/)
      for (const worker of workers) expect(await worker.kill('SIGTERM')).toBe(0)
      for (const server of servers) expect(await server.kill('SIGTERM')).toBe(0)
    },
  )

  it('tells every route when to try again', async () => {
    const store = await redis()
    const env = { LONGSHORE_SECRET_KEY: 'a secret of sixteen and more' }
    const { endpointUrl } = await serve({ store: store.url, args: ['--fleet-dir', temporaryDir()], env })
    const { origin } = new URL(endpointUrl)
    const document = (await (await fetch(`${origin}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, unknown>>
    }
    await store.kill()
    const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path })),
    )
    expect(routes.length).toBeGreaterThan(20)
    for (const { method, path } of routes) {
      const filled = path
        .replace('{endpointId}', 'default')
        .replaceAll(/\{(id|workerId|templateId|podId|containerRegistryAuthId)\}/g, 'some-1')
        .replace(/\{.*?\}|\*/g, 'v1/models')
      const isExchange = path.includes('/exchange/')
      const answer = await fetch(`${origin}${filled}`, {
        method,
        headers: {
          authorization: `Bearer ${KEY}`,
          ...(method === 'POST' && {
            'content-type': isExchange ? 'application/octet-stream' : 'application/json',
          }),
        },
        ...(['POST', 'PATCH'].includes(method) && { body: bodyFor(path) }),
      })
      expect(`${path} ${answer.status} ${answer.headers.get('retry-after')}`).toBe(`${path} 503 1`)
      await answer.arrayBuffer()
    }
  })

  it('has its endpoint again though the first writes are refused', async () => {
    const store = await redis()
    const server = await serve({ store: store.url })
    const health = (): Promise<number> =>
      fetch(new URL('/healthz', server.endpointUrl)).then(({ status }) => status)
    const submit = (): Promise<string> => server.client.run({ input: {} }).then(() => 'ok', String)
    await store.cli('config', 'set', 'maxmemory', '500kb')
    await store.cli('flushall')
    expect(await health()).toBe(503)
    expect(await submit()).toMatch(/not available/)
    await server.says(/OOM/)
    expect(await health()).toBe(503)
    await store.cli('config', 'set', 'maxmemory', '0')
    await expect.poll(health, LONG).toBe(200)
    expect(await submit()).toBe('ok')
    await server.says(/without all of this endpoint/)
    // Its name alone, without which nobody sweeps it, and its hash alone.
    for (const key of ['longshore:endpoints', 'longshore:{default}']) {
      await store.cli('del', key)
      await expect.poll(() => store.cli('exists', key), LONG).toBe('1')
    }
    await expect.poll(health, LONG).toBe(200)
    expect(await submit()).toBe('ok')
    expect(await server.kill('SIGTERM')).toBe(0)
  })

  it('ends within seconds of SIGTERM though Redis says nothing, and answers 503 before', async () => {
    const store = await redis()
    const server = await serve({ store: store.url })
    const pid = Number(/process_id:(\d+)/.exec(await store.cli('info', 'server'))?.[1])
    process.kill(pid, 'SIGSTOP')
    const answer = fetch(`${server.endpointUrl}/run`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: '{"input":{}}',
    })
    // The one before it has come then.
    await fetch(new URL('/nothing', server.endpointUrl))
    // By then what keeps the fleet going has asked in vain too.
    const health = fetch(new URL('/healthz', server.endpointUrl), { signal: AbortSignal.timeout(1_500) })
    await expect(health).rejects.toThrow('timeout')
    const begin = performance.now()
    expect(await server.kill('SIGTERM')).toBe(0)
    expect(performance.now() - begin).toBeLessThan(3_000)
    const { status, headers } = await answer
    expect([status, headers.get('retry-after')]).toEqual([503, '1'])
  })

  it('has no password in its log', async () => {
    const store = await redis('--requirepass', 'open-sesame')
    const server = await serve({ store: store.url.replace('//', '//:open-sesame@') })
    await server.says(/(serving)/)
    await store.kill()
    await expect
      .poll(() => fetch(new URL('/healthz', server.endpointUrl)).then(({ status }) => status), LONG)
      .toBe(503)
    await server.says(/the store is not available/)
    await server.kill('SIGTERM')
    expect(server.stdout + server.stderr).not.toContain('sesame')
  })
})
