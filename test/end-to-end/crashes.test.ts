import { expect, it } from 'vitest'
import { Client } from '../../src/client/client.ts'
import { isEnded } from '../../src/job/lifecycle.ts'
import { fixture, KEY, serve, startWorker, type Serving } from '../support/processes.ts'

const JOBS = 200

it(
  'loses no accepted job and changes no end while server and worker are killed and started again',
  { timeout: 120_000 },
  async () => {
    let server = await serve()
    const { port } = new URL(server.endpointUrl)
    const restart = async (): Promise<Serving> => {
      await server.kill('SIGKILL')
      return serve({ file: server.file, args: ['--port', port] })
    }
    const client = new Client({ endpointUrl: server.endpointUrl, apiKey: KEY, attempts: 50 })
    const completed = async (): Promise<number> => (await client.health()).jobs.completed
    let worker = await startWorker(server.endpointUrl, fixture('takes-a-while.ts'), ['--concurrency', '8'])

    // Submitted through the crashes: the client repeats what was not answered, under the same key.
    const ids = Promise.all(
      Array.from({ length: JOBS }, async () => (await client.run({ input: { ms: 40 } })).id),
    )
    await expect.poll(completed).toBeGreaterThan(5)
    server = await restart()
    await expect.poll(completed, { timeout: 30_000 }).toBeGreaterThan(40)
    const early = await Promise.all((await ids).slice(0, 20).map((id) => client.status(id)))
    await worker.kill('SIGKILL')
    worker = await startWorker(server.endpointUrl, fixture('takes-a-while.ts'), ['--concurrency', '8'])
    await expect.poll(completed, { timeout: 30_000 }).toBeGreaterThan(80)
    server = await restart()

    const accepted = await ids
    expect(new Set(accepted).size).toBe(JOBS)
    await expect.poll(completed, { timeout: 60_000, interval: 200 }).toBe(JOBS)
    for (const id of accepted)
      expect(await client.status(id)).toMatchObject({ status: 'COMPLETED', output: 'done' })
    // What had ended before the worst of it is as it was, to the millisecond.
    for (const record of early.filter(({ status }) => isEnded(status)))
      expect(await client.status(record.id)).toEqual(record)
    expect((await client.health()).jobs).toMatchObject({
      completed: JOBS,
      failed: 0,
      inProgress: 0,
      inQueue: 0,
    })
    await client.close()
    expect(await worker.kill('SIGTERM')).toBe(0)
  },
)
