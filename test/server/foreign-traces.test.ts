// What a worker of the hosted platform was recorded to do, done to this service.

import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FakeClock } from '../support/fake-clock.ts'
import { ScriptedForeignWorker } from '../support/foreign-worker.ts'
import { KEY, startTestService, type TestService } from '../support/service.ts'

let service: TestService
let clock: FakeClock
let workers: ScriptedForeignWorker[]
beforeEach(async () => {
  clock = new FakeClock()
  service = await startTestService({ clock })
  await service.http.listen({ host: '127.0.0.1', port: 0 })
  workers = []
})
afterEach(async () => {
  for (const worker of workers) worker.close()
  const closing = service.close()
  await moving(closing)
})

function startWorker(options: { worker?: string; query?: string } = {}): ScriptedForeignWorker {
  const { port } = service.http.server.address() as AddressInfo
  const made = new ScriptedForeignWorker({
    endpointUrl: `http://127.0.0.1:${port}/v2/default`,
    key: KEY,
    ...options,
  })
  workers.push(made)
  return made
}

const submit = async (input: object = {}): Promise<string> =>
  (await service.ask('POST', '/run', { input })).json<{ id: string }>().id
const status = async (id: string): Promise<Record<string, unknown>> =>
  (await service.ask('GET', `/status/${id}`)).json()

/** Lets time pass in small steps until the promise settles. */
async function moving<T>(promise: Promise<T>, stepMs = 100): Promise<T> {
  const turn = Symbol('turn')
  for (let steps = 0; steps < 20_000; steps += 1) {
    const next = new Promise<typeof turn>((resolve) => setImmediate(() => resolve(turn)))
    const settled = await Promise.race([promise, next])
    if (settled !== turn) return settled
    clock.advance(stepMs)
  }
  throw new Error('It did not settle.')
}

/** So much time, with turns for the sweeper in between. */
async function pass(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 500) {
    clock.advance(Math.min(500, left))
    await new Promise((resolve) => setImmediate(resolve))
    await service.store.ping()
  }
}

for (const [form, query] of [
  ['with a query in its URLs', '?gpu=SIM'],
  ['without one', ''],
]) {
  describe(`a foreign worker ${form}`, () => {
    it('does a plain job', async () => {
      const w1 = startWorker({ query: query ?? '' })
      await w1.ping()
      const id = await submit({ a: 1 })
      expect(await w1.take()).toMatchObject({ status: 200, body: { id, input: { a: 1 } } })
      expect(await w1.done(id, '{"output": {"a": 1}}')).toEqual({ status: 200, body: {} })
      expect(await status(id)).toMatchObject({ status: 'COMPLETED', output: { a: 1 }, workerId: 'w1' })
      // The id of the last job that posted is still attached to its next take.
      const next = w1.take()
      const second = await submit()
      expect(await next).toMatchObject({ status: 200, body: { id: second } })
    })

    it('streams two items and ends with the aggregate', async () => {
      const w1 = startWorker({ query: query ?? '' })
      const id = await submit()
      await w1.take()
      await w1.stream(id, '{"output": {"i": 0}}')
      await w1.stream(id, '{"output": {"i": 1}}')
      await w1.done(id, '{"output": [{"i": 0}, {"i": 1}]}', true)
      expect((await service.ask('GET', `/stream/${id}`)).json()).toMatchObject([
        { output: { i: 0 } },
        { output: { i: 1 } },
      ])
      expect(await status(id)).toMatchObject({ status: 'COMPLETED', output: [{ i: 0 }, { i: 1 }] })
    })

    it('takes jobs in batches at concurrency 3, and lists them in any order', async () => {
      const w1 = startWorker({ query: query ?? '' })
      const c1 = await submit()
      expect(await w1.take({ count: 3 })).toMatchObject({ status: 200, body: [{ id: c1 }] })
      await w1.ping([c1])
      const batch = w1.take({ count: 2, busy: 1 })
      const c2 = await submit()
      expect(await batch).toMatchObject({ status: 200, body: [{ id: c2 }] })
      const c3 = await submit()
      await w1.take({ busy: 1 })
      await w1.ping([c3, c2, c1])
      for (const id of [c2, c3, c1]) await w1.done(id, '{"output": 1}')
      for (const id of [c1, c2, c3]) expect((await status(id))['status']).toBe('COMPLETED')
    })

    it('is told to stop, again until its pings no longer list the job, and posts nothing', async () => {
      const w1 = startWorker({ query: query ?? '' })
      const id = await submit()
      await w1.take()
      const stop = w1.stops()
      await w1.ping([id])
      await service.ask('POST', `/cancel/${id}`)
      expect(await stop).toEqual({ status: 200, body: { jobsToStop: [id] } })
      await w1.ping([id])
      expect(await w1.stops()).toMatchObject({ body: { jobsToStop: [id] } })
      await w1.ping()
      expect(await moving(w1.stops())).toEqual({ status: 204, body: undefined })
      expect(await status(id)).toMatchObject({ status: 'CANCELLED' })
    })
  })
}

describe('a foreign worker', () => {
  it('is held when there is nothing, for less than the 90 seconds after which it gives up', async () => {
    const w1 = startWorker()
    const since = clock.now()
    expect(await moving(w1.take())).toEqual({ status: 204, body: undefined })
    const heldMs = clock.now() - since
    expect(heldMs).toBeGreaterThanOrEqual(25_000)
    expect(heldMs).toBeLessThan(80_000)
  })

  it('gets no job on a poll that it has hung up', async () => {
    const w1 = startWorker()
    const hangUp = new AbortController()
    const dead = w1.take({ signal: hangUp.signal })
    const gone = dead.catch(() => 'hung up')
    await service.ask('GET', '/health')
    hangUp.abort()
    expect(await gone).toBe('hung up')
    const id = await submit()
    expect(await startWorker({ worker: 'w2' }).take()).toMatchObject({ body: { id } })
    expect((await status(id))['attempt']).toBe(1)
  })

  it('keeps a job by pings that list it and by posts, and loses it by pings that do not', async () => {
    const w1 = startWorker()
    const id = await submit()
    await w1.take()
    for (let n = 0; n < 6; n += 1) {
      await pass(10_000)
      await w1.ping([id])
    }
    for (let n = 0; n < 3; n += 1) {
      await pass(25_000)
      await w1.done(id, '{"status": "IN_PROGRESS", "output": 0.5}')
      await pass(25_000)
      await w1.stream(id, '{"output": 1}')
    }
    expect(await status(id)).toMatchObject({ status: 'IN_PROGRESS', attempt: 1, progress: 0.5 })
    for (let n = 0; n < 4; n += 1) {
      await w1.ping()
      await pass(10_000)
    }
    expect(await status(id)).toMatchObject({ status: 'IN_QUEUE', attempt: 2, reason: 'lease-lapsed' })
  })

  it('is not given back a job that it has just lost, while it lives: another one is', async () => {
    const [w1, w2] = [startWorker(), startWorker({ worker: 'w2' })]
    const id = await submit()
    await w1.take()
    await w2.ping()
    for (let n = 0; n < 4; n += 1) {
      await w1.ping()
      await w2.ping()
      await pass(10_000)
    }
    expect((await status(id))['status']).toBe('IN_QUEUE')
    const refused = w1.take()
    const other = await submit()
    expect(await refused).toMatchObject({ body: { id: other } })
    expect(await w2.take()).toMatchObject({ body: { id } })
    // Its late result is the loser's.
    expect((await w1.done(id, '{"output": "late"}')).status).toBe(200)
    await w2.done(id, '{"output": "mine"}')
    expect(await status(id)).toMatchObject({ status: 'COMPLETED', output: 'mine', attempt: 2 })
  })

  it('is not given it back either when another one took it and gave it back', async () => {
    const [w1, w2] = [startWorker(), startWorker({ worker: 'w2' })]
    const id = await submit()
    await w1.take()
    for (let n = 0; n < 4; n += 1) {
      await w1.ping()
      await w2.ping()
      await pass(10_000)
    }
    expect(await w2.take()).toMatchObject({ body: { id } })
    await service.store.jobs.release({ endpoint: 'default', id, worker: 'w2' }, clock.now())
    const refused = w1.take()
    const other = await submit()
    expect(await refused).toMatchObject({ body: { id: other } })
    expect((await status(id))['status']).toBe('IN_QUEUE')
  })

  it('is told at once on every stop poll that it holds, and is held again after that', async () => {
    const w1 = startWorker()
    const id = await submit()
    await w1.take()
    const drop = new AbortController()
    const dropped = w1.stops(drop.signal).catch(() => 'dropped')
    const stop = w1.stops()
    await w1.ping([id])
    drop.abort()
    expect(await dropped).toBe('dropped')
    await service.ask('POST', `/cancel/${id}`)
    expect(await stop).toMatchObject({ body: { jobsToStop: [id] } })
    await w1.ping([id])
    expect(await w1.stops()).toMatchObject({ body: { jobsToStop: [id] } })
    await w1.ping()
    const since = clock.now()
    expect((await moving(w1.stops())).status).toBe(204)
    expect(clock.now() - since).toBeGreaterThanOrEqual(25_000)
  })

  it('gets jobs again as another process by the same id, and when nobody recycles it', async () => {
    const w1 = startWorker()
    const retire = async (): Promise<string> => {
      const [first, second] = [await submit(), await submit()]
      await w1.take()
      await w1.done(first, '{"output": 1, "stopPod": true}')
      return second
    }
    const second = await retire()
    await pass(2_000)
    expect(await w1.take()).toMatchObject({ status: 200, body: { id: second } })
    await w1.done(second, '{"output": 1}')
    const third = await retire()
    expect((await moving(w1.take())).status).toBe(204)
    expect((await moving(w1.take())).status).toBe(204)
    expect(await w1.take()).toMatchObject({ status: 200, body: { id: third } })
  })

  it('gets no job on a take that it held when it asked to be recycled', async () => {
    const w1 = startWorker()
    const first = await submit()
    await w1.take()
    const held = w1.take({ busy: 1 })
    await service.ask('GET', '/health')
    await w1.done(first, '{"output": 1, "stopPod": true}')
    expect((await held).status).toBe(204)
  })

  it('may split a value by itself', async () => {
    const w1 = startWorker()
    const id = await submit()
    await w1.take()
    await w1.stream(id, '{"output":"one ","part":{"as":"text","first":1,"back":0,"last":false}}')
    await w1.stream(id, '{"output":"two","part":{"as":"text","first":1,"back":1,"last":true}}')
    await w1.stream(id, '{"output":3,"part":{"as":"odd"}}')
    expect((await service.ask('GET', `/stream/${id}`)).json()).toMatchObject([
      { output: 'one ', part: { as: 'text', first: 1, last: false } },
      { output: 'two', part: { as: 'text', first: 1, last: true } },
      { output: 3 },
    ])
  })

  it('is given it back when there is nobody else and its pings show that it no longer runs it', async () => {
    const w1 = startWorker()
    const id = await submit()
    await w1.take()
    for (let n = 0; n < 4; n += 1) {
      await w1.ping()
      await pass(10_000)
    }
    const takes: number[] = []
    while (takes.at(-1) !== 200 && takes.length < 5) {
      const take = w1.take()
      for (let n = 0; n < 3; n += 1) {
        await pass(9_000)
        await w1.ping()
      }
      takes.push((await take).status)
    }
    expect(takes).toEqual([204, 200])
    expect((await status(id))['attempt']).toBe(2)
  })

  it('keeps nothing by pings alone when its polls were cut and none came again', async () => {
    const w1 = startWorker()
    const id = await submit()
    await w1.take()
    const kill = new AbortController()
    const stop = w1.stops(kill.signal).catch(() => 'killed')
    await w1.ping([id])
    kill.abort()
    await stop
    for (let n = 0; n < 8; n += 1) {
      await w1.ping([id])
      await pass(10_000)
    }
    expect(await status(id)).toMatchObject({ status: 'IN_QUEUE', attempt: 2 })
    expect((await service.ask('GET', '/health')).json().workers).toMatchObject({ idle: 0, running: 0 })
  })

  it('is timed out by the service when its executionTimeout passes, however it pings', async () => {
    const w1 = startWorker()
    const { id } = (
      await service.ask('POST', '/run', { input: {}, policy: { executionTimeout: 20_000 } })
    ).json<{
      id: string
    }>()
    await w1.take()
    for (let n = 0; n < 3; n += 1) {
      await w1.ping([id])
      await pass(10_000)
    }
    expect(await status(id)).toMatchObject({ status: 'TIMED_OUT', error: { code: 'TIMED_OUT' } })
    expect(await w1.stops()).toMatchObject({ body: { jobsToStop: [id] } })
  })

  it('is told to stop a job whose ttl passes, which is then gone', async () => {
    const w1 = startWorker()
    const { id } = (await service.ask('POST', '/run', { input: {}, policy: { ttl: 10_000 } })).json<{
      id: string
    }>()
    await w1.take()
    await w1.ping([id])
    await pass(11_000)
    expect(await w1.stops()).toMatchObject({ body: { jobsToStop: [id] } })
    expect((await service.ask('GET', `/status/${id}`)).statusCode).toBe(404)
    expect((await w1.done(id, '{"output": 1}')).status).toBe(200)
  })

  it('may post progress after the end, a result after a cancel, a progress that is no JSON', async () => {
    const w1 = startWorker()
    const id = await submit()
    await w1.take()
    expect((await w1.done(id, '{"status": "IN_PROGRESS", "output": NaN}')).status).toBe(200)
    expect((await status(id))['status']).toBe('IN_PROGRESS')
    await w1.done(id, '{"output": 1}')
    expect((await w1.done(id, '{"status": "IN_PROGRESS", "output": 0.9}')).status).toBe(200)
    expect(await status(id)).toMatchObject({ status: 'COMPLETED', output: 1 })
    expect(await status(id)).not.toHaveProperty('progress')
    const second = await submit()
    await w1.take()
    await service.ask('POST', `/cancel/${second}`)
    expect((await w1.done(second, '{"output": 1}')).status).toBe(200)
    expect(await status(second)).toMatchObject({ status: 'CANCELLED' })
  })

  it('gets no more jobs once it asked to be recycled, until another process polls in its place', async () => {
    const w1 = startWorker()
    const [first, second] = [await submit(), await submit()]
    await w1.take()
    await w1.done(first, '{"output": 1, "stopPod": true}')
    expect(service.logged.join()).toContain('asks to be recycled')
    const hangUp = new AbortController()
    const poll = w1.take({ signal: hangUp.signal }).catch(() => 'killed')
    await pass(1_000)
    expect((await status(second))['status']).toBe('IN_QUEUE')
    hangUp.abort()
    await poll
    await expect.poll(async () => (await w1.take()).status).toBe(200)
    expect((await status(second))['status']).toBe('IN_PROGRESS')
  })

  it('may list as many ids as it does at most', async () => {
    const w1 = startWorker()
    const id = await submit()
    await w1.take()
    const ids = Array.from({ length: 1_770 }, (_, n) => String(n).padStart(36, '0'))
    expect([...ids, id].join(',').length).toBeGreaterThan(65_000)
    expect(await w1.ping([...ids, id])).toEqual({ status: 200, body: {} })
    expect(await w1.stops()).toMatchObject({ body: { jobsToStop: expect.arrayContaining(ids.slice(0, 3)) } })
  })

  it('is counted as unhealthy while it says so', async () => {
    const w1 = startWorker()
    await w1.ping([], '&status=unhealthy&check=disk&reason=full')
    expect((await service.ask('GET', '/health')).json().workers).toMatchObject({
      idle: 0,
      ready: 0,
      unhealthy: 1,
    })
    await w1.ping()
    expect((await service.ask('GET', '/health')).json().workers).toMatchObject({
      idle: 1,
      ready: 1,
      unhealthy: 0,
    })
  })

  it('that pings less often has longer leases', async () => {
    const w1 = startWorker()
    await w1.ping()
    await pass(60_000)
    await w1.ping()
    const id = await submit()
    await w1.take()
    await w1.ping([id])
    await pass(60_000)
    await w1.ping([id])
    await pass(60_000)
    expect(await status(id)).toMatchObject({ status: 'IN_PROGRESS', attempt: 1 })
  })
})
