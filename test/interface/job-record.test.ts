import { describe, expect, it } from 'vitest'
import { jobRecordSchema } from '../../src/protocol/endpoint-api.ts'
import { HostedWorker, startRig, turns } from '../support/interface-rig.ts'

describe('what the service is for', () => {
  it('[SVC-1, JOB-1] runs the input of a request of /run or /runsync on a worker behind the endpoint', async () => {
    const rig = await startRig()
    const id = await rig.submit({ input: { by: 'run' } })
    const waiting = rig.post('/runsync', { input: { by: 'runsync' } })
    await turns()
    const jobs = [await rig.worker.take(), await rig.worker.take()]
    expect(jobs.map(({ input }) => input)).toEqual([{ by: 'run' }, { by: 'runsync' }])
    for (const job of jobs) await rig.worker.done(job.id, { output: job.input })
    expect(await rig.record(id)).toMatchObject({ output: { by: 'run' } })
    expect((await waiting).json()).toMatchObject({ output: { by: 'runsync' } })
  })

  it('[SVC-2, ERR-13] keeps a job in the queue while there is no worker, and gives it to the first that is free', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    await rig.pass(60_000)
    expect(await rig.statusOf(id)).toBe('IN_QUEUE')
    const idle = rig.worker.take()
    expect((await idle).id).toBe(id)
    // And a worker that waits already is given the next one at once.
    const next = new HostedWorker(rig.service, 'w2').take()
    await turns()
    const second = await rig.submit()
    expect((await next).id).toBe(second)
  })

  it('[SVC-3] answers a result to whoever waits, and an id to poll with to whoever does not', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    expect(await rig.statusOf(id)).toBe('IN_QUEUE')
    const waiting = rig.post('/runsync', { input: {} })
    await turns()
    for (let n = 0; n < 2; n += 1) {
      const job = await rig.worker.take()
      await rig.worker.done(job.id, { output: job.id })
    }
    expect(await rig.record(id)).toMatchObject({ output: id })
    const answer = (await waiting).json<{ id: string }>()
    expect(answer).toMatchObject({ status: 'COMPLETED', output: answer.id })
  })

  it('[SVC-4] lets clients look, read a stream, cancel, retry, clear the queue and read the health', async () => {
    const rig = await startRig()
    const id = await rig.failed()
    const asked: ['GET' | 'POST', string][] = [
      ['GET', `/status/${id}`],
      ['GET', `/stream/${id}`],
      ['POST', `/retry/${id}`],
      ['POST', `/cancel/${id}`],
      ['POST', '/purge-queue'],
      ['GET', '/health'],
    ]
    for (const [method, path] of asked) {
      expect([path, (await rig.service.ask(method, path)).statusCode]).toEqual([path, 200])
    }
  })

  it.each(['/', '/predict', '/v1/chat/completions', '/run/extra'])(
    '[SVC-5] serves no custom path: %s',
    async (path) => {
      const rig = await startRig()
      for (const method of ['GET', 'POST'] as const) {
        const reply = await rig.service.ask(method, path)
        expect([reply.statusCode, reply.json().code]).toEqual([404, 'ROUTE_NOT_FOUND'])
      }
    },
  )
})

describe('the job record', () => {
  it('[JOB-3, OPS-2] has the id of the submission, as cancel and retry have', async () => {
    const rig = await startRig()
    const id = await rig.failed()
    for (const reply of [
      await rig.get(`/status/${id}`),
      await rig.post(`/retry/${id}`),
      await rig.post(`/cancel/${id}`),
    ]) {
      expect(reply.json().id).toBe(id)
    }
    const waiting = rig.post('/runsync', { input: {} })
    await turns()
    const job = await rig.worker.take()
    await rig.worker.done(job.id, {})
    expect((await waiting).json().id).toBe(job.id)
  })

  it('[JOB-4] has a status that is one of the states, and the shape it is published with', async () => {
    const rig = await startRig()
    for (const id of [
      await rig.completed(),
      await rig.failed(),
      await rig.timedOut(),
      await rig.running(),
      await rig.submit(),
    ]) {
      expect(jobRecordSchema.strict().parse(await rig.record(id))).toMatchObject({ id })
    }
  })

  it.each([0, '', false, 'text', [1, [2]], { a: { b: null } }, null, 1.5])(
    '[JOB-5] has as output whatever JSON value the handler made: %j',
    async (output) => {
      const rig = await startRig()
      expect((await rig.record(await rig.completed(output)))['output']).toEqual(output)
    },
  )

  it('[JOB-6] leaves output out when the handler made none', async () => {
    const rig = await startRig()
    const id = await rig.running()
    await rig.worker.done(id, {})
    const record = await rig.record(id)
    expect(record['status']).toBe('COMPLETED')
    expect(record).not.toHaveProperty('output')
  })

  it('[JOB-7, JOB-8, JOB-9, JOB-10] tells in ms how long the job waited and how long it ran', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    await rig.jump(1_200)
    expect(await rig.record(id)).toMatchObject({ delayTime: 1_200, executionTime: 0 })
    await rig.worker.take()
    await rig.jump(345)
    expect(await rig.record(id)).toMatchObject({ delayTime: 1_200, executionTime: 345 })
    await rig.worker.done(id, { output: 1 })
    await rig.jump(5_000)
    expect(await rig.record(id)).toMatchObject({ delayTime: 1_200, executionTime: 345 })
  })

  it('[JOB-8, JOB-10, JOB-11] counts a lost attempt, whose run is no delay, and the last one alone as run', async () => {
    const rig = await startRig()
    const id = await rig.running()
    await rig.worker.ping(id)
    await rig.pass(30_000)
    expect(await rig.record(id)).toMatchObject({ status: 'IN_QUEUE', attempt: 2 })
    await rig.jump(400)
    await rig.other.take()
    await rig.jump(50)
    await rig.other.done(id, { output: 1 })
    const record = await rig.record(id)
    expect(record).toMatchObject({ attempt: 2, executionTime: 50 })
    expect(record['delayTime']).toBeGreaterThanOrEqual(400)
    expect(record['delayTime']).toBeLessThanOrEqual(1_000)
  })

  it('[JOB-12] names the worker once there is one', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    expect(await rig.record(id)).not.toHaveProperty('workerId')
    await new HostedWorker(rig.service, 'the-worker').take()
    expect(await rig.record(id)).toMatchObject({ workerId: 'the-worker' })
  })

  it('[JOB-13] says why where several ways lead to one status', async () => {
    const rig = await startRig()
    const cancelled = await rig.submit()
    await rig.post(`/cancel/${cancelled}`)
    const purged = await rig.submit()
    await rig.post('/purge-queue')
    const retried = await rig.failed()
    await rig.post(`/retry/${retried}`)
    const reasons = [cancelled, purged, retried].map(async (id) => (await rig.record(id))['reason'])
    expect(await Promise.all(reasons)).toEqual(['cancelled', 'purged', 'retried'])
  })

  it('[JOB-14] has an error with type, message and code when it is FAILED or TIMED_OUT', async () => {
    const rig = await startRig()
    const id = await rig.running()
    const error = { error_type: "<class 'ValueError'>", error_message: 'bad', error_traceback: 'line 1' }
    await rig.worker.done(id, { error: JSON.stringify(error) })
    expect((await rig.record(id))['error']).toEqual({
      type: 'ValueError',
      message: 'bad',
      stack: 'line 1',
      code: 'HANDLER_ERROR',
    })
    expect((await rig.record(await rig.timedOut()))['error']).toEqual({
      type: 'TimeoutError',
      message: expect.stringContaining('executionTimeout'),
      code: 'TIMED_OUT',
    })
    expect(await rig.record(await rig.completed())).not.toHaveProperty('error')
  })

  it('[JOB-15] has the latest progress, only while the job is IN_PROGRESS', async () => {
    const rig = await startRig()
    const id = await rig.running()
    expect(await rig.record(id)).not.toHaveProperty('progress')
    for (const percent of [10, 40]) await rig.worker.progress(id, { percent })
    expect(await rig.record(id)).toMatchObject({ status: 'IN_PROGRESS', progress: { percent: 40 } })
    await rig.worker.done(id, { output: 1 })
    expect(await rig.record(id)).not.toHaveProperty('progress')
  })
})
