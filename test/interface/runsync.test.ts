import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { limits } from '../../src/job/limits.ts'
import { happens, startRig, type Reply, type Rig } from '../support/interface-rig.ts'
import { KEY } from '../support/service.ts'

/** A request that waits, and the job that came of it. */
async function waiting(rig: Rig, query = ''): Promise<{ reply: Promise<Reply>; id: string }> {
  const { reply } = await rig.held(rig.post(`/runsync${query}`, { input: { n: 1 } }))
  return { reply, id: (await rig.worker.take()).id }
}

describe('POST /runsync', () => {
  it('[RSY-1] takes a whole submission, and hands the worker what it says', async () => {
    const rig = await startRig()
    const submission = {
      input: { n: 1 },
      policy: { executionTimeout: 60_000, lowPriority: false, ttl: 120_000 },
    }
    const { reply } = await rig.held(rig.post('/runsync', submission))
    const job = await rig.worker.take()
    expect(job).toMatchObject(submission)
    await rig.worker.done(job.id, { output: 1 })
    expect((await reply).statusCode).toBe(200)
  })

  it.each(['1000', '2500', '300000'])(
    '[RSY-2, LIM-4] waits for completion as long as wait says: %s ms',
    async (wait) => {
      const rig = await startRig()
      const { reply, isAnswered } = await rig.held(rig.post(`/runsync?wait=${wait}`, { input: {} }))
      await rig.jump(Number(wait) - 1)
      expect(await isAnswered()).toBe(false)
      await rig.jump(1)
      expect(await isAnswered()).toBe(true)
      expect((await reply).statusCode).toBe(200)
    },
  )

  it.each(['999', '300001', '-1', '0', '1500.5', '1e4', 'NaN'])(
    '[RSY-2, LIM-4] refuses a wait that is no integer from 1,000 to 300,000: %s',
    async (wait) => {
      const rig = await startRig()
      const reply = await rig.post(`/runsync?wait=${wait}`, { input: {} })
      expect([reply.statusCode, reply.json().error]).toEqual([400, expect.stringContaining('wait must be')])
      expect((await rig.health()).jobs['inQueue']).toBe(0)
    },
  )

  it('[RSY-3, LIM-4] waits for 90 seconds when it is not told how long', async () => {
    const rig = await startRig()
    const { isAnswered } = await rig.held(rig.post('/runsync', { input: {} }))
    await rig.jump(89_999)
    expect(await isAnswered()).toBe(false)
    await rig.jump(1)
    expect(await isAnswered()).toBe(true)
  })

  it('[RSY-4] keeps the result for a time of its own, however short the wait was', async () => {
    const rig = await startRig()
    const { reply, id } = await waiting(rig, '?wait=1000')
    await rig.worker.done(id, { output: 1 })
    await reply
    await rig.jump(60_000)
    expect(await rig.statusOf(id)).toBe('COMPLETED')
  })

  it('[RSY-5, LIM-1, LIM-9] takes 20 MB in either reading, and answers 413 to one byte more', async () => {
    const rig = await startRig()
    const bodyOf = (bytes: number): string => `{"input":{"x":"${'x'.repeat(bytes - 18)}"}}`
    for (const bytes of [20_000_000, 20_971_520]) {
      const { reply } = await rig.held(rig.post('/runsync?wait=1000', bodyOf(bytes)))
      await rig.jump(1_000)
      expect((await reply).statusCode).toBe(200)
    }
    const refused = await rig.post('/runsync', bodyOf(20_971_521))
    expect([refused.statusCode, refused.json().code]).toEqual([413, 'BODY_TOO_LARGE'])
    expect(refused.json().error).toContain('20971520')
    expect(limits.runsyncBodyBytes).toBe(20_971_520)
  })

  it('[RSY-6, RSY-7, SVC-3] answers the whole record the moment the job completes', async () => {
    const rig = await startRig()
    const output = { list: Array.from({ length: 1_000 }, (_, n) => n) }
    const { reply, id } = await waiting(rig)
    await rig.jump(25)
    await rig.worker.done(id, { output })
    const answer = await reply
    expect([answer.statusCode, answer.json()]).toEqual([
      200,
      expect.objectContaining({ id, status: 'COMPLETED', output, delayTime: 0, executionTime: 25 }),
    ])
  })

  it('[RSY-8] answers the record as it is when the wait is over first, and the job goes on', async () => {
    const rig = await startRig()
    const { reply, id } = await waiting(rig, '?wait=1000')
    await rig.jump(1_000)
    const answer = await reply
    expect([answer.statusCode, answer.json()]).toEqual([
      200,
      expect.objectContaining({ id, status: 'IN_PROGRESS' }),
    ])
    await rig.worker.done(id, { output: 'later' })
    expect(await rig.record(id)).toMatchObject({ status: 'COMPLETED', output: 'later' })
  })

  const ends: [status: string, end: (rig: Rig, id: string) => Promise<unknown>][] = [
    ['COMPLETED', (rig, id) => rig.worker.done(id, { output: 1 })],
    ['FAILED', (rig, id) => rig.worker.done(id, { error: 'no' })],
    ['CANCELLED', (rig, id) => rig.post(`/cancel/${id}`)],
  ]
  for (const [status, end] of ends) {
    it(`[RSY-9] answers 200 when the job ends ${status}`, async () => {
      const rig = await startRig()
      const { reply, id } = await waiting(rig)
      await end(rig, id)
      const answer = await reply
      expect([answer.statusCode, answer.json().status]).toEqual([200, status])
    })
  }

  it('[RSY-10] answers 404 when the ttl deletes the job meanwhile', async () => {
    const rig = await startRig()
    const { reply } = await rig.held(rig.post('/runsync', { input: {}, policy: { ttl: 10_000 } }))
    await rig.pass(11_000)
    const answer = await reply
    expect([answer.statusCode, answer.json().code]).toEqual([404, 'JOB_NOT_FOUND'])
  })

  it('[RSY-11] answers 200 with the record as it is when the service stops', async () => {
    const rig = await startRig()
    const { reply, id } = await waiting(rig)
    await rig.service.close()
    const answer = await reply
    expect([answer.statusCode, answer.json()]).toEqual([
      200,
      expect.objectContaining({ id, status: 'IN_PROGRESS' }),
    ])
  })

  it('[RSY-12] leaves the job as it is when its client hangs up', async () => {
    const rig = await startRig()
    await rig.service.http.listen({ host: '127.0.0.1', port: 0 })
    const { port } = rig.service.http.server.address() as AddressInfo
    const headers = { authorization: KEY }
    const asked = request({ port, method: 'POST', path: '/v2/default/runsync', headers })
    asked.on('error', () => undefined)
    asked.end('{"input":{}}')
    await happens(async () => (await rig.health()).jobs['inQueue'] === 1)
    const { id } = await rig.worker.take()
    asked.destroy()
    await happens(async () => (await connections(rig)) === 0)
    expect(await rig.statusOf(id)).toBe('IN_PROGRESS')
    await rig.worker.done(id, { output: 1 })
    expect(await rig.statusOf(id)).toBe('COMPLETED')
  })
})

function connections(rig: Rig): Promise<number> {
  return new Promise((resolve, reject) =>
    rig.service.http.server.getConnections((cause, count) => (cause ? reject(cause) : resolve(count))),
  )
}
