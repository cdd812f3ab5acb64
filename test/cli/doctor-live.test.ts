import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { fixture, KEY, longshore, serve, startWorker, temporaryDir } from '../support/processes.ts'

interface Said {
  code: number | NodeJS.Signals
  said: string
}

const live = (path: string): Promise<Said> => asked([], { env: { LONGSHORE_LIVE_SOCKET: path } })

async function asked(args: string[], options: Parameters<typeof longshore>[1] = {}): Promise<Said> {
  const process = longshore(['doctor', '--live', ...args], options)
  const code = await process.exit
  return { code, said: process.stdout + process.stderr }
}

/** How long a command is on the processor: unlike the time it takes, that is the same on a busy machine. */
async function cpuMs(args: string[]): Promise<number> {
  const hook = `process.on('exit',()=>{let{user,system}=process.cpuUsage();console.error('took',(user+system)/1000)})`
  const process = longshore(args, { env: { NODE_OPTIONS: `--import "data:text/javascript,${hook}"` } })
  return Number(await process.says(/took ([\d.]+)/))
}

const well = { code: 0, said: '' }

describe('longshore doctor --live', () => {
  it('is silent while the worker starts, works and leaves, and says when it is gone', async () => {
    const { endpointUrl, client } = await serve()
    const path = join(temporaryDir(), 'live.sock')
    const env = { LONGSHORE_LIVE_SOCKET: path }
    const starting = longshore(['start', fixture('never-ready.ts')], {
      env: { ...env, LONGSHORE_ENDPOINT_URL: endpointUrl, LONGSHORE_WORKER_TOKEN: KEY },
    })
    await expect.poll(() => live(path), { timeout: 10_000 }).toEqual(well)
    await starting.kill('SIGKILL')
    // A killed worker leaves the file behind; the next one takes it over.
    expect(existsSync(path)).toBe(true)
    expect(await live(path)).toEqual({
      code: 1,
      said: expect.stringMatching(/^No worker answers at .*ECONNREFUSED.*\n$/),
    })
    const worker = await startWorker(endpointUrl, fixture('takes-a-while.ts'), [], env)
    expect(await live(path)).toEqual(well)
    await client.run({ input: { ms: 2_000 } })
    await worker.says(/(began)/)
    worker.child.kill('SIGTERM')
    await worker.says(/(takes no more jobs)/)
    expect(await live(path)).toEqual(well)
    expect(await worker.exit).toBe(0)
    expect(await live(path)).toEqual({ code: 1, said: expect.stringContaining('ENOENT') })
  })

  it('says that a worker whose process does not turn does not answer', async () => {
    const { endpointUrl } = await serve()
    const path = join(temporaryDir(), 'live.sock')
    const worker = await startWorker(endpointUrl, fixture('echo.ts'), [], { LONGSHORE_LIVE_SOCKET: path })
    worker.child.kill('SIGSTOP')
    expect(await live(path)).toEqual({
      code: 1,
      said: expect.stringMatching(/^The worker does not answer .*\n$/),
    })
    worker.child.kill('SIGCONT')
    expect(await live(path)).toEqual(well)
  })

  it('says what a worker says that is stuck, and that something else is no worker', async () => {
    const path = join(temporaryDir(), 'live.sock')
    let word = 'stuck'
    const server = createServer((asker) => asker.end(word)).listen(path)
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    expect(await live(path)).toEqual({
      code: 1,
      said: expect.stringMatching(/^The worker at .* is stuck: .*\n$/),
    })
    word = 'hello'
    expect(await live(path)).toEqual({ code: 1, said: expect.stringContaining("it said 'hello'") })
  })

  it('takes the socket from a flag, else the variable, else the config file', async () => {
    const { endpointUrl } = await serve()
    const cwd = temporaryDir()
    const path = join(cwd, 'live.sock')
    writeFileSync(join(cwd, 'longshore.config.ts'), `export default { liveSocket: ${JSON.stringify(path)} }`)
    const token = { LONGSHORE_ENDPOINT_URL: endpointUrl, LONGSHORE_WORKER_TOKEN: KEY }
    const options = { cwd, env: { ...token, LONGSHORE_LIVE_SOCKET: '' } }
    const worker = longshore(['start', fixture('echo.ts')], options)
    await worker.says(/ready after/)
    // Such a worker once counted as dead to every check.
    expect(await asked([], options)).toEqual(well)
    const elsewhere = { cwd, env: { LONGSHORE_LIVE_SOCKET: '/nowhere' } }
    expect((await asked([], elsewhere)).said).toContain('Start one with this LONGSHORE_LIVE_SOCKET')
    expect(await asked(['--live-socket', path], elsewhere)).toEqual(well)
    writeFileSync(join(cwd, 'other.mjs'), `export default { liveSocket: 7 }`)
    expect(await asked(['--config', 'other.mjs'], options)).toEqual({
      code: 1,
      said: expect.stringMatching(/^liveSocket in other\.mjs must be a text that is not empty\./),
    })
    writeFileSync(join(cwd, 'other.mjs'), `export default { liveSoket: '/x' }`)
    expect((await asked(['--config', 'other.mjs'], options)).said).toBe(
      'liveSoket in other.mjs is no setting. Did you mean liveSocket?\n',
    )
    writeFileSync(join(cwd, 'other.mjs'), `export default { liveSocket: undefined }`)
    expect((await asked(['--config', 'other.mjs'], options)).said).toContain(
      'LONGSHORE_LIVE_SOCKET is not set.',
    )
    expect(await worker.kill('SIGTERM')).toBe(0)
    expect((await asked([], options)).said).toContain('with this liveSocket in longshore.config.ts')
  })

  it('says which flag was meant', async () => {
    expect(await asked(['--liv-socket', 'x'])).toEqual({
      code: 1,
      said: '--liv-socket is no flag of longshore doctor. Did you mean --live-socket?\n',
    })
  })

  it('takes hardly more of the processor than the command takes to say its version', async () => {
    const path = join(temporaryDir(), 'live.sock')
    const server = createServer((asker) => asker.end('ok')).listen(path)
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const [check, least] = [[], []] as [number[], number[]]
    for (let n = 0; n < 3; n += 1) {
      check.push(await cpuMs(['doctor', '--live', '--live-socket', path]))
      least.push(await cpuMs(['--version']))
    }
    expect(Math.min(...check)).toBeLessThan(1.5 * Math.min(...least))
  })

  it('says which variable is to be set', async () => {
    expect(await live('')).toEqual({
      code: 1,
      said: expect.stringMatching(/^LONGSHORE_LIVE_SOCKET is not set/),
    })
  })
})

describe('a worker that cannot have its socket', () => {
  it('works all the same, and warns', async () => {
    const { endpointUrl, client } = await serve()
    const path = join(temporaryDir(), 'live.sock')
    await startWorker(endpointUrl, fixture('echo.ts'), [], { LONGSHORE_LIVE_SOCKET: path })
    const file = join(temporaryDir(), 'no-socket')
    writeFileSync(file, 'kept')
    for (const taken of [path, file]) {
      const second = await startWorker(endpointUrl, fixture('echo.ts'), [], { LONGSHORE_LIVE_SOCKET: taken })
      expect(second.stderr).toMatch(/cannot ask this worker at .*EADDRINUSE/)
    }
    expect(readFileSync(file, 'utf8')).toBe('kept')
    expect((await client.runsync({ input: { is: 'well' } })).output).toEqual({ is: 'well' })
  })
})
