import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { KEY, startTestService, type TestService } from '../support/service.ts'

let service: TestService
beforeAll(async () => {
  service = await startTestService()
})
afterAll(() => service.close())
beforeEach(() => service.ask('POST', '/purge-queue'))

interface Taken {
  id: string
  input: unknown
}
const submit = async (body: unknown = { input: {} }): Promise<string> =>
  (await service.ask('POST', '/run', body)).json<{ id: string }>().id
const take = async (worker = 'w1'): Promise<Taken> =>
  (await service.ask('GET', `/job-take/${worker}?x=1`)).json<Taken>()
const done = (id: string, body: unknown, worker = 'w1'): Promise<unknown> =>
  service.ask('POST', `/job-done/${worker}/${id}?x=1`, body)
const status = async (id: string): Promise<Record<string, unknown>> =>
  (await service.ask('GET', `/status/${id}`)).json()

describe('POST /run', () => {
  it('answers an id and IN_QUEUE at once', async () => {
    const answer = await service.ask('POST', '/run', { input: { a: 1 } })
    expect([answer.statusCode, answer.headers['content-type']]).toEqual([
      200,
      'application/json; charset=utf-8',
    ])
    expect(answer.json()).toEqual({ id: expect.stringMatching(/^[A-Za-z0-9_-]+$/), status: 'IN_QUEUE' })
  })

  it('keeps the input digit for digit and whatever its keys are called', async () => {
    const input =
      '{"n":1.00000000000000000001,"__proto__":{"x":1},"constructor":9,"big":12345678901234567890}'
    await submit(`{"input": ${input} , "unknown": true}`)
    const answer = await service.ask('GET', '/job-take/w1?x=1')
    expect(answer.body).toContain(`"input":${input}`)
    await done(answer.json<Taken>().id, { output: 1 })
  })

  it('reads the body as JSON whatever it is labelled', async () => {
    const answer = await service.ask('POST', '/run', '{"input":{}}', {
      'content-type': 'application/x-www-form-urlencoded',
    })
    expect(answer.statusCode).toBe(200)
  })

  it('answers the same id for the same Idempotency-Key, and 409 for another body', async () => {
    const key = { 'idempotency-key': 'once' }
    const first = await service.ask('POST', '/run', { input: { n: 1 } }, key)
    const again = await service.ask('POST', '/run', { input: { n: 1 } }, key)
    const other = await service.ask('POST', '/run', { input: { n: 2 } }, key)
    expect(again.json()).toEqual(first.json())
    expect([other.statusCode, other.json().code]).toEqual([409, 'IDEMPOTENCY_CONFLICT'])
  })
})

describe('POST /runsync', () => {
  it('answers the moment the result is there', async () => {
    const answer = service.ask('POST', '/runsync', { input: { n: 7 } })
    const job = await take()
    await done(job.id, { output: { twice: 14 } })
    expect((await answer).json()).toMatchObject({
      id: job.id,
      status: 'COMPLETED',
      output: { twice: 14 },
      delayTime: expect.any(Number),
      executionTime: expect.any(Number),
    })
  })

  it('answers the present status when the wait is over, and the job goes on', async () => {
    const answer = await service.ask('POST', '/runsync?wait=1000', { input: {} })
    expect([answer.statusCode, answer.json().status]).toEqual([200, 'IN_QUEUE'])
    expect((await status(answer.json().id)).status).toBe('IN_QUEUE')
  })

  it('answers 200 when the job is cancelled meanwhile', async () => {
    const answer = service.ask('POST', '/runsync', { input: {} })
    const job = await take()
    await service.ask('POST', `/cancel/${job.id}`)
    expect((await answer).json()).toMatchObject({ status: 'CANCELLED' })
  })
})

describe('GET /status', () => {
  it('tells the whole way of a job', async () => {
    const id = await submit()
    expect(await status(id)).toMatchObject({ status: 'IN_QUEUE', executionTime: 0, attempt: 1 })
    await take()
    expect(await status(id)).toMatchObject({ status: 'IN_PROGRESS', workerId: 'w1' })
    await done(id, { status: 'IN_PROGRESS', output: { percent: 40 } })
    expect(await status(id)).toMatchObject({ status: 'IN_PROGRESS', progress: { percent: 40 } })
    await done(id, { output: 'ready' })
    const record = await status(id)
    expect(record).toMatchObject({ status: 'COMPLETED', output: 'ready' })
    expect(record).not.toHaveProperty('progress')
    expect([record['delayTime'], record['executionTime']].every(Number.isInteger)).toBe(true)
  })

  it('moves the ttl, and is 404 from the moment it is past', async () => {
    const id = await submit()
    expect((await service.ask('GET', `/status/${id}?ttl=10000`)).statusCode).toBe(200)
    expect((await service.ask('GET', `/status/${id}?ttl=9999`)).json()).toMatchObject({
      code: 'FIELD_INVALID',
    })
  })
})

describe('GET /stream', () => {
  const chunk = (id: string, output: unknown): Promise<unknown> =>
    service.ask('POST', `/job-stream/w1/${id}?x=1`, { output })

  it('answers an array of new chunks with the status in a header, and drains', async () => {
    const id = await submit()
    await take()
    await chunk(id, 'one')
    await chunk(id, { two: 2 })
    const first = await service.ask('GET', `/stream/${id}`)
    expect(first.headers['x-job-status']).toBe('IN_PROGRESS')
    expect(first.json()).toMatchObject([
      { output: 'one', metrics: {}, index: 1 },
      { output: { two: 2 }, metrics: {}, index: 2 },
    ])
    await expect.poll(async () => (await service.ask('GET', `/stream/${id}?wait=0`)).json()).toEqual([])
    expect((await service.ask('GET', `/stream/${id}?after=1`)).json()).toMatchObject([{ index: 2 }])
    await done(id, { output: [] })
    const last = await service.ask('GET', `/stream/${id}`)
    expect([last.headers['x-job-status'], last.json()]).toEqual(['COMPLETED', []])
  })

  it('is held until there is a chunk', async () => {
    const id = await submit()
    await take()
    const held = service.ask('GET', `/stream/${id}?wait=20000`)
    await chunk(id, 'late')
    expect((await held).json()).toMatchObject([{ output: 'late' }])
    await done(id, { output: null })
  })
})

describe('POST /cancel, /retry and /purge-queue', () => {
  it('cancels a waiting job, and cancelling again answers the same', async () => {
    const id = await submit()
    for (const _ of [1, 2]) {
      expect((await service.ask('POST', `/cancel/${id}`)).json()).toEqual({ id, status: 'CANCELLED' })
    }
  })

  it('does not let a late result undo a cancel', async () => {
    const id = await submit()
    await take()
    await service.ask('POST', `/cancel/${id}`)
    await done(id, { output: 'late' })
    await done(id, { status: 'IN_PROGRESS', output: 1 })
    const record = await status(id)
    expect(record).toMatchObject({ status: 'CANCELLED', reason: 'cancelled' })
    expect(record).not.toHaveProperty('output')
  })

  it('tells the worker of a cancelled job to stop', async () => {
    const id = await submit()
    await take('stopped-worker')
    const stop = service.ask('GET', '/job-stop/stopped-worker?x=1')
    await service.ask('POST', `/cancel/${id}`)
    expect((await stop).json()).toEqual({ jobsToStop: [id] })
  })

  it('retries a failed job under its id with its input, and no other', async () => {
    const id = await submit({ input: { keep: 'me' } })
    await take()
    await done(id, { error: 'it broke' })
    expect(await status(id)).toMatchObject({
      status: 'FAILED',
      error: { code: 'HANDLER_ERROR', message: 'it broke' },
    })
    expect((await service.ask('POST', `/retry/${id}`)).json()).toEqual({ id, status: 'IN_QUEUE' })
    expect(await take()).toMatchObject({ id, input: { keep: 'me' } })
    await done(id, { output: 1 })
    const refused = await service.ask('POST', `/retry/${id}`)
    expect([refused.statusCode, refused.json()]).toEqual([
      409,
      {
        error: `Job ${id} is COMPLETED; only FAILED or TIMED_OUT jobs can be retried.`,
        code: 'WRONG_STATUS',
      },
    ])
  })

  it('purges what waits and says how many', async () => {
    await submit()
    await submit()
    expect((await service.ask('POST', '/purge-queue')).json()).toEqual({ removed: 2, status: 'completed' })
  })
})

describe('GET /health', () => {
  it('counts jobs and workers', async () => {
    const before = (await service.ask('GET', '/health')).json()
    const id = await submit()
    await take('health-worker')
    const after = (await service.ask('GET', '/health')).json()
    expect(after.jobs.inProgress).toBe(before.jobs.inProgress + 1)
    expect(after.workers.running).toBe(before.workers.running + 1)
    expect(Object.keys(after.jobs).toSorted()).toEqual([
      'completed',
      'failed',
      'inProgress',
      'inQueue',
      'retried',
    ])
    await done(id, { output: 1 }, 'health-worker')
  })
})

describe('keys', () => {
  it('are taken with Bearer and bare, in any case of the header', async () => {
    for (const headers of [
      { authorization: KEY },
      { authorization: `bearer ${KEY}` },
      { AUTHORIZATION: `Bearer ${KEY}` },
    ]) {
      const answer = await service.http.inject({ method: 'GET', url: '/v2/default/health', headers })
      expect(answer.statusCode).toBe(200)
    }
  })

  it('are asked for before anything else is looked at', async () => {
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: 'Bearer ' }]) {
      for (const url of ['/v2/default/run', '/v2/nope/run', '/v2/default/exchange/w1']) {
        const answer = await service.http.inject({ method: 'POST', url, headers, payload: '{' })
        expect([answer.statusCode, answer.json().code]).toEqual([401, 'UNAUTHORIZED'])
      }
    }
  })

  it('are not asked for by /healthz', async () => {
    expect((await service.http.inject('/healthz')).json()).toEqual({ status: 'ok' })
  })
})

describe('HEAD', () => {
  it('takes no job and reads no chunk: only GET and POST are served', async () => {
    const id = await submit()
    for (const path of ['/job-take/w1', `/stream/${id}`, '/health']) {
      const headers = { authorization: KEY }
      const answer = await service.http.inject({ method: 'HEAD', url: `/v2/default${path}`, headers })
      expect(answer.statusCode).toBe(404)
    }
    expect((await status(id)).status).toBe('IN_QUEUE')
  })
})

describe('secrets', () => {
  it('reach the worker and appear in no record, no reply and no log', async () => {
    const s3Config = {
      accessId: 'SECRET-ID',
      accessSecret: 'SECRET-KEY',
      bucketName: 'b',
      endpointUrl: 'https://s3.example.org',
    }
    const id = await submit({ input: {}, s3Config })
    expect(await take()).toMatchObject({ s3Config })
    await done(id, { output: 1 })
    const refused = await service.ask('POST', '/run', {
      input: {},
      s3Config: { ...s3Config, endpointUrl: 'SECRET-KEY' },
    })
    const seen = [JSON.stringify(await status(id)), refused.body, ...service.logged].join('\n')
    expect(refused.statusCode).toBe(400)
    expect(seen).not.toMatch(/SECRET-(ID|KEY)/)
    expect(seen).not.toContain(KEY)
  })
})
