// A worker of the hosted platform, as its traces show it.

import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startTestService, type TestService } from '../support/service.ts'

let service: TestService
beforeEach(async () => {
  service = await startTestService()
})
afterEach(() => service.close())

const FORM = { 'content-type': 'application/x-www-form-urlencoded', charset: 'utf-8' }
const submit = async (body: unknown = { input: {} }): Promise<string> =>
  (await service.ask('POST', '/run', body)).json<{ id: string }>().id
const status = async (id: string): Promise<Record<string, unknown>> =>
  (await service.ask('GET', `/status/${id}`)).json()
const done = (id: string, body: string, worker = 'w1'): Promise<{ statusCode: number }> =>
  service.ask('POST', `/job-done/${worker}/${id}?gpu=SIM&isStream=false`, body, FORM)

describe('a foreign worker', () => {
  it('takes a job, with its empty input, and posts a result labelled as a form', async () => {
    const id = await submit()
    await service.ask('GET', '/ping/w1?gpu=SIM&runpod_version=unknown')
    const taken = await service.ask('GET', '/job-take/w1?gpu=SIM&job_in_progress=0')
    expect(taken.headers['content-type']).toContain('application/json')
    expect(taken.json()).toMatchObject({ id, input: {} })
    expect((await done(id, '{"output": {"a": 1}}')).statusCode).toBe(200)
    expect(await status(id)).toMatchObject({ status: 'COMPLETED', output: { a: 1 } })
  })

  it('fails its job by an error of any shape, however deep', async () => {
    const id = await submit()
    await service.ask('GET', '/job-take/w1?gpu=SIM&job_in_progress=0')
    const deep = '['.repeat(200_000) + ']'.repeat(200_000)
    expect((await done(id, `{"error":${deep}}`)).statusCode).toBe(200)
    expect(await status(id)).toMatchObject({ status: 'FAILED', error: { code: 'HANDLER_ERROR' } })
  })

  it('takes a batch, and one job where the URL has no question mark', async () => {
    const ids = [await submit(), await submit(), await submit()]
    const batch = await service.ask('GET', '/job-take-batch/w1?batch_size=2&job_in_progress=0')
    expect(batch.json().map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 2))
    expect((await service.ask('GET', '/job-take/w1&job_in_progress=0')).json().id).toBe(ids[2])
    expect((await done(`${ids[2]}&isStream=false`.split('&')[0] ?? '', '{"output":1}')).statusCode).toBe(200)
  })

  it('streams pieces and ends with the aggregate', async () => {
    const id = await submit()
    await service.ask('GET', '/job-take/w1?x=1')
    for (const n of [0, 1]) {
      await service.ask(
        'POST',
        `/job-stream/w1/${id}?isStream=false`,
        `{"output": {"i": ${n}}, "metrics": {"tokens": ${n}}}`,
        FORM,
      )
    }
    await done(id, '{"output": [{"i": 0}, {"i": 1}]}')
    expect((await service.ask('GET', `/stream/${id}`)).json()).toMatchObject([
      { output: { i: 0 }, metrics: { tokens: 0 }, index: 1 },
      { output: { i: 1 }, metrics: { tokens: 1 }, index: 2 },
    ])
    expect((await status(id)).output).toEqual([{ i: 0 }, { i: 1 }])
  })

  it('has a piece split that is too large for one chunk', async () => {
    const id = await submit()
    await service.ask('GET', '/job-take/w1?x=1')
    await service.ask('POST', `/job-stream/w1/${id}`, JSON.stringify({ output: 'é'.repeat(900_000) }), FORM)
    const chunks = (await service.ask('GET', `/stream/${id}`)).json<{ output: string; part: unknown }[]>()
    expect(chunks.map(({ output }) => output).join('')).toBe('é'.repeat(900_000))
    expect(chunks.map(({ part }) => part)).toEqual([
      { as: 'text', first: 1, last: false },
      { as: 'text', first: 1, last: true },
    ])
  })

  const failures: [what: string, body: string, error: object][] = [
    [
      'its JSON error',
      '{"error": "{\\"error_type\\": \\"<class \'ValueError\'>\\", \\"error_message\\": \\"bad\\", \\"error_traceback\\": \\"line 1\\"}"}',
      { type: 'ValueError', message: 'bad', stack: 'line 1', code: 'HANDLER_ERROR' },
    ],
    [
      'a plain text',
      '{"error": "handler: no"}',
      { type: 'Error', message: 'handler: no', code: 'HANDLER_ERROR' },
    ],
    [
      'a truthy error that is no text',
      '{"error": {"why": 1}}',
      { type: 'Error', message: '{"why": 1}', code: 'HANDLER_ERROR' },
    ],
    ['a NaN', '{"output": {"x": NaN}}', { code: 'OUTPUT_NOT_JSON' }],
    ['no object', '[1]', { code: 'OUTPUT_NOT_JSON' }],
  ]
  for (const [what, body, error] of failures) {
    it(`fails its job with ${what}`, async () => {
      const id = await submit()
      await service.ask('GET', '/job-take/w1?x=1')
      expect((await done(id, body)).statusCode).toBe(200)
      expect(await status(id)).toMatchObject({ status: 'FAILED', error })
    })
  }

  it('completes its job without an output, and with a falsy error', async () => {
    for (const body of ['{}', '{"output": null, "error": ""}']) {
      const id = await submit()
      await service.ask('GET', '/job-take/w1?x=1')
      await done(id, body)
      expect((await status(id)).status).toBe('COMPLETED')
    }
  })

  it('changes nothing for a job it does not hold, and is answered 200', async () => {
    const id = await submit()
    await service.ask('GET', '/job-take/w1?x=1')
    expect((await done(id, '{"output": 1}', 'w2')).statusCode).toBe(200)
    expect((await done('nope', '{"output": 1}')).statusCode).toBe(200)
    expect((await status(id)).status).toBe('IN_PROGRESS')
  })

  it('is told to stop until its pings no longer list the job', async () => {
    const id = await submit()
    await service.ask('GET', '/job-take/w1?x=1')
    await service.ask('POST', `/cancel/${id}`)
    expect((await service.ask('GET', '/job-stop/w1?x=1')).json()).toEqual({ jobsToStop: [id] })
    await service.ask('GET', `/ping/w1?job_id=${id}`)
    expect((await service.ask('GET', '/job-stop/w1?x=1')).json()).toEqual({ jobsToStop: [id] })
  })
})

describe('what a foreign worker posts over a limit', () => {
  it('fails its job when the metrics of a piece are too many, and is 413 when its progress is', async () => {
    const id = await submit()
    await service.ask('GET', '/job-take/w1?x=1')
    const large = JSON.stringify('x'.repeat(64_000))
    const progress = await service.ask(
      'POST',
      `/job-done/w1/${id}`,
      `{"status":"IN_PROGRESS","output":${large}}`,
      FORM,
    )
    expect([progress.statusCode, progress.json().code]).toEqual([413, 'BODY_TOO_LARGE'])
    expect((await status(id)).status).toBe('IN_PROGRESS')
    await service.ask('POST', `/job-stream/w1/${id}`, `{"output":1,"metrics":{"m":${large}}}`, FORM)
    expect(await status(id)).toMatchObject({ status: 'FAILED', error: { code: 'OUTPUT_TOO_LARGE' } })
  })

  it('fails its job when its result is larger than is read or kept', async () => {
    for (const bytes of [20_000_001, 26_000_000]) {
      const id = await submit()
      await service.ask('GET', '/job-take/w1?x=1')
      await done(id, `{"output":"${'x'.repeat(bytes - 2)}"}`)
      expect(await status(id)).toMatchObject({ status: 'FAILED', error: { code: 'OUTPUT_TOO_LARGE' } })
    }
  })
})
