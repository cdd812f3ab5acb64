import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { LightMyRequestResponse } from 'fastify'
import { ScriptedJobs } from '../support/scripted-jobs.ts'
import { KEY, startTestService, type TestService } from '../support/service.ts'

let service: TestService
let jobs: ScriptedJobs
beforeEach(async () => {
  service = await startTestService()
  jobs = new ScriptedJobs(service.store)
})
afterEach(() => service.close())

const ask = (method: 'GET' | 'POST', path: string, body?: string): Promise<LightMyRequestResponse> =>
  service.http.inject({
    method,
    url: `/compat/v2/default${path}`,
    headers: { authorization: KEY, 'content-type': 'application/json' },
    ...(body !== undefined && { payload: body }),
  })
const submit = async (): Promise<string> =>
  (await ask('POST', '/run', '{"input":{}}')).json<{ id: string }>().id

describe('/compat/v2', () => {
  it('has records as the hosted platform has them', async () => {
    const id = await submit()
    expect((await ask('GET', `/status/${id}`)).json()).toEqual({
      id,
      status: 'IN_QUEUE',
      delayTime: expect.any(Number),
    })
    const job = await jobs.lease()
    await service.store.jobs.setProgress(jobs.fence(job), Buffer.from('{"at":1}'))
    expect((await ask('POST', `/status/${id}`, '{}')).json()).toEqual({
      id,
      status: 'IN_PROGRESS',
      delayTime: expect.any(Number),
      workerId: 'w1',
      output: { at: 1 },
    })
    await jobs.complete(job, '{"done":1.0}')
    const ended = await ask('GET', `/status/${id}`)
    expect(ended.body).toContain('"output":{"done":1.0}')
    expect(ended.json()).toEqual({
      id,
      status: 'COMPLETED',
      delayTime: expect.any(Number),
      executionTime: 5,
      workerId: 'w1',
      output: { done: 1 },
    })
  })

  it('has errors as texts: type and message, or what a foreign worker wrote', async () => {
    const own = await submit()
    await jobs.fail(await jobs.lease(), 'HANDLER_ERROR', 'broke')
    expect((await ask('GET', `/status/${own}`)).json().error).toBe('Error: broke')
    const foreign = await submit()
    await service.ask('GET', '/job-take/w9?x=1')
    const words = '{"error_type": "<class \'ValueError\'>", "error_message": "bad", "error_traceback": "t"}'
    await service.ask('POST', `/job-done/w9/${foreign}`, JSON.stringify({ error: words }))
    expect((await ask('GET', `/status/${foreign}`)).json().error).toBe(words)
    expect((await service.ask('GET', `/status/${foreign}`)).json().error).toMatchObject({
      type: 'ValueError',
    })
  })

  it('counts lost attempts as retries', async () => {
    const id = await submit()
    const error = { type: 'E', message: 'm', code: 'CRASHED' }
    await service.store.jobs.lose(jobs.fence(await jobs.lease()), { error, executionMs: 1, now: Date.now() })
    expect((await ask('GET', `/status/${id}`)).json()).toMatchObject({ retries: 1 })
  })

  it('waits in status-sync until the end or the wait is over', async () => {
    const id = await submit()
    for (const method of ['GET', 'POST'] as const) {
      expect((await ask(method, `/status-sync/${id}?wait=1000`)).json()).toMatchObject({ status: 'IN_QUEUE' })
    }
    const waiting = ask('GET', `/status-sync/${id}`)
    await jobs.complete(await jobs.lease(), '1')
    expect((await waiting).json()).toMatchObject({ status: 'COMPLETED', output: 1 })
    for (const wait of ['999', '300001', 'x']) {
      const refused = await ask('GET', `/status-sync/${id}?wait=${wait}`)
      expect([refused.statusCode, refused.json().error]).toEqual([
        400,
        expect.stringContaining('wait must be'),
      ])
    }
  })

  it('streams status and chunks, and all that is left with the end', async () => {
    const id = await submit()
    const job = await jobs.lease()
    await jobs.append(job, '"a"', { output: Buffer.from('2'), metrics: '{"tokens":1}' })
    expect((await ask('GET', `/stream/${id}`)).json()).toEqual({
      status: 'IN_PROGRESS',
      stream: [{ output: 'a' }, { output: 2, metrics: { tokens: 1 } }],
    })
    expect((await ask('POST', `/stream/${id}?wait=0`)).json()).toEqual({ status: 'IN_PROGRESS', stream: [] })
    await jobs.append(job, '3')
    await jobs.complete(job)
    expect((await ask('GET', `/stream/${id}`)).json()).toEqual({
      status: 'COMPLETED',
      stream: [{ output: 3 }],
    })
    expect((await ask('GET', `/stream/${id}`)).json()).toEqual({ status: 'COMPLETED', stream: [] })
  })

  it('calls a job ended only with the last of its chunks, for clients that stop there', async () => {
    const id = await submit()
    const job = await jobs.lease()
    const large = JSON.stringify('x'.repeat(900_000))
    for (let n = 0; n < 10; n += 1) await jobs.append(job, large)
    await jobs.complete(job)
    const first = (await ask('GET', `/stream/${id}`)).json<{ status: string; stream: unknown[] }>()
    expect([first.status, first.stream.length]).toEqual(['IN_PROGRESS', 8])
    const second = (await ask('GET', `/stream/${id}`)).json<{ status: string; stream: unknown[] }>()
    expect([second.status, second.stream.length]).toEqual(['COMPLETED', 2])
  })

  it('has the rest of the interface, and needs a key for it', async () => {
    const id = await submit()
    expect((await ask('POST', `/cancel/${id}`, '{}')).json()).toEqual({ id, status: 'CANCELLED' })
    expect((await ask('POST', '/purge-queue', '{}')).json()).toEqual({ removed: 0, status: 'completed' })
    expect((await ask('POST', `/retry/${id}`)).statusCode).toBe(409)
    expect((await ask('GET', '/requests')).json().requests).toHaveLength(1)
    expect((await ask('GET', '/health')).statusCode).toBe(200)
    const refused = await ask('POST', '/run', '{"input":1}')
    expect([refused.statusCode, refused.json()]).toEqual([
      400,
      { error: 'input must be an object.', code: 'FIELD_INVALID' },
    ])
    for (const url of ['/compat/v2/default/health', '/compat/v2/default/nothing']) {
      expect((await service.http.inject({ url })).statusCode).toBe(401)
    }
  })
})
