import { expect, it, onTestFinished } from 'vitest'
import { History } from '../support/history.ts'
import { fixture, serve, startWorker, type Serving } from '../support/processes.ts'
import { recordedLink } from '../support/recorded-link.ts'
import { RecordingClient } from '../support/recording-client.ts'

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
    const history = new History()
    const link = await recordedLink(server.endpointUrl, history)
    onTestFinished(() => link.close())
    const client = new RecordingClient(server.endpointUrl, history)
    const completed = (): Promise<number> => client.completed()
    const start = (): ReturnType<typeof startWorker> =>
      startWorker(link.endpointUrl, fixture('takes-a-while.ts'), ['--concurrency', '8'])
    let worker = await start()

    // Submitted through the crashes: the client repeats what was not answered, under the same key.
    const ids = Promise.all(Array.from({ length: JOBS }, () => client.submit({ input: { ms: 40 } })))
    await expect.poll(completed, { timeout: 30_000 }).toBeGreaterThan(5)
    server = await restart()
    await expect.poll(completed, { timeout: 30_000 }).toBeGreaterThan(40)
    // What has ended before the worst of it stays as it is, to the millisecond.
    for (const id of (await ids).slice(0, 20)) await client.look(id)
    await worker.kill('SIGKILL')
    worker = await start()
    await expect.poll(completed, { timeout: 30_000 }).toBeGreaterThan(80)
    server = await restart()

    const accepted = await ids
    expect(new Set(accepted).size).toBe(JOBS)
    await expect.poll(completed, { timeout: 60_000, interval: 200 }).toBe(JOBS)
    for (const id of accepted) await client.look(id)
    await client.count()
    expect(history.count('settled')).toBeGreaterThan(JOBS / 2)
    history.check()
    await client.close()
    expect(await worker.kill('SIGTERM')).toBe(0)
  },
)
