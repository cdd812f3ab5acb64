import { once } from 'node:events'
import { Agent, get } from 'node:http'
import { connect } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Client } from '../../src/client/client.ts'
import { isRunning } from '../support/children.ts'
import { fixture, KEY, longshore, serve, startWorker, temporaryDir } from '../support/processes.ts'
import { writeFileSync } from 'node:fs'
import { setImmediate as immediate } from 'node:timers/promises'
import { join } from 'node:path'

function read(agent: Agent, url: string): Promise<{ status: string; chunks: { index: number }[] }> {
  return new Promise((resolve, reject) => {
    get(url, { agent, headers: { authorization: KEY } }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (piece: string) => (text += piece))
      answer.on('end', () =>
        resolve({ status: String(answer.headers['x-job-status']), chunks: JSON.parse(text) }),
      )
    }).on('error', reject)
  })
}

describe('one job', () => {
  it('goes from REST through the worker and back', async () => {
    const { endpointUrl, client } = await serve()
    await startWorker(endpointUrl, fixture('echo.ts'))
    const record = await client.runsync({ input: { text: 'hällo 😀', n: [1, null, { a: false }] } })
    expect(record).toMatchObject({
      status: 'COMPLETED',
      output: { text: 'hällo 😀', n: [1, null, { a: false }] },
    })
  })

  it('is streamed chunk by chunk, in order, and its return value is the output', async () => {
    const { endpointUrl, client } = await serve()
    await startWorker(endpointUrl, fixture('counts.ts'))
    const { id } = await client.run({ input: { to: 500 } })
    const chunks = []
    for await (const chunk of client.stream(id)) chunks.push(chunk)
    expect(chunks.map(({ output }) => output)).toEqual(Array.from({ length: 500 }, (_, n) => n + 1))
    expect(chunks.map(({ index }) => index)).toEqual(Array.from({ length: 500 }, (_, n) => n + 1))
    expect((await client.status(id)).output).toBe(125_250)
  })

  // Seen: the reports about a crowd of tiny chunks made a head that the service refused, again and again.
  it('streams a crowd of tiny chunks, and chunks with much metrics, to the last one', async () => {
    const { endpointUrl, client } = await serve()
    await startWorker(endpointUrl, fixture('streams-a-crowd.ts'))
    for (const input of [
      { count: 60_000, metrics: 0 },
      { count: 300, metrics: 60_000 },
    ]) {
      const { id } = await client.run({ input })
      let last = 0
      for await (const { output, index } of client.stream(id)) {
        expect([output, index]).toEqual([last + 1, last + 1])
        last = index
      }
      expect([last, (await client.status(id)).status]).toEqual([input.count, 'COMPLETED'])
    }
  })

  it('is told to stop when it is cancelled, and its slot takes the next one', async () => {
    const { endpointUrl, client } = await serve()
    const worker = await startWorker(endpointUrl, fixture('waits-for-abort.ts'))
    for (const _ of [1, 2]) {
      const { id } = await client.run({ input: {} })
      await worker.says(new RegExp(`${id}.*waiting for the abort`))
      expect(await client.cancel(id)).toEqual({ id, status: 'CANCELLED' })
      await worker.says(new RegExp(`${id}.*aborted: cancelled`))
      expect((await client.status(id)).status).toBe('CANCELLED')
    }
  })

  it('runs beside others up to the concurrency', async () => {
    const { endpointUrl, client } = await serve()
    await startWorker(endpointUrl, fixture('waits-for-abort.ts'), ['--concurrency', '3'])
    const ids = await Promise.all([1, 2, 3, 4].map(async () => (await client.run({ input: {} })).id))
    await expect.poll(async () => (await client.health()).jobs).toMatchObject({ inProgress: 3, inQueue: 1 })
    for (const id of ids) await client.cancel(id)
  })
})

describe('the service', () => {
  it('shows a key once at its first start, and takes it from then on', async () => {
    const file = join(temporaryDir(), 'queue.db')
    const start = async (): Promise<{
      url: string
      key: string | undefined
      stop: () => Promise<unknown>
    }> => {
      const server = longshore(['serve', '--store', `sqlite:${file}`, '--port', '0'], {
        env: { LONGSHORE_API_KEY: '' },
      })
      const url = await server.says(/Serving (\S+)/)
      await server.says(/"msg":"serving"/)
      return { url, key: /API key.*: (\S+)/.exec(server.stdout)?.[1], stop: () => server.kill('SIGTERM') }
    }
    const first = await start()
    expect(first.key).toMatch(/^ls_/)
    await first.stop()
    const second = await start()
    expect(second.key).toBeUndefined()
    const client = new Client({ endpointUrl: second.url, apiKey: first.key ?? '' })
    expect((await client.health()).jobs.inQueue).toBe(0)
    await client.close()
  })

  it('remembers the endpoints it was once given', async () => {
    const first = await serve({ args: ['--endpoint', 'a', '--endpoint', 'b'] })
    expect(await first.kill('SIGTERM')).toBe(0)
    const second = await serve({ file: first.file })
    await second.says(/"msg":"serving"/)
    expect(second.stdout.match(/v2\/\w+/g)).toEqual(['v2/a', 'v2/b'])
  })

  it('ends cleanly on SIGTERM while somebody waits, who is answered', async () => {
    const server = await serve()
    const waiting = server.client.runsync({ input: {} })
    await expect.poll(async () => (await server.client.health()).jobs.inQueue).toBe(1)
    expect(await server.kill('SIGTERM')).toBe(0)
    expect((await waiting).status).toBe('IN_QUEUE')
  })

  it('ends on SIGTERM beside connections on which nothing ever comes', async () => {
    const server = await serve()
    const { hostname, port } = new URL(server.endpointUrl)
    for (const words of ['', 'POST /v2/default/run HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{']) {
      const socket = connect(Number(port), hostname)
      onTestFinished(() => void socket.destroy())
      socket.on('error', () => undefined)
      await once(socket, 'connect')
      socket.write(words)
    }
    await server.client.health()
    expect(await server.kill('SIGTERM')).toBe(0)
  })

  it.each([
    ['no HTTP at all', 'NONSENSE\r\n\r\n', 400, 'REQUEST_INVALID'],
    ['no host', 'GET /nope HTTP/1.1\r\nconnection: close\r\n\r\n', 404, 'ROUTE_NOT_FOUND'],
    [
      'an expectation',
      'GET /nope HTTP/1.1\r\nhost: x\r\nexpect: more\r\nconnection: close\r\n\r\n',
      417,
      'REQUEST_INVALID',
    ],
  ])('answers a request with %s in the one form of its errors', async (_what, request, status, code) => {
    const { hostname, port } = new URL((await serve()).endpointUrl)
    const socket = connect(Number(port), hostname)
    socket.end(request)
    const answer = (await socket.setEncoding('utf8').toArray()).join('')
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    expect(answer).toContain(`"code":"${code}"`)
  })

  // Seen: a reader that asked again at once on the same connection was given the same chunks again.
  it('gives every chunk once to a reader that asks again as soon as it is answered', async () => {
    const { endpointUrl, client } = await serve()
    await startWorker(endpointUrl, fixture('counts.ts'))
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    onTestFinished(() => agent.destroy())
    for (let round = 0; round < 5; round += 1) {
      const { id } = await client.run({ input: { to: 300 } })
      const seen: unknown[] = []
      for (let status = ''; status !== 'COMPLETED';) {
        const answer = await read(agent, `${endpointUrl}/stream/${id}`)
        status = answer.status
        seen.push(...answer.chunks.map(({ index }) => index))
        if (status === 'COMPLETED' && answer.chunks.length > 0) status = ''
      }
      expect(seen).toEqual(Array.from({ length: 300 }, (_, n) => n + 1))
    }
  })

  it('keeps what it accepted through kill -9', async () => {
    const first = await serve()
    const worker = await startWorker(first.endpointUrl, fixture('echo.ts'))
    const finished = await first.client.runsync({ input: { n: 1 } })
    expect(await worker.kill('SIGTERM')).toBe(0)
    const ids = await Promise.all(
      Array.from({ length: 50 }, async (_, n) => (await first.client.run({ input: { n } })).id),
    )
    expect(await first.kill('SIGKILL')).toBe('SIGKILL')
    const second = await serve({ file: first.file })
    expect(await second.client.status(finished.id)).toMatchObject({ status: 'COMPLETED', output: { n: 1 } })
    await startWorker(second.endpointUrl, fixture('echo.ts'), ['--concurrency', '10'])
    for (const [n, id] of ids.entries()) {
      await expect
        .poll(async () => (await second.client.status(id)).output, { timeout: 10_000 })
        .toEqual({ n })
    }
  })

  it('lets a worker go on when it comes back on the same port', async () => {
    const first = await serve()
    const worker = await startWorker(first.endpointUrl, fixture('takes-a-while.ts'))
    const { id } = await first.client.run({ input: { ms: 1500 } })
    await worker.says(/began/)
    await first.kill('SIGKILL')
    await worker.says(/(queue cannot be reached)/)
    const { port } = new URL(first.endpointUrl)
    const second = await serve({ file: first.file, args: ['--port', port] })
    await expect
      .poll(async () => await second.client.status(id), { timeout: 20_000 })
      .toMatchObject({ status: 'COMPLETED', output: 'done', attempt: 1 })
    expect(second.endpointUrl).toBe(first.endpointUrl)
    expect(KEY).toBeTruthy()
  })
})

describe('the worker', () => {
  it('finishes its job on SIGTERM, takes no other, and exits with 0', async () => {
    const { endpointUrl, client } = await serve()
    const worker = await startWorker(endpointUrl, fixture('takes-a-while.ts'))
    const running = (await client.run({ input: { ms: 700 } })).id
    await worker.says(/began/)
    const waiting = (await client.run({ input: { ms: 1 } })).id
    expect(await worker.kill('SIGTERM')).toBe(0)
    expect(await client.status(running)).toMatchObject({ status: 'COMPLETED', output: 'done' })
    expect(await client.status(waiting)).toMatchObject({ status: 'IN_QUEUE', attempt: 1 })
  })

  it('hands a job back that outlasts the drain time, uncounted', async () => {
    const { endpointUrl, client } = await serve()
    const worker = await startWorker(endpointUrl, fixture('takes-a-while.ts'), [
      '--drain-ms',
      '100',
      '--kill-grace-ms',
      '100',
    ])
    const { id } = await client.run({ input: { ms: 60_000 } })
    await worker.says(/began/)
    expect(await worker.kill('SIGTERM')).toBe(0)
    expect(await client.status(id)).toMatchObject({ status: 'IN_QUEUE', attempt: 1, reason: 'released' })
  })

  it('leaves on SIGTERM while its handler is still getting ready', async () => {
    const { endpointUrl } = await serve()
    const worker = longshore(['start', fixture('never-ready.ts')], {
      env: { LONGSHORE_ENDPOINT_URL: endpointUrl, LONGSHORE_WORKER_TOKEN: KEY },
    })
    await worker.says(/(getting ready)/)
    expect(await worker.kill('SIGTERM')).toBe(0)
  })

  it('leaves on a second SIGTERM though the queue is gone and a result unsaid', async () => {
    const server = await serve()
    const worker = await startWorker(server.endpointUrl, fixture('takes-a-while.ts'), [
      '--kill-grace-ms',
      '100',
    ])
    await server.client.run({ input: { ms: 300 } })
    await worker.says(/began/)
    await server.kill('SIGKILL')
    await worker.says(/(queue cannot be reached)/)
    worker.child.kill('SIGTERM')
    await worker.says(/(takes no more jobs)/)
    expect(await worker.kill('SIGTERM')).toBe(0)
  })

  // Seen: a poll that was cut off while its answer was on its way cost the jobs in that a whole lease.
  // Eight workers are started one after the other.
  it(
    'hands back what is on its way to it when it is told to stop, at once',
    { timeout: 90_000 },
    async () => {
      const { endpointUrl, client } = await serve({ args: ['--no-rate-limits'] })
      for (let round = 0; round < 8; round += 1) {
        const worker = await startWorker(endpointUrl, fixture('echo.ts'))
        const submitted = Promise.all([1, 2, 3].map(() => client.run({ input: {} })))
        // Each round a little later in the life of the submissions.
        for (let turn = 0; turn < 20 * round; turn += 1) await immediate()
        expect(await worker.kill('SIGTERM')).toBe(0)
        const statuses = await Promise.all(
          (await submitted).map(async ({ id }) => (await client.status(id)).status),
        )
        expect(statuses).not.toContain('IN_PROGRESS')
        await client.purgeQueue()
      }
    },
  )

  it('takes the concurrency that its handler says, at once, up and down, and refuses what is none', async () => {
    const file = join(temporaryDir(), 'concurrency')
    writeFileSync(file, '1')
    const { endpointUrl, client } = await serve()
    const worker = await startWorker(endpointUrl, fixture('sizes-itself.ts'), [], { CONCURRENCY: file })
    const ids = await Promise.all(Array.from({ length: 5 }, async () => (await client.run({ input: {} })).id))
    const running = async (): Promise<number> => (await client.health()).jobs.inProgress
    await expect.poll(running).toBe(1)
    writeFileSync(file, '3')
    await expect.poll(running, { timeout: 5_000 }).toBe(3)
    writeFileSync(file, 'nothing')
    await worker.says(/(must be a whole number from 1 to 1000, got undefined)/)
    writeFileSync(file, 'throw')
    await worker.says(/(no idea beyond 3)/)
    writeFileSync(file, '1')
    await worker.says(/(concurrency is now 1, was 3)/)
    for (const id of ids.slice(0, 2)) await client.cancel(id)
    expect(await running()).toBe(1)
    for (const id of ids) await client.cancel(id)
  })

  it('exits with 1, its jobs handed back, when its handler cannot be got ready again', async () => {
    const { endpointUrl, client } = await serve()
    const env = { READY_ONCE: join(temporaryDir(), 'mark') }
    const worker = await startWorker(endpointUrl, fixture('ready-only-once.ts'), ['--spare', 'none'], env)
    const ids = [(await client.run({ input: {} })).id, (await client.run({ input: {} })).id]
    expect(await worker.exit).toBe(1)
    expect(worker.stderr).toContain('the model is gone')
    expect((await client.status(ids[0] ?? '')).status).toBe('FAILED')
    expect(await client.status(ids[1] ?? '')).toMatchObject({ status: 'IN_QUEUE', attempt: 1 })
  })

  // Seen: a full pipe held up the worker's whole process, its heartbeats included.
  it('keeps its leases while nobody reads its log', async () => {
    const { endpointUrl, client } = await serve()
    const worker = await startWorker(endpointUrl, fixture('prints-without-end.ts'))
    const { id } = await client.run({ input: { ms: 12_000 } })
    await worker.says(/(began)/)
    worker.child.stderr?.pause()
    await expect
      .poll(async () => (await client.status(id)).status, { timeout: 20_000, interval: 500 })
      .toBe('COMPLETED')
    expect((await client.status(id)).attempt).toBe(1)
    worker.child.stderr?.resume()
  })

  it('killed in the middle of a busy loop leaves no process, and its job runs elsewhere within two heartbeats', async () => {
    const { endpointUrl, client } = await serve()
    const first = await startWorker(endpointUrl, fixture('busy-loop.ts'))
    const { id } = await client.run({ input: { block: true } })
    const pid = Number(await first.says(/pid (\d+)/))
    await expect.poll(async () => (await client.status(id)).executionTime).toBeGreaterThan(0)
    await first.kill('SIGKILL')
    const from = performance.now()
    const second = await startWorker(endpointUrl, fixture('busy-loop.ts'))
    await expect.poll(() => isRunning(pid)).toBe(false)
    await second.says(/(pid \d+)/)
    expect(performance.now() - from).toBeLessThan(11_500)
    expect(await client.status(id)).toMatchObject({ status: 'IN_PROGRESS', attempt: 2 })
    await client.cancel(id)
  })

  // Seen: the second answer that said so counted as a second signal, and the job was stopped.
  it('finishes its job when another worker comes by its id', async () => {
    const { endpointUrl, client } = await serve()
    const env = { LONGSHORE_WORKER_ID: 'same' }
    const first = await startWorker(endpointUrl, fixture('takes-a-while.ts'), [], env)
    const { id } = await client.run({ input: { ms: 3_000 } })
    await first.says(/(began)/)
    await startWorker(endpointUrl, fixture('takes-a-while.ts'), [], env)
    expect(await first.exit).toBe(0)
    expect(await client.status(id)).toMatchObject({ status: 'COMPLETED', attempt: 1 })
  })

  it('refuses a concurrency in its definition that is none, says so, and works', async () => {
    const { endpointUrl, client } = await serve()
    const worker = await startWorker(endpointUrl, fixture('wants-half-a-job.ts'))
    await worker.says(/(concurrency of the handler must be a whole number from 1 to 1000, got 2\.5)/)
    expect((await client.runsync({ input: {} })).status).toBe('COMPLETED')
  })

  it('leaves within its drain time and a second, whatever its handler does', async () => {
    const { endpointUrl, client } = await serve()
    const worker = await startWorker(endpointUrl, fixture('busy-loop.ts'), ['--drain-ms', '300'])
    const { id } = await client.run({ input: { block: true } })
    await worker.says(/(pid \d+)/)
    const from = performance.now()
    expect(await worker.kill('SIGTERM')).toBe(0)
    expect(performance.now() - from).toBeLessThan(1_500)
    expect(await client.status(id)).toMatchObject({ status: 'IN_QUEUE', attempt: 1, reason: 'released' })
  })

  it('exits with 1 and a sentence when the queue does not know its token or its endpoint', async () => {
    const { endpointUrl } = await serve()
    for (const [url, token, says] of [
      [endpointUrl, 'wrong', /LONGSHORE_WORKER_TOKEN/],
      [endpointUrl.replace('default', 'nope'), KEY, /There is no endpoint 'nope'/],
    ] as const) {
      const worker = longshore(['start', fixture('echo.ts')], {
        env: { LONGSHORE_ENDPOINT_URL: url, LONGSHORE_WORKER_TOKEN: token },
      })
      expect(await worker.exit).toBe(1)
      expect(worker.stderr).toMatch(says)
      expect(worker.stderr).not.toContain('    at ')
    }
  })
})

describe('a worker whose handler process ends while it has no job', () => {
  // Seen: it was started again without a pause, for ever, and its error was in no log.
  it('says why each time, and leaves with 1 after five times', async () => {
    const { endpointUrl } = await serve()
    const worker = await startWorker(endpointUrl, fixture('throws-when-idle.ts'))
    expect(await worker.exit).toBe(1)
    const said = worker.stdout + worker.stderr
    expect(said.split('Error: the database refuses').length - 1).toBeGreaterThanOrEqual(6)
    expect(said).toContain('[EXECUTOR_DIED]')
  })
})
