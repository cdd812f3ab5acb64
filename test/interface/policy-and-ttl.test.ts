import { describe, expect, it } from 'vitest'
import { limits } from '../../src/job/limits.ts'
import { startRig } from '../support/interface-rig.ts'

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE

describe('executionTimeout', () => {
  it('[POL-2, LIM-5, ERR-15, STA-11] ends a job after 10 minutes when it says nothing', async () => {
    const rig = await startRig()
    const id = await rig.running()
    await rig.pass(10 * MINUTE, () => rig.worker.ping(id))
    expect(await rig.statusOf(id)).toBe('IN_PROGRESS')
    await rig.pass(limits.silentTimeoutMs)
    expect(await rig.record(id)).toMatchObject({ status: 'TIMED_OUT', error: { code: 'TIMED_OUT' } })
    expect(limits.executionTimeoutMs.default).toBe(10 * MINUTE)
  })

  it('[POL-3, LIM-5, TTL-3] is from 5 seconds to 7 days', async () => {
    const rig = await startRig()
    for (const executionTimeout of [5_000, 7 * DAY]) {
      await rig.submit({ policy: { executionTimeout } })
      expect((await rig.worker.take()).policy).toMatchObject({ executionTimeout })
    }
    for (const executionTimeout of [4_999, 7 * DAY + 1, 0, -1, 5_000.5, '5000', true, null]) {
      const reply = await rig.post('/run', { input: {}, policy: { executionTimeout } })
      expect([reply.statusCode, reply.json().error]).toEqual([
        400,
        expect.stringContaining('policy.executionTimeout must be a whole number from 5000 to 604800000 ms'),
      ])
    }
  })

  it('[POL-4] does not run while the job waits', async () => {
    const rig = await startRig()
    const id = await rig.submit({ policy: { executionTimeout: 5_000 } })
    await rig.pass(60_000)
    await rig.worker.take()
    await rig.pass(9_500)
    expect(await rig.statusOf(id)).toBe('IN_PROGRESS')
    await rig.pass(500)
    expect(await rig.statusOf(id)).toBe('TIMED_OUT')
  })

  it("[POL-5] goes before the endpoint's own, for this job alone", async () => {
    const rig = await startRig()
    const short = await rig.running({ policy: { executionTimeout: 5_000 } })
    const plain = await rig.running()
    const long = await rig.running({ policy: { executionTimeout: 20 * MINUTE } })
    await rig.pass(10_500, () => rig.worker.ping(short, plain, long))
    expect([await rig.statusOf(short), await rig.statusOf(plain)]).toEqual(['TIMED_OUT', 'IN_PROGRESS'])
    await rig.pass(10 * MINUTE, () => rig.worker.ping(plain, long))
    expect([await rig.statusOf(plain), await rig.statusOf(long)]).toEqual(['TIMED_OUT', 'IN_PROGRESS'])
  })

  it('[POL-13, STA-11] is enforced by the service 5 seconds late, and the worker is told to stop', async () => {
    const rig = await startRig()
    const id = await rig.running({ policy: { executionTimeout: 6_000 } })
    await rig.pass(10_500)
    expect(await rig.statusOf(id)).toBe('IN_PROGRESS')
    await rig.pass(500)
    expect(await rig.record(id)).toMatchObject({ status: 'TIMED_OUT', executionTime: 11_000 })
    expect(await rig.worker.stops()).toEqual([id])
    await rig.worker.done(id, { output: 'late' })
    expect(await rig.record(id)).not.toHaveProperty('output')
  })
})

describe('lowPriority', () => {
  it('[POL-6] is false unless it is said, and a boolean', async () => {
    const rig = await startRig()
    for (const [policy, lowPriority] of [
      [{}, false],
      [{ lowPriority: false }, false],
      [{ lowPriority: true }, true],
    ] as const) {
      await rig.submit({ policy })
      expect((await rig.worker.take()).policy).toMatchObject({ lowPriority })
    }
    for (const lowPriority of [1, 'true', null, {}]) {
      const reply = await rig.post('/run', { input: {}, policy: { lowPriority } })
      expect([reply.statusCode, reply.json().error]).toEqual([
        400,
        expect.stringContaining('policy.lowPriority'),
      ])
    }
  })

  it('[POL-12] does not change the order in which jobs are taken', async () => {
    const rig = await startRig()
    const ids = [await rig.submit({ policy: { lowPriority: true } }), await rig.submit(), await rig.submit()]
    const taken: string[] = []
    for (let n = 0; n < 3; n += 1) taken.push((await rig.worker.take()).id)
    expect(taken).toEqual(ids)
  })
})

describe('ttl', () => {
  it('[POL-8, LIM-6, TTL-2] deletes a job after 24 hours when it says nothing', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    await rig.jump(DAY - 1)
    expect(await rig.statusOf(id)).toBe('IN_QUEUE')
    await rig.jump(1)
    const reply = await rig.get(`/status/${id}`)
    expect([reply.statusCode, reply.json().code]).toEqual([404, 'JOB_NOT_FOUND'])
  })

  it('[POL-9, LIM-6, TTL-3] is from 10 seconds to 7 days', async () => {
    const rig = await startRig()
    const least = await rig.submit({ policy: { ttl: 10_000 } })
    const most = await rig.submit({ policy: { ttl: 7 * DAY } })
    for (const ttl of [9_999, 7 * DAY + 1, 0, -1, 10_000.5, '10000', true, null]) {
      const reply = await rig.post('/run', { input: {}, policy: { ttl } })
      expect([reply.statusCode, reply.json().error]).toEqual([
        400,
        expect.stringContaining('policy.ttl must be a whole number from 10000 to 604800000 ms'),
      ])
    }
    await rig.jump(9_999)
    expect(await rig.statusOf(least)).toBe('IN_QUEUE')
    await rig.jump(1)
    expect((await rig.get(`/status/${least}`)).statusCode).toBe(404)
    await rig.jump(7 * DAY - 10_001)
    expect(await rig.statusOf(most)).toBe('IN_QUEUE')
    await rig.jump(1)
    expect((await rig.get(`/status/${most}`)).statusCode).toBe(404)
  })

  it('[POL-10, TTL-1, TTL-4, TTL-5] takes in waiting and running: what was spent in the queue is gone', async () => {
    const rig = await startRig()
    const id = await rig.submit({ policy: { ttl: 20_000 } })
    await rig.pass(15_000)
    await rig.worker.take()
    await rig.pass(4_500)
    expect(await rig.statusOf(id)).toBe('IN_PROGRESS')
    await rig.pass(500)
    expect((await rig.get(`/status/${id}`)).statusCode).toBe(404)
    expect(await rig.worker.stops()).toEqual([id])
    await rig.worker.done(id, { output: 'late' })
    expect((await rig.get(`/status/${id}`)).statusCode).toBe(404)
  })

  it('[TTL-1, TTL-2, STA-7, ERR-4] deletes a job that waits as well as one that runs, for every operation', async () => {
    const rig = await startRig()
    const policy = { ttl: 10_000 }
    const running = await rig.running({ policy })
    const waiting = await rig.submit({ policy })
    await rig.pass(10_000)
    for (const id of [waiting, running]) {
      for (const [method, path] of [
        ['GET', '/status/'],
        ['GET', '/stream/'],
        ['POST', '/cancel/'],
        ['POST', '/retry/'],
      ] as const) {
        const reply = await rig.service.ask(method, `${path}${id}`)
        expect([reply.statusCode, reply.json().code]).toEqual([404, 'JOB_NOT_FOUND'])
      }
    }
    expect((await rig.health()).jobs).toMatchObject({ inQueue: 0, inProgress: 0 })
    expect((await rig.get('/requests')).json()).toEqual({ requests: [] })
  })

  it('[TTL-6] does not reach a job that has ended', async () => {
    const rig = await startRig()
    const id = await rig.completed(1, { policy: { ttl: 10_000 } })
    await rig.pass(60_000)
    expect(await rig.statusOf(id)).toBe('COMPLETED')
  })

  it('[TTL-7, ERR-8] goes on over a retry, which is refused with 409 once it has passed', async () => {
    const rig = await startRig()
    const policy = { ttl: 20_000 }
    const early = await rig.failed({ policy })
    const late = await rig.failed({ policy })
    await rig.jump(15_000)
    expect((await rig.post(`/retry/${early}`)).statusCode).toBe(200)
    await rig.jump(5_000)
    expect((await rig.get(`/status/${early}`)).statusCode).toBe(404)
    const refused = await rig.post(`/retry/${late}`)
    expect([refused.statusCode, refused.json().code]).toEqual([409, 'TTL_PASSED'])
    expect(await rig.statusOf(late)).toBe('FAILED')
  })
})

describe('the policy', () => {
  it('[POL-11] refuses a key that it does not have', async () => {
    const rig = await startRig()
    const reply = await rig.post('/run', { input: {}, policy: { tll: 60_000 } })
    expect([reply.statusCode, reply.json().error]).toEqual([400, "policy has the unknown key 'tll'."])
  })
})
