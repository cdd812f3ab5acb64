import { existsSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { handlerEnv } from '../../src/worker/config.ts'
import { openExecutor, startExecutor, type TestExecutor } from '../support/test-executor.ts'

describe('what a handler returns', () => {
  let executor: TestExecutor
  beforeAll(async () => void (executor = await openExecutor('returns-what-is-asked.ts')))
  afterAll(() => executor.close())

  it.each([
    ['value', { sum: 3, list: [1, null, 'ö'] }],
    // Seen: the key was taken out of these as well, and they became objects of another form.
    ['array that asks for a refresh', [1, 2]],
    ['money that asks for a refresh', '2.5 EUR'],
    ['promise', { late: true }],
    ['nothing', null],
    ['promise of nothing', null],
    ['null', null],
    ['undefined member', { a: 1 }],
    ['shared', [{ used: 'twice' }, { used: 'twice' }]],
    ['date', '1970-01-01T00:00:00.000Z'],
    ['toJSON', { price: '2.5 EUR' }],
  ])('is the output: %s', async (kind, output) => {
    expect(await executor.outputOf({ kind })).toEqual(output)
  })

  it.each([
    ['undefined element', 'output[1] is undefined'],
    ['NaN', 'output.scores[1] is NaN'],
    ['Infinity', 'output["odd key"] is -Infinity'],
    ['BigInt', 'output.total is a BigInt'],
    ['function', 'output.items[0].run is a function'],
    // Seen: they were streamed, as only generators are said to be.
    ['iterator', 'output is an iterator'],
    ['iterator of my own', 'output.next is a function'],
    ['symbol', 'output is a symbol'],
    ['cycle', 'output.children[0].parent is a reference to an object it is part of'],
    ['Map', 'output.counts is a Map'],
    ['Set', 'output is a Set'],
    ['Buffer inside', 'output.image is bytes'],
  ])('fails the job with the path to what JSON cannot say: %s', async (kind, words) => {
    const error = await executor.errorOf({ kind })
    expect(error.code).toBe('OUTPUT_NOT_JSON')
    expect(error.message).toContain(words)
  })

  it('fails the job when it is bytes, and names the two ways to hand them out', async () => {
    const error = await executor.errorOf({ kind: 'Buffer' })
    expect(error).toMatchObject({
      code: 'OUTPUT_NOT_JSON',
      message: expect.stringMatching(/Yield.*upload/),
    })
  })

  it('may be 20 MB of JSON', async () => {
    expect(await executor.outputOf({ kind: 'largest' })).toHaveLength(19_999_998)
  })

  it('fails the job when it is larger, and says by how much', async () => {
    const error = await executor.errorOf({ kind: 'too large' })
    expect(error.code).toBe('OUTPUT_TOO_LARGE')
    expect(error.message).toContain(
      'The output is 20000002 bytes of JSON, more than the 20000000 that are kept.',
    )
  })
})

describe('what a handler throws', () => {
  let executor: TestExecutor
  beforeAll(async () => void (executor = await openExecutor('throws-what-is-asked.ts')))
  afterAll(() => executor.close())

  it.each([false, true])('is the error of the job, with its type and stack (late: %s)', async (late) => {
    const error = await executor.errorOf({ kind: 'error', late })
    expect(error).toMatchObject({
      type: 'PaymentError',
      message: 'The card was declined.',
      code: 'HANDLER_ERROR',
    })
    expect(error.stack).toContain('throws-what-is-asked.ts')
  })

  it.each([
    ['string', { type: 'string', message: 'out of paper' }],
    ['object', { type: 'object', message: '{"reason":"out of paper","tray":2}' }],
    ['number', { type: 'number', message: '42' }],
    ['null', { type: 'object', message: 'null' }],
    ['undefined', { type: 'undefined', message: 'undefined' }],
    ['cycle', { type: 'object', message: '[object Object]' }],
    ['BigInt', { type: 'bigint', message: '[object BigInt]' }],
  ])('need not be an error: %s', async (kind, error) => {
    expect(await executor.errorOf({ kind })).toEqual({ ...error, code: 'HANDLER_ERROR' })
  })

  it.each(['revoked proxy', 'error with a throwing getter'])('need not be readable: %s', async (kind) => {
    expect(await executor.errorOf({ kind })).toMatchObject({
      message: expect.stringContaining('cannot be read'),
      code: 'HANDLER_ERROR',
    })
  })

  it('is cut when it is very long', async () => {
    const { message, stack } = await executor.errorOf({ kind: 'long message' })
    expect(message).toBe(`${'x'.repeat(32_000)}…`)
    expect(stack?.length).toBeLessThanOrEqual(32_001)
  })

  // Seen: the supervisor took such an error for a broken message and ended the process of all its jobs.
  it.each([
    ['error without a name', 'nameless'],
    ['error with a stack of its own', 'odd'],
    ['error with an object for a message', 'odd'],
  ])('may be odd in any way: %s', async (kind, words) => {
    const error = await executor.errorOf({ kind })
    expect(error).toMatchObject({ code: 'HANDLER_ERROR', type: expect.any(String) })
    expect(error.message).toContain(words)
  })
})

describe('what a handler is given', () => {
  it('is the job as it was submitted, the attempt and a signal that has not aborted', async () => {
    const executor = await startExecutor('shows-its-job.ts')
    const policy = { lowPriority: true, ttl: 20_000, executionTimeout: 6000 }
    const s3Config = {
      accessId: 'a',
      accessSecret: 'b',
      bucketName: 'c',
      endpointUrl: 'https://s3.example.com',
    }
    const input = Buffer.from('{"n": 1.0, "__proto__": {"a": 1}}')
    expect(await executor.outputOf({}, { id: 'job-7', attempt: 2, policy, s3Config, input })).toEqual({
      job: { id: 'job-7', input: JSON.parse(input.toString()) as unknown, policy, s3Config },
      attempt: 2,
      isAborted: false,
    })
    expect(await executor.outputOf({}, { id: 'job-8' })).not.toHaveProperty('job.s3Config')
  })

  it('is checked by its schema first, and a job that does not fit fails with every problem', async () => {
    const executor = await startExecutor('with-definition.ts')
    const error = await executor.errorOf({ name: '', times: 7 })
    expect(error).toMatchObject({ code: 'INVALID_INPUT', type: 'InputError' })
    expect(error.message).toContain('input.name: ')
    expect(error.message).toContain('input.times: ')
    expect(error.message).toMatch(/\.$/)
    expect(error).not.toHaveProperty('stack')
    expect(await executor.outputOf({ name: 'you', times: 2 })).toMatchObject({
      greeting: 'hello you hello you',
    })
  })

  it('has an environment without the keys of the queue', async () => {
    const env = {
      ...process.env,
      MODEL: 'base',
      LONGSHORE_WORKER_TOKEN: 't0p-s3cret',
      LONGSHORE_API_KEY: 't0p-s3cret',
    }
    const executor = await startExecutor('shows-its-environment.ts', { env: handlerEnv(env) })
    const seen = (await executor.outputOf()) as Record<string, string>
    expect(seen['MODEL']).toBe('base')
    expect(Object.keys(seen)).not.toContain('LONGSHORE_WORKER_TOKEN')
    expect(Object.values(seen)).not.toContain('t0p-s3cret')
  })
})

describe('progress', () => {
  it('is passed on value by value', async () => {
    const executor = await startExecutor('reports-progress.ts')
    const run = executor.run({ progress: [0, { page: 1, of: 2 }, 'done', null] })
    expect(await run.outcome).toMatchObject({ kind: 'completed' })
    expect(run.progress).toEqual([0, { page: 1, of: 2 }, 'done', null])
  })

  it('fails the job when JSON cannot say it or it is over 64 kB', async () => {
    const executor = await startExecutor('reports-progress.ts')
    const notJson = await executor.errorOf({ kind: 'NaN' })
    expect(notJson).toMatchObject({ code: 'OUTPUT_NOT_JSON' })
    expect(notJson.message).toContain('progress.percent is NaN')
    const tooLarge = await executor.errorOf({ kind: 'too large' })
    expect(tooLarge.message).toContain('64002 bytes of JSON, more than 64000')
  })
})

describe('the log', () => {
  it('has the lines of a handler with their level, fields and job, and what it writes by itself', async () => {
    const executor = await startExecutor('logs.ts')
    expect(await executor.outputOf({}, { id: 'job-7' })).toBe('logged')
    expect(executor.logs.all).toMatchObject([
      { id: 'job-7', level: 'debug', fields: {}, message: 'a detail' },
      { id: 'job-7', level: 'info', fields: { page: 3 }, message: 'a fact' },
      { id: 'job-7', level: 'warn', fields: {}, message: 'a warning' },
      { id: 'job-7', level: 'error', fields: { code: 'E' }, message: '' },
    ])
    await executor.lines.first(({ stream, line }) => stream === 'stdout' && line === 'to stdout')
    await executor.lines.first(({ stream, line }) => stream === 'stderr' && line === 'to stderr')
  })

  describe('of a careless handler', () => {
    let executor: TestExecutor
    beforeAll(async () => void (executor = await openExecutor('logs-carelessly.ts')))
    afterAll(() => executor.close())

    // Seen: some of these were taken for broken messages, and the process of all its jobs was ended.
    it.each([
      'null',
      'undefined',
      'number',
      'array',
      'error',
      'number as message',
      'cycle',
      'BigInt',
      'revoked proxy',
      'date',
      'no date',
      'toJSON of nothing',
      'toJSON of a list',
      'boxed',
      'symbol',
      'function',
      'two megabytes',
    ])('takes whatever it is given, without harm to the job: %s', async (kind) => {
      expect(await executor.run({ kind }).outcome).toMatchObject({ kind: 'completed' })
    })

    it('tells a value that has no fields as one', async () => {
      const before = executor.logs.all.length
      await executor.run({ kind: 'date' }).outcome
      expect(executor.logs.all[before]?.fields).toEqual({ value: '1970-01-01T00:00:00.000Z' })
    })

    it('masks secrets wherever they are', async () => {
      const before = executor.logs.all.length
      await executor.run({ kind: 'nested secrets' }).outcome
      const said = JSON.stringify(executor.logs.all.slice(before))
      expect(said).toContain('[masked]')
      expect(said).not.toContain('hush')
    })

    it('says of an error what it is', async () => {
      const before = executor.logs.all.length
      await executor.run({ kind: 'error' }).outcome
      expect(JSON.stringify(executor.logs.all.slice(before))).toContain('caught')
    })
  })
})

describe('the scratch folder', () => {
  const waitUntilGone = (dir: string): Promise<boolean> =>
    vi.waitUntil(() => !existsSync(dir), { timeout: 3000 })

  // Seen: a timer that outlived its job made the folder anew, and nobody removed it.
  it('is not made once the job has ended', async () => {
    const executor = await startExecutor('asks-late-for-its-folder.ts')
    expect(await executor.outputOf({})).toBe('returned')
    const { line } = await executor.lines.first((said) => said.line.startsWith('folder '))
    expect(existsSync(line.slice('folder '.length))).toBe(false)
    expect(line).toMatch(/longshore-\d+-/)
  })

  it('is made at first use and removed after the job', async () => {
    const executor = await startExecutor('uses-scratch-dir.ts')
    const seen = (await executor.outputOf({ use: true })) as { dir: string; files: string[] }
    expect(seen).toMatchObject({ same: true, exists: true, files: ['part.bin'] })
    await waitUntilGone(seen.dir)
  })

  it('is not made when nobody asks for it', async () => {
    const executor = await startExecutor('uses-scratch-dir.ts')
    const before = readdirSync(tmpdir()).filter((name) => name.startsWith(`longshore-${process.pid}-`))
    await executor.outputOf({})
    expect(readdirSync(tmpdir()).filter((name) => name.startsWith(`longshore-${process.pid}-`))).toEqual(
      before,
    )
  })

  it('is a new one for each job', async () => {
    const executor = await startExecutor('uses-scratch-dir.ts')
    const outputs = await Promise.all([executor.outputOf({ use: true }), executor.outputOf({ use: true })])
    const dirs = outputs.map((output) => (output as { dir: string }).dir)
    expect(dirs[0]).not.toBe(dirs[1])
    await Promise.all(dirs.map(waitUntilGone))
  })

  it.each(['throw', 'exit', 'stay'])('is removed when the job ends otherwise: %s', async (end) => {
    const executor = await startExecutor('uses-scratch-dir.ts', { killGraceMs: 50 })
    const run = executor.run({ use: true, end })
    const { fields } = await executor.logs.first(({ message }) => message === 'scratch')
    if (end === 'stay') run.abort('cancelled')
    await run.outcome
    await waitUntilGone(fields['dir'] as string)
  })
})

describe('many jobs at once', () => {
  it('run side by side in one process and do not get mixed up', async () => {
    const executor = await startExecutor('counts.ts')
    const runs = Array.from({ length: 50 }, (_, to) => executor.run({ to }, { id: `job-${to}` }))
    const outcomes = await Promise.all(runs.map(({ outcome }) => outcome))
    expect(outcomes.every(({ kind }) => kind === 'completed')).toBe(true)
    for (const [to, { values }] of runs.entries())
      expect(values).toEqual(Array.from({ length: to }, (_, n) => n + 1))
  })
})
