import { describe, expect, it } from 'vitest'
import { startRig } from '../support/interface-rig.ts'

describe('POST /retry/{id}', () => {
  it('[RTY-1, RTY-3] needs no body, and answers the same id and IN_QUEUE', async () => {
    const rig = await startRig()
    const id = await rig.failed()
    const reply = await rig.post(`/retry/${id}`)
    expect([reply.statusCode, reply.json()]).toEqual([200, { id, status: 'IN_QUEUE' }])
  })

  it('[RTY-2, STA-5] queues a job that is FAILED or TIMED_OUT under its id with its original input', async () => {
    const rig = await startRig()
    const input = '{"n":1.000000000000000000001,"__proto__":{}}'
    const failed = (await rig.post('/run', `{"input":${input}}`)).json<{ id: string }>().id
    await rig.worker.take()
    await rig.worker.done(failed, { error: 'no' })
    const timedOut = await rig.timedOut({ input: { second: true } })
    for (const id of [failed, timedOut]) expect((await rig.post(`/retry/${id}`)).statusCode).toBe(200)
    const again = await rig.get('/job-take/w1?x=1')
    expect(again.json().id).toBe(failed)
    expect(again.body).toContain(`"input":${input}`)
    expect(await rig.worker.take()).toMatchObject({ id: timedOut, input: { second: true } })
  })

  it('[RTY-2, RTY-5, ERR-8] refuses any other status with 409, and leaves the job as it is', async () => {
    const rig = await startRig()
    const completed = await rig.completed('kept')
    const cancelled = await rig.submit()
    await rig.post(`/cancel/${cancelled}`)
    const running = await rig.running()
    const waiting = await rig.submit()
    const others = {
      COMPLETED: completed,
      CANCELLED: cancelled,
      IN_PROGRESS: running,
      IN_QUEUE: waiting,
    }
    for (const [status, id] of Object.entries(others)) {
      const before = await rig.record(id)
      const reply = await rig.post(`/retry/${id}`)
      expect([reply.statusCode, reply.json().code]).toEqual([409, 'WRONG_STATUS'])
      expect(reply.json().error).toContain(`is ${status}`)
      expect(await rig.record(id)).toEqual(before)
    }
  })

  it('[STA-6] drops the former output, error and chunks', async () => {
    const rig = await startRig()
    const id = await rig.running()
    await rig.worker.stream(id, 'old')
    await rig.worker.done(id, { error: 'it broke', output: 'half' })
    expect(await rig.record(id)).toMatchObject({ output: 'half', error: { message: 'it broke' } })
    await rig.post(`/retry/${id}`)
    const record = await rig.record(id)
    expect(record).not.toHaveProperty('output')
    expect(record).not.toHaveProperty('error')
    expect(await rig.chunks(id, 'after=0&wait=0')).toEqual([])
  })

  it('[RTY-4, STA-5] works until the results expire, and is 404 from then on', async () => {
    const rig = await startRig()
    const early = await rig.failed()
    const late = await rig.failed()
    await rig.jump(30 * 60_000 - 1)
    expect((await rig.post(`/retry/${early}`)).statusCode).toBe(200)
    await rig.jump(1)
    const reply = await rig.post(`/retry/${late}`)
    expect([reply.statusCode, reply.json().code]).toEqual([404, 'JOB_NOT_FOUND'])
  })

  it('[RTY-6] puts the job at the back, its attempts and its delayTime counted afresh', async () => {
    const rig = await startRig()
    const id = await rig.running()
    await rig.worker.ping(id)
    await rig.pass(31_000)
    const next = await rig.other.take()
    expect(next).toMatchObject({ id, attempt: 2 })
    await rig.other.done(id, { error: 'no' })
    const other = await rig.submit()
    await rig.jump(1_000)
    await rig.post(`/retry/${id}`)
    expect(await rig.record(id)).toMatchObject({ attempt: 1, delayTime: 0, executionTime: 0 })
    await rig.jump(70)
    expect(await rig.record(id)).toMatchObject({ delayTime: 70 })
    expect((await rig.other.take()).id).toBe(other)
    expect(await rig.other.take()).toMatchObject({ id, attempt: 1 })
  })
})
