import { describe, expect, it } from 'vitest'
import { fixture, KEY, longshore, serve, startWorker, type Process } from '../support/processes.ts'

async function healthUrl(worker: Process): Promise<string> {
  return `http://127.0.0.1:${await worker.says(/"healthPort":(\d+)/)}`
}

async function healthAt(url: string): Promise<{ code: number; body: Record<string, unknown> }> {
  const answer = await fetch(`${url}/health`)
  return { code: answer.status, body: (await answer.json()) as Record<string, unknown> }
}

describe('a worker with a health port', () => {
  it('is well while its loop turns, counts what it does, and says when the queue is away', async () => {
    const server = await serve()
    const worker = await startWorker(server.endpointUrl, fixture('takes-a-while.ts'), ['--health-port', '0'])
    const url = await healthUrl(worker)
    await server.client.runsync({ input: { ms: 1 } })
    const running = await server.client.run({ input: { ms: 60_000 } })
    await expect.poll(async () => (await healthAt(url)).body['running']).toBe(1)
    const well = await healthAt(url)
    expect(well.code).toBe(200)
    expect(well.body).toMatchObject({
      status: 'ok',
      queue: 'reachable',
      lastAnswerMs: expect.any(Number),
      concurrency: 1,
      running: 1,
      jobs: 1,
      executors: { ready: 1 },
    })
    const metrics = await (await fetch(`${url}/metrics`)).text()
    expect(metrics).toContain('longshore_worker_jobs_total{outcome="completed"} 1')
    expect(metrics).toContain('longshore_worker_jobs_running 1')
    expect(metrics).toContain('longshore_worker_job_seconds_count 1')
    expect((await fetch(`${url}/else`)).status).toBe(404)
    await server.client.cancel(running.id)
    await server.kill('SIGKILL')
    await expect.poll(async () => (await healthAt(url)).body['queue']).toBe('unreachable')
    expect((await healthAt(url)).code).toBe(200)
  })

  it('is not well before its handler is ready, nor while it leaves', async () => {
    const { endpointUrl, client } = await serve()
    const starting = longshore(['start', fixture('never-ready.ts'), '--health-port', '0'], {
      env: { LONGSHORE_ENDPOINT_URL: endpointUrl, LONGSHORE_WORKER_TOKEN: KEY },
    })
    expect(await healthAt(await healthUrl(starting))).toEqual({ code: 503, body: { status: 'starting' } })
    const worker = await startWorker(endpointUrl, fixture('takes-a-while.ts'), ['--health-port', '0'])
    await client.run({ input: { ms: 2_000 } })
    await worker.says(/(began)/)
    worker.child.kill('SIGTERM')
    const url = await healthUrl(worker)
    await worker.says(/(takes no more jobs)/)
    expect(await healthAt(url)).toMatchObject({ code: 503, body: { status: 'leaving' } })
    expect(await worker.exit).toBe(0)
  })

  it('exits with 1 and a sentence when the port is in use', async () => {
    const { endpointUrl } = await serve()
    const { port } = new URL(endpointUrl)
    const worker = longshore(['start', fixture('echo.ts'), '--health-port', port], {
      env: { LONGSHORE_ENDPOINT_URL: endpointUrl, LONGSHORE_WORKER_TOKEN: KEY },
    })
    expect(await worker.exit).toBe(1)
    expect(worker.stderr).toMatch(/cannot listen on 127\.0\.0\.1:\d+ for --health-port/)
  })
})

describe('the trace of a submission', () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

  it('reaches the handler, and its spans where it traces', async () => {
    const { endpointUrl, client } = await serve()
    await startWorker(endpointUrl, fixture('traces.ts'))
    const submit = async (headers: Record<string, string>): Promise<unknown> => {
      const answer = await fetch(`${endpointUrl}/runsync?wait=10000`, {
        method: 'POST',
        headers: { authorization: KEY, ...headers },
        body: '{"input":{}}',
      })
      return ((await answer.json()) as { output: unknown }).output
    }
    expect(await submit({ traceparent, tracestate: 'vendor=1' })).toMatchObject({
      trace: { traceparent, tracestate: 'vendor=1' },
      spanTraceId: '0af7651916cd43dd8448eb211c80319c',
      parentSpanId: 'b7ad6b7169203331',
    })
    const none = { trace: null, spanTraceId: expect.not.stringContaining('0af7651916'), parentSpanId: null }
    expect(await submit({})).toEqual(none)
    expect(await submit({ traceparent: 'nonsense' })).toEqual(none)
    expect((await client.health()).jobs.failed).toBe(0)
  })
})
