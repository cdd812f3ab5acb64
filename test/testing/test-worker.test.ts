import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { chunk, defineHandler, type JobContext } from '../../src/worker/define-handler.ts'
import { createTestWorker, TestJobError } from '../../src/testing/test-worker.ts'
import { temporaryDir } from '../support/processes.ts'

/** What a file keeps that takes it by name when it is imported, before any test fakes it. */
const realTimeout = setTimeout

describe('a test worker', () => {
  it('runs a function and gives what a client would get', async () => {
    const worker = createTestWorker((job: { input: { at: Date } }) => ({
      at: new Date(0),
      input: job.input,
      gone: undefined,
    }))
    expect(await worker.run({ at: new Date(0) })).toEqual({
      status: 'COMPLETED',
      output: { at: '1970-01-01T00:00:00.000Z', input: { at: '1970-01-01T00:00:00.000Z' } },
      chunks: [],
      values: [],
      progress: [],
      logs: [],
      refresh: false,
    })
  })

  it('runs what defineHandler made: its setup once, its schema for every job', async () => {
    let setups = 0
    const worker = createTestWorker(
      defineHandler({
        input: z.object({ n: z.number() }),
        setup: () => void (setups += 1),
        handler: (job) => job.input.n * 2,
      }),
    )
    expect((await worker.run({ n: 2 })).output).toBe(4)
    expect((await worker.run({ n: 'two' })).error).toMatchObject({ code: 'INVALID_INPUT' })
    expect(setups).toBe(1)
  })

  it('records progress, logs with secrets masked, metrics, and a wish for a fresh process', async () => {
    const s3Config = {
      accessId: 'id-id',
      accessSecret: 'hush-hush',
      bucketName: 'b',
      endpointUrl: 'http://h',
    }
    const worker = createTestWorker(async function* (job, context: JobContext) {
      context.progress({ percent: 50 })
      context.log.warn({ config: job.s3Config }, `it is ${job.s3Config?.accessSecret}`)
      yield chunk('a', { tokens: 1 })
      yield 'b'
      return { refresh_worker: true, done: true }
    })
    const result = await worker.run({}, { s3Config })
    expect(result).toMatchObject({
      output: { done: true },
      progress: [{ percent: 50 }],
      logs: [{ level: 'warn', message: 'it is [masked]' }],
      chunks: [
        { index: 1, output: 'a', metrics: { tokens: 1 } },
        { index: 2, output: 'b', metrics: {} },
      ],
      refresh: true,
    })
    expect(JSON.stringify(result)).not.toContain('hush')
  })

  it('fails as a job does', async () => {
    const thrown = createTestWorker(() => {
      throw new RangeError('too far')
    })
    expect(await thrown.run({})).toMatchObject({
      status: 'FAILED',
      error: { type: 'RangeError', message: 'too far', code: 'HANDLER_ERROR' },
    })
    expect((await createTestWorker(() => ({ n: 1n })).run({})).error?.message).toContain(
      'output.n is a BigInt',
    )
  })

  it('gives a folder in place of the bucket, beside what the environment says', async () => {
    const localBucket = temporaryDir()
    writeFileSync(join(localBucket, 'in.txt'), 'as it was')
    vi.stubEnv('BUCKET_ENDPOINT_URL', 'http://127.0.0.1:9')
    onTestFinished(() => void vi.unstubAllEnvs())
    const worker = createTestWorker(async (_job, { s3 }: JobContext) => {
      const { path } = (await s3?.download('in.txt')) ?? { path: '' }
      return s3?.uploadFile(path, { contentType: 'text/plain' })
    })
    const s3Config = {
      accessId: 'id-id',
      accessSecret: 'hush-hush',
      bucketName: 'b',
      endpointUrl: 'http://127.0.0.1:9',
      objectPath: 'mine',
    }
    const { output } = await worker.run({}, { id: 'one', localBucket, s3Config })
    const file = join(localBucket, 'mine', 'one', 'in.txt')
    expect(output).toEqual({ key: 'mine/one/in.txt', url: pathToFileURL(file).href, bytes: 9 })
    expect(readFileSync(file, 'utf8')).toBe('as it was')
    expect((await worker.run({}, { localBucket })).output).toMatchObject({
      key: expect.stringMatching(/^test-\d+\/in\.txt$/),
    })
    expect((await createTestWorker((_job, { s3 }: JobContext) => s3 === undefined).run({})).output).toBe(true)
  })

  it('streams chunks as they are made, and throws the error after them', async () => {
    let isOver = false
    const worker = createTestWorker(async function* () {
      yield 'x'.repeat(1_500_000)
      yield 'second'
      await pause(20)
      isOver = true
      throw new Error('broke off')
    })
    const outputs: unknown[] = []
    const read = async (): Promise<void> => {
      for await (const { output } of worker.stream({})) {
        if (output === 'second') expect(isOver).toBe(false)
        outputs.push(output)
      }
    }
    const error: unknown = await read().catch((cause: unknown) => cause)
    expect(error).toBeInstanceOf(TestJobError)
    expect(error).toMatchObject({ message: 'broke off', code: 'HANDLER_ERROR', result: { status: 'FAILED' } })
    expect(outputs.slice(-2)).toEqual([
      'second',
      { error: expect.objectContaining({ message: 'broke off' }) },
    ])
    expect((error as TestJobError).result.values[0]).toHaveLength(1_500_000)
  })

  // Seen: it stopped at the twenty-thousandth value, having given back less room than was taken.
  it('streams any number of values', async () => {
    const worker = createTestWorker(function* () {
      for (let n = 0; n < 30_000; n += 1) yield n
    })
    expect((await worker.run(undefined)).values).toHaveLength(30_000)
  })

  // Seen: leaving the loop ended the test's process with an unhandled rejection, and the handler went on for ever.
  it('cancels the job of whoever stops reading, and has its generator end', async () => {
    const ends: string[] = []
    const worker = createTestWorker(async function* (_job, { signal }: JobContext) {
      try {
        for (let n = 0; ; n += 1) {
          yield n
          await pause(1)
        }
      } finally {
        ends.push(signal.reason instanceof DOMException ? signal.reason.message : 'no reason')
      }
    })
    for await (const { output } of worker.stream({})) if (output === 2) break
    expect(ends).toEqual(['cancelled'])
  })

  // Seen: each of these rejected.
  it('fails the job whose input is no JSON, and every job when setup() throws', async () => {
    const worker = createTestWorker(() => 1)
    expect(await worker.run({ n: 1n })).toMatchObject({ status: 'FAILED', error: { code: 'INVALID_INPUT' } })
    const broken = createTestWorker(
      defineHandler({
        setup() {
          throw new Error('no model')
        },
        handler: () => 1,
      }),
    )
    for (let round = 0; round < 2; round += 1) {
      expect(await broken.run({})).toMatchObject({
        status: 'FAILED',
        error: { type: 'Error', message: 'no model', code: 'SETUP_FAILED' },
      })
    }
  })

  // Seen: the policy said so, and nothing kept to it.
  it('stops a job at its executionTimeout', async () => {
    const worker = createTestWorker(async (_job, { signal }: JobContext) => {
      await pause(10_000, undefined, { signal })
    })
    const from = performance.now()
    expect(await worker.run({}, { executionTimeout: 50 })).toMatchObject({
      status: 'TIMED_OUT',
      error: { code: 'TIMED_OUT' },
    })
    expect(performance.now() - from).toBeLessThan(3_000)
    expect((await createTestWorker(() => 1).run({}, { executionTimeout: 50 })).status).toBe('COMPLETED')
  })

  it('takes any value in its log', async () => {
    const worker = createTestWorker((_job, { log }: JobContext) => {
      log.info(new Date(0) as unknown as Record<string, unknown>)
      return 1
    })
    expect(await worker.run({})).toMatchObject({
      status: 'COMPLETED',
      logs: [{ fields: { value: '1970-01-01T00:00:00.000Z' } }],
    })
  })

  it('removes the scratch folder', async () => {
    const dir: string[] = []
    const worker = createTestWorker((_job, { scratchDir }) => void dir.push(scratchDir))
    await worker.run({})
    expect(existsSync(dir[0] ?? '')).toBe(false)
  })
})

describe('a stop after some time', () => {
  const waiting = createTestWorker(async (job: { input: { ms: number } }, { signal, log }) => {
    const from = Date.now()
    await readFile(new URL(import.meta.url))
    await pause(job.input.ms, undefined, { signal }).catch(() => undefined)
    log.info(`${signal.aborted ? signal.reason.message : 'in time'} after ${Date.now() - from} ms`)
    return 'returned'
  })

  it.each([
    ['cancelAfter', 'CANCELLED', 'cancelled'],
    ['timeoutAfter', 'TIMED_OUT', 'timeout'],
  ] as const)('%s: is seen by the handler at its time, and takes none', async (method, status, reason) => {
    const from = performance.now()
    const result = await waiting[method](3_600_000).run({ ms: 7_200_000 })
    expect(performance.now() - from).toBeLessThan(5_000)
    expect(result.status).toBe(status)
    expect(result.output).toBeUndefined()
    expect(result.logs[0]?.message).toMatch(new RegExp(`^${reason} after 36\\d{5} ms$`))
  })

  it('does not stop a job that ends before it, nor the next one', async () => {
    expect(await waiting.cancelAfter(60_000).run({ ms: 30_000 })).toMatchObject({
      status: 'COMPLETED',
      output: 'returned',
      logs: [{ message: expect.stringMatching(/^in time after 30\d{3} ms$/) }],
    })
    expect((await waiting.run({ ms: 1 })).status).toBe('COMPLETED')
  })

  it('does not wait for a handler that ignores it', async () => {
    const stubborn = createTestWorker(() => new Promise((resolve) => setInterval(() => resolve, 1_000)))
    expect(await stubborn.timeoutAfter(100).run({})).toMatchObject({
      status: 'TIMED_OUT',
      error: { code: 'TIMED_OUT' },
    })
  })

  it('lets a program that the handler started take its real time', async () => {
    const worker = createTestWorker(async () => (await promisify(execFile)('sleep', ['0.2'])).stdout)
    expect((await worker.timeoutAfter(60_000).run({})).status).toBe('COMPLETED')
  })

  // Seen: such a handler was cancelled fifteen seconds later in no time, having waited for twenty milliseconds.
  it.each([
    ['a timer from before', async () => void (await new Promise((done) => realTimeout(done, 20)))],
    [
      'AbortSignal.timeout',
      () => new Promise((done) => AbortSignal.timeout(20).addEventListener('abort', done)),
    ],
    [
      'a thread',
      () =>
        new Promise((done) => {
          const code = 'setTimeout(() => require("node:worker_threads").parentPort.postMessage(1), 20)'
          new Worker(code, { eval: true }).on('message', done)
        }),
    ],
  ] as [string, () => Promise<unknown>][])(
    'does not come before what takes its real time: %s',
    async (_, wait) => {
      const worker = createTestWorker(async () => {
        await wait()
        return 'in time'
      })
      expect(await worker.cancelAfter(15_000).run({})).toMatchObject({
        status: 'COMPLETED',
        output: 'in time',
      })
    },
  )

  it('does not wait for ever for a real timer that never ends', async () => {
    const worker = createTestWorker((_job, { signal }: JobContext) => {
      const timer = realTimeout(() => undefined, 60_000)
      return new Promise((done) => signal.addEventListener('abort', done)).finally(() => clearTimeout(timer))
    })
    expect((await worker.cancelAfter(15_000).run({})).status).toBe('CANCELLED')
  })

  // Seen: the second one rejected, as the timers were fake already.
  // Seen: the timers of the other run were fake as well while it began, and gone when they were due: it never ended.
  it('takes turns with runs that have no stop, whichever was first', async () => {
    const beside = createTestWorker(async () => {
      const from = performance.now()
      await new Promise((resolve) => setTimeout(resolve, 50))
      return performance.now() - from
    })
    const results = await Promise.all([
      beside.run({}),
      waiting.cancelAfter(60_000).run({ ms: 90_000 }),
      beside.run({}),
      waiting.run({ ms: 10_000 }, { executionTimeout: 50 }),
      beside.run({}),
    ])
    expect(results.map(({ status }) => status)).toEqual([
      'COMPLETED',
      'CANCELLED',
      'COMPLETED',
      'TIMED_OUT',
      'COMPLETED',
    ])
    for (const { output } of results.filter(({ status }) => status === 'COMPLETED'))
      expect(output).toBeGreaterThan(45)
  })

  it('waits for a run that began meanwhile on behalf of another one', async () => {
    const outer = createTestWorker(async () => {
      const stopped = waiting.cancelAfter(1_000).run({ ms: 5_000 })
      const { status } = await createTestWorker(async () => 'inner').run({})
      return { status, stopped: stopped instanceof Promise }
    })
    expect((await outer.run({})).output).toEqual({ status: 'COMPLETED', stopped: true })
    expect((await waiting.run({ ms: 0 })).status).toBe('COMPLETED')
  })

  it('stops several runs in turn', async () => {
    const results = await Promise.all([
      waiting.cancelAfter(1_000).run({ ms: 5_000 }),
      waiting.timeoutAfter(1_000).run({ ms: 5_000 }),
    ])
    expect(results.map(({ status }) => status)).toEqual(['CANCELLED', 'TIMED_OUT'])
  })

  it('gives back the clocks of the process', async () => {
    await waiting.cancelAfter(1_000).run({ ms: 5_000 })
    const from = performance.now()
    await pause(30)
    expect(performance.now() - from).toBeGreaterThanOrEqual(25)
  })
})
