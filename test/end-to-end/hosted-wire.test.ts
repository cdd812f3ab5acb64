import { describe, expect, it } from 'vitest'
import { fixture, KEY, longshore, serve, type Process, type Serving } from '../support/processes.ts'
import { startPlatform, type ScriptedPlatform } from '../support/scripted-platform.ts'

/** What the platform would set for a worker of this endpoint. */
function platformOf(endpointUrl: string): Record<string, string> {
  return {
    RUNPOD_WEBHOOK_GET_JOB: `${endpointUrl}/job-take/$ID?gpu=SIM`,
    RUNPOD_WEBHOOK_POST_OUTPUT: `${endpointUrl}/job-done/$RUNPOD_POD_ID/$ID?gpu=SIM`,
    RUNPOD_WEBHOOK_POST_STREAM: `${endpointUrl}/job-stream/$RUNPOD_POD_ID/$ID?gpu=SIM`,
    RUNPOD_WEBHOOK_PING: `${endpointUrl}/ping/$RUNPOD_POD_ID?gpu=SIM`,
    RUNPOD_PING_INTERVAL: '200',
    RUNPOD_AI_API_KEY: KEY,
    RUNPOD_POD_ID: 'pod-1',
    RUNPOD_ENDPOINT_ID: 'default',
  }
}

async function startHosted(
  endpointUrl: string,
  handler: string,
  options: { args?: string[]; env?: Record<string, string> } = {},
): Promise<Process> {
  const worker = longshore(['start', fixture(handler), ...(options.args ?? [])], {
    env: { ...platformOf(endpointUrl), LONGSHORE_LOG_LEVEL: 'debug', ...options.env },
  })
  await worker.says(/(ready after)/)
  return worker
}

/** The same on a platform that a test plays. */
function startScripted(platform: ScriptedPlatform, handler: string, args: string[] = []): Promise<Process> {
  const { take, done, stream, ping } = platform.urls
  const env = {
    RUNPOD_WEBHOOK_GET_JOB: take,
    RUNPOD_WEBHOOK_POST_OUTPUT: done,
    RUNPOD_WEBHOOK_POST_STREAM: stream,
    RUNPOD_WEBHOOK_PING: ping,
  }
  return startHosted(new URL(take).origin, handler, { args, env })
}

async function open(handler: string, args: string[] = []): Promise<Serving & { worker: Process }> {
  const server = await serve()
  return Object.assign(server, { worker: await startHosted(server.endpointUrl, handler, { args }) })
}

describe('longshore start with the variables of the hosted platform', () => {
  it('takes jobs one after the other and posts their outputs', async () => {
    const { client } = await open('echo.ts')
    for (const n of [1, 2, 3]) {
      const record = await client.runsync({ input: { text: 'hällo 😀', n } })
      expect(record).toMatchObject({
        status: 'COMPLETED',
        output: { text: 'hällo 😀', n },
        workerId: 'pod-1',
        attempt: 1,
      })
    }
  })

  it('keeps every slot busy', async () => {
    const { client } = await open('waits-for-abort.ts', ['--concurrency', '3'])
    const ids = await Promise.all([1, 2, 3, 4].map(async () => (await client.run({ input: {} })).id))
    await expect.poll(async () => (await client.health()).jobs).toMatchObject({ inProgress: 3, inQueue: 1 })
    for (const id of ids) await client.cancel(id)
  })

  it('fails a job with the type, the message and the stack of what was thrown', async () => {
    const { client } = await open('throws-what-is-asked.ts')
    expect(await client.runsync({ input: { kind: 'error' } })).toMatchObject({
      status: 'FAILED',
      error: {
        type: 'PaymentError',
        message: 'The card was declined.',
        stack: expect.stringContaining('throws-what-is-asked.ts'),
      },
    })
  })

  it('streams chunks in order, with their metrics, and ends with an empty list or the aggregate', async () => {
    const { endpointUrl, client, worker } = await open('yields.ts')
    const { id } = await client.run({ input: { values: ['a', { b: 1 }, 3] } })
    const chunks = []
    for await (const chunk of client.stream(id)) chunks.push(chunk.output)
    expect(chunks).toEqual(['a', { b: 1 }, 3])
    expect(await client.status(id)).toMatchObject({ status: 'COMPLETED', output: [] })
    const none = await client.runsync({ input: { values: [] } })
    expect(none).toMatchObject({ status: 'COMPLETED', output: [] })
    expect(await worker.kill('SIGTERM')).toBe(0)
    await startHosted(endpointUrl, 'yields-an-aggregate.ts')
    const record = await client.runsync({ input: {} })
    expect(record.output).toEqual(['a', { text: 'b' }])
    const stream = []
    for await (const chunk of client.stream(record.id)) stream.push(chunk)
    expect(stream).toMatchObject([{ output: 'a' }, { output: { text: 'b' }, metrics: { tokens: 1 } }])
  })

  it('shows progress while the job runs', async () => {
    const { client } = await open('stays-half-done.ts')
    const { id } = await client.run({ input: {} })
    await expect
      .poll(async () => await client.status(id))
      .toMatchObject({ status: 'IN_PROGRESS', progress: 'half' })
    await client.cancel(id)
  })

  it('ends a busy loop whose job is cancelled, posts nothing of it, and takes the next job', async () => {
    const { client, worker } = await open('busy-loop.ts', ['--kill-grace-ms', '100'])
    const { id } = await client.run({ input: { block: true } })
    await worker.says(/pid (\d+)/)
    await client.cancel(id)
    await worker.says(new RegExp(`${id}.*"reason":"cancelled"`))
    expect(await client.runsync({ input: {} })).toMatchObject({ status: 'COMPLETED', output: 'done' })
    expect((await client.status(id)).status).toBe('CANCELLED')
  })

  it('keeps a limit that the job brings, and none of its own', async () => {
    const platform = await startPlatform()
    platform.next('take', { json: { id: 'slow', input: { ms: 60_000 }, policy: { executionTimeout: 200 } } })
    await startScripted(platform, 'takes-a-while.ts', ['--kill-grace-ms', '100'])
    const { id, body } = await platform.nth('done', 1)
    expect([id, JSON.parse(JSON.parse(body).error)]).toEqual([
      'slow',
      expect.objectContaining({
        error_type: 'TimeoutError',
        error_message: expect.stringContaining('200 ms'),
      }),
    ])
  })

  it('asks to be recycled when the handler does', async () => {
    const platform = await startPlatform()
    platform.next(
      'take',
      { json: { id: 'one', input: { refresh: true } } },
      { json: { id: 'two', input: {} } },
    )
    await startScripted(platform, 'tells-its-process.ts')
    await platform.nth('done', 2)
    const bodies = platform.all('done').map(({ body }) => JSON.parse(body))
    expect(bodies).toEqual([
      { output: { pid: expect.any(Number) }, stopPod: true },
      { output: { pid: expect.any(Number) } },
    ])
  })

  it('asks to be recycled after every job when the definition does', async () => {
    const platform = await startPlatform()
    platform.next('take', { json: { id: 'one', input: {} } })
    await startScripted(platform, 'refreshes.ts')
    expect(JSON.parse((await platform.nth('done', 1)).body)).toEqual({
      output: expect.any(Number),
      stopPod: true,
    })
  })

  it('exits with 0 at once on SIGTERM while it is idle', async () => {
    const { worker, client } = await open('echo.ts')
    await client.runsync({ input: {} })
    const from = performance.now()
    expect(await worker.kill('SIGTERM')).toBe(0)
    expect(performance.now() - from).toBeLessThan(1_000)
  })

  it('finishes its job on SIGTERM and takes no other', async () => {
    const { worker, client } = await open('takes-a-while.ts')
    const running = (await client.run({ input: { ms: 500 } })).id
    await worker.says(/(began)/)
    const waiting = (await client.run({ input: { ms: 1 } })).id
    expect(await worker.kill('SIGTERM')).toBe(0)
    expect(await client.status(running)).toMatchObject({ status: 'COMPLETED', output: 'done' })
    expect((await client.status(waiting)).status).toBe('IN_QUEUE')
  })

  it('keeps a result that was made while the platform was away, and posts it', async () => {
    const first = await serve()
    const worker = await startHosted(first.endpointUrl, 'takes-a-while.ts')
    const { id } = await first.client.run({ input: { ms: 300 } })
    await worker.says(/(began)/)
    await first.kill('SIGKILL')
    await worker.says(/(queue cannot be reached)/)
    const { port } = new URL(first.endpointUrl)
    const second = await serve({ file: first.file, args: ['--port', port] })
    await expect
      .poll(async () => await second.client.status(id), { timeout: 10_000 })
      .toMatchObject({ status: 'COMPLETED', output: 'done', attempt: 1 })
    expect((await second.client.runsync({ input: { ms: 1 } })).status).toBe('COMPLETED')
  })

  it('shows the handler no key of the platform', async () => {
    const { client } = await open('shows-its-environment.ts')
    const { output } = await client.runsync({ input: {} })
    expect(output).toMatchObject({ RUNPOD_POD_ID: 'pod-1', RUNPOD_ENDPOINT_ID: 'default' })
    expect(output).not.toHaveProperty('RUNPOD_AI_API_KEY')
  })

  it('exits with 1 and a sentence when the platform does not know its key', async () => {
    const { endpointUrl } = await serve()
    const worker = longshore(['start', fixture('echo.ts')], {
      env: { ...platformOf(endpointUrl), RUNPOD_AI_API_KEY: 'wrong' },
    })
    expect(await worker.exit).toBe(1)
    expect(worker.stderr).toMatch(/refuses this worker.*Check RUNPOD_AI_API_KEY\./)
  })

  it('names every variable that is missing or wrong at once', async () => {
    const worker = longshore(['start', fixture('echo.ts')], {
      env: { RUNPOD_WEBHOOK_GET_JOB: 'nonsense', RUNPOD_PING_INTERVAL: 'soon' },
    })
    expect(await worker.exit).toBe(1)
    for (const name of ['GET_JOB', 'POST_OUTPUT', 'POST_STREAM']) {
      expect(worker.stderr).toContain(`RUNPOD_WEBHOOK_${name} must be`)
    }
    expect(worker.stderr).toContain('RUNPOD_PING_INTERVAL must be a whole number of ms')
  })
})
