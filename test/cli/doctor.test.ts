import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { examineQueue } from '../../src/cli/doctor/queue.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { fixture, KEY, longshore, serve, startWorker, temporaryDir } from '../support/processes.ts'
import { DURABLE, isRedisMissing, startRedis } from '../support/redis.ts'

interface Said {
  code: number | NodeJS.Signals
  lines: string[]
}

async function run(
  args: string[],
  { cwd = temporaryDir(), env = {} }: { cwd?: string; env?: Record<string, string> } = {},
): Promise<Said> {
  const process = longshore(['doctor', ...args], { cwd, env })
  const code = await process.exit
  expect(process.stderr).toBe('')
  return { code, lines: process.stdout.split('\n').filter(Boolean) }
}

const doctor = (store: string): Promise<Said> => run(['--store', store, '--port', '0'])

const well = { code: 0, lines: [] }

describe.skipIf(isRedisMissing)('doctor of a Redis', () => {
  it('is silent where all is well, and says each thing that is not', { timeout: 60_000 }, async () => {
    const server = await startRedis(DURABLE)
    onTestFinished(() => server.stop())
    expect(await doctor(server.url)).toEqual(well)
    await server.cli('config', 'set', 'appendfsync', 'everysec')
    const warned = await doctor(server.url)
    expect(warned).toEqual({
      code: 0,
      lines: [expect.stringMatching(/^Warning: .* a power cut loses the last second/)],
    })
    await server.cli('config', 'set', 'maxmemory-policy', 'volatile-lru')
    const { code, lines } = await doctor(server.url)
    expect(code).toBe(1)
    expect(lines).toHaveLength(2)
    expect(lines.join('\n')).toMatch(/'volatile-lru'.*\nWarning: .*a power cut loses the last second/)
    await server.cli('config', 'set', 'appendonly', 'no')
    expect((await doctor(server.url)).lines.join('\n')).toContain('appendonly is off')
    await server.kill()
    expect((await doctor(server.url)).lines).toEqual([expect.stringContaining('cannot be reached')])
  })
})

describe('doctor of a queue file', () => {
  it('is silent where all is well, and says what is no queue file', async () => {
    const dir = temporaryDir()
    const file = join(dir, 'queue.db')
    expect(await doctor(`sqlite:${file}`)).toEqual({
      code: 0,
      lines: [expect.stringMatching(/^Warning: There is no queue file .* longshore serve makes it/)],
    })
    const store = openSqliteStore({ file })
    // Also while it is served.
    expect(await doctor(`sqlite:${file}`)).toEqual(well)
    await store.close()
    expect(await doctor(`sqlite:${file}`)).toEqual(well)
    writeFileSync(join(dir, 'other'), 'no database at all, but some text that is long enough to be looked at')
    expect(await doctor(`sqlite:${join(dir, 'other')}`)).toMatchObject({
      code: 1,
      lines: [expect.anything()],
    })
  })
})

describe('doctor of a store that can be none', () => {
  it.each([
    ['a folder', 'sub', /^The store sub is no file\. Name a queue file/],
    ['below a file', 'handler.mjs/queue.db', /^The store handler\.mjs\/queue\.db cannot be opened: ENOTDIR/],
  ])('says so beside all else that it finds: %s', async (_, file, words) => {
    const cwd = temporaryDir()
    mkdirSync(join(cwd, 'sub'))
    writeFileSync(join(cwd, 'handler.mjs'), 'export const handle = () => 1\n')
    // Once such a name ended the whole command, and nothing of the handler was heard.
    for (const fix of [[], ['--fix']]) {
      const args = ['handler.mjs', '--store', `sqlite:${file}`, '--port', '0', ...fix]
      const { code, lines } = await run(args, { cwd })
      const ofHandler = expect.stringMatching(/^Cannot load handler\.mjs: it has no default export/)
      expect([code, lines]).toEqual([1, [expect.stringMatching(words), ofHandler]])
    }
  })
})

describe('doctor --fix', () => {
  it('takes a key file from others, and makes the folder of a store, and changes nothing else', async () => {
    const dir = temporaryDir()
    const file = join(dir, 'queue.db')
    await openSqliteStore({ file }).close()
    writeFileSync(`${file}.key`, 'a secret of some length\n')
    chmodSync(`${file}.key`, 0o644)
    const args = ['--store', `sqlite:${file}`, '--port', '0']
    expect(await run(args)).toEqual({ code: 1, lines: [expect.stringContaining(`chmod 600 ${file}.key`)] })
    expect(statSync(`${file}.key`).mode & 0o777).toBe(0o644)
    expect(await run([...args, '--fix'])).toEqual({ code: 0, lines: [`Fixed: Set ${file}.key to mode 600.`] })
    expect(statSync(`${file}.key`).mode & 0o777).toBe(0o600)
    expect(readFileSync(`${file}.key`, 'utf8')).toBe('a secret of some length\n')
    expect(await run(args)).toEqual(well)

    const other = join(dir, 'sub', 'queue.db')
    const inFolder = ['--store', `sqlite:${other}`, '--port', '0']
    expect((await run(inFolder)).lines).toEqual([expect.stringContaining('--fix')])
    expect(await run([...inFolder, '--fix'])).toEqual({
      code: 0,
      lines: [`Fixed: Made the folder ${join(dir, 'sub')}.`],
    })
    expect((await run(inFolder)).code).toBe(0)
  })

  it('goes on behind a mend that fails, and says why it did', async () => {
    const store = 'sqlite:/proc/longshore/deep/queue.db'
    const env = { LONGSHORE_DRAIN_MSS: '1', LONGSHORE_SECRET_KEY: 'a secret of some length' }
    const { code, lines } = await run(['--store', store, '--port', '0', '--fix'], { env })
    expect([code, lines]).toEqual([
      1,
      [
        expect.stringContaining('LONGSHORE_DRAIN_MSS'),
        expect.stringMatching(/^The folder of the store .* It could not be mended: .*\/proc\/longshore/),
      ],
    ])
  })

  it('says that a key file is empty also where its mode was mended', async () => {
    const file = join(temporaryDir(), 'queue.db')
    await openSqliteStore({ file }).close()
    writeFileSync(`${file}.key`, '')
    chmodSync(`${file}.key`, 0o644)
    expect(await run(['--store', `sqlite:${file}`, '--port', '0', '--fix'])).toEqual({
      code: 1,
      lines: [`Fixed: Set ${file}.key to mode 600.`, expect.stringContaining('.key is empty')],
    })
  })
})

describe('doctor of settings', () => {
  it('says what is wrong with them and with the file, and warns of unknown variables', async () => {
    const cwd = temporaryDir()
    const args = ['--port', '0']
    const env = { LONGSHORE_DRAIN_MS: 'soon', LONGSHORE_DRAIN_MSS: '1' }
    await openSqliteStore({ file: join(cwd, 'queue.db') }).close()
    const wrong = [
      'LONGSHORE_DRAIN_MS must be a whole number of ms from 0 to 604800000.',
      'Warning: LONGSHORE_DRAIN_MSS is no variable of longshore. Did you mean LONGSHORE_DRAIN_MS?',
    ]
    expect(await run(args, { cwd, env })).toEqual({ code: 1, lines: wrong })
    writeFileSync(join(cwd, 'longshore.config.mjs'), 'export default {')
    expect(await run(args, { cwd, env })).toEqual({
      code: 1,
      lines: [expect.stringContaining('Cannot load longshore.config.mjs: SyntaxError'), ...wrong],
    })
  })
})

describe('doctor of a secret', () => {
  it('warns of one that can be guessed', async () => {
    const args = ['--store', 'sqlite::memory:', '--port', '0']
    expect(await run(args, { env: { LONGSHORE_SECRET_KEY: 'hush' } })).toEqual({
      code: 0,
      lines: [expect.stringMatching(/^Warning: LONGSHORE_SECRET_KEY has 4 characters and can be guessed\./)],
    })
  })
})

describe('doctor of a config file that never finishes loading', () => {
  it.each(['await new Promise(() => {})', 'process.exit(0)'])('says so: %s', async (line) => {
    const cwd = temporaryDir()
    writeFileSync(join(cwd, 'longshore.config.mjs'), `${line}\nexport default {}\n`)
    const child = longshore(['doctor'], { cwd })
    expect(await child.exit).toBe(1)
    expect(child.stderr).toContain('longshore.config.mjs never finished loading')
  })

  it('goes on without it when its time is up', { timeout: 30_000 }, async () => {
    const cwd = temporaryDir()
    const config = 'await new Promise(() => setInterval(() => {}, 1000))\nexport default {}\n'
    writeFileSync(join(cwd, 'longshore.config.mjs'), config)
    expect(await run(['--store', 'sqlite::memory:', '--port', '0'], { cwd })).toEqual({
      code: 1,
      lines: [
        expect.stringMatching(/^longshore\.config\.mjs never finished loading: it took longer than 10000 ms/),
      ],
    })
  })
})

describe('doctor of a service', () => {
  it('is silent of a port on which a service of ours listens, and says whom it is in the way of else', async () => {
    const { endpointUrl, file } = await serve()
    const port = new URL(endpointUrl).port
    expect(await run(['--store', `sqlite:${file}`, '--port', port])).toEqual(well)
    const stranger = await listen(createServer((_, response) => response.end('{"status":"ok"}')))
    expect(await run(['--store', `sqlite:${file}`, '--port', String(stranger)])).toEqual({
      code: 1,
      lines: [
        `Port ${stranger} on 127.0.0.1 is in use. Stop what listens there, or choose another with --port.`,
      ],
    })
    expect((await run(['--store', `sqlite:${file}`, '--host', '192.0.2.1', '--port', '8999'])).lines).toEqual(
      ["This machine has no address '192.0.2.1'. Choose another with --host."],
    )
  })
})

describe('doctor of a worker', () => {
  it('is silent where its queue takes it and its handler loads, also beside that worker', async () => {
    const { endpointUrl } = await serve()
    const env = { LONGSHORE_ENDPOINT_URL: endpointUrl, LONGSHORE_WORKER_TOKEN: KEY, LONGSHORE_WORKER_ID: 'w' }
    expect(await run([fixture('echo.ts')], { env })).toEqual(well)
    const health = await listen(createServer(), true)
    const watched = { ...env, LONGSHORE_HEALTH_PORT: String(health) }
    const worker = await startWorker(endpointUrl, fixture('echo.ts'), [], watched)
    expect(await run([], { env: watched })).toEqual(well)
    expect(await worker.kill('SIGTERM')).toBe(0)
  })

  it('says that the handler does not load, that the queue refuses it, and that nobody answers', async () => {
    const { endpointUrl, ...server } = await serve()
    const cwd = temporaryDir()
    writeFileSync(join(cwd, 'handler.mjs'), 'export const handle = () => 1\n')
    const env = { LONGSHORE_ENDPOINT_URL: endpointUrl, LONGSHORE_WORKER_TOKEN: 'wrong' }
    expect(await run(['handler.mjs'], { cwd, env })).toEqual({
      code: 1,
      lines: [
        expect.stringMatching(/^Cannot load handler\.mjs: it has no default export/),
        expect.stringMatching(/^The queue at \S+ refuses this worker: .* Check LONGSHORE_WORKER_TOKEN\.$/),
      ],
    })
    const elsewhere = {
      LONGSHORE_ENDPOINT_URL: endpointUrl.replace('default', 'other'),
      LONGSHORE_WORKER_TOKEN: KEY,
    }
    expect((await run([], { env: elsewhere })).lines).toEqual([
      expect.stringContaining('Check LONGSHORE_ENDPOINT_URL'),
    ])
    expect(await server.kill('SIGTERM')).toBe(0)
    expect((await run([], { env: { ...env, LONGSHORE_WORKER_TOKEN: KEY } })).lines).toEqual([
      expect.stringMatching(
        /cannot be reached: .*Check LONGSHORE_ENDPOINT_URL, and that the service runs there\.$/,
      ),
    ])
    expect((await run([], { env: { LONGSHORE_ENDPOINT_URL: endpointUrl } })).lines).toEqual([
      expect.stringMatching(/^LONGSHORE_WORKER_TOKEN must be set/),
    ])
  })

  it.each([
    [60_000, /about (?:5[5-9]|60) s behind this machine's/],
    [-60_000, /about (?:59|60|61) s ahead of this machine's/],
  ])('says how far the clock of its queue is from one that is off by %d ms', async (offMs, words) => {
    const { endpointUrl } = await serve()
    const queue = { endpointUrl, workerToken: KEY }
    expect(await examineQueue({ ...queue, clock: systemClock })).toEqual([])
    const clock = { ...systemClock, now: () => systemClock.now() + offMs }
    expect(await examineQueue({ ...queue, clock })).toEqual([
      { level: 'problem', sentence: expect.stringMatching(words) },
    ])
  })

  it('names the places that were used', async () => {
    const cwd = temporaryDir()
    const config = { endpointUrl: 'http://127.0.0.1:9/v2/a', workerToken: 'x' }
    writeFileSync(join(cwd, 'longshore.config.mjs'), `export default ${JSON.stringify(config)}`)
    expect((await run([], { cwd })).lines).toEqual([
      expect.stringContaining('Check endpointUrl in longshore.config.mjs, and that'),
    ])
  })

  it('says that a queue of another kind is no queue of ours', async () => {
    const port = await listen(createServer((_, response) => response.end('hello')))
    const env = { LONGSHORE_ENDPOINT_URL: `http://127.0.0.1:${port}/v2/default`, LONGSHORE_WORKER_TOKEN: KEY }
    expect((await run([], { env })).lines).toEqual([expect.stringContaining('is no queue of ours')])
  })

  it('asks the hosted platform for no job, and says what of its variables is missing', async () => {
    const asked: string[] = []
    const port = await listen(
      createServer(({ url = '' }, response) => {
        asked.push(url)
        response.writeHead(404).end()
      }),
    )
    const urlOf = (name: string): string => `http://127.0.0.1:${port}/v2/ep/${name}/$ID`
    const env = { RUNPOD_WEBHOOK_GET_JOB: urlOf('job-take'), RUNPOD_WEBHOOK_POST_OUTPUT: urlOf('job-done') }
    expect((await run([], { env })).lines).toEqual([
      expect.stringMatching(/^RUNPOD_WEBHOOK_POST_STREAM must be set/),
    ])
    expect(await run([], { env: { ...env, RUNPOD_WEBHOOK_POST_STREAM: urlOf('job-stream') } })).toEqual(well)
    expect(asked).toEqual(['/'])
  })

  it('says that its bucket cannot be reached, or is not wholly set', async () => {
    const env = { BUCKET_ENDPOINT_URL: 'http://127.0.0.1:9/photos', BUCKET_ACCESS_KEY_ID: 'id' }
    expect((await run([], { env })).lines).toEqual([
      expect.stringMatching(
        /^The bucket cannot be used: BUCKET_SECRET_ACCESS_KEY \(bucketSecretAccessKey\) is missing\. Set what it lacks, or take out what is set of it: BUCKET_ENDPOINT_URL, BUCKET_ACCESS_KEY_ID\.$/,
      ),
    ])
    const { code, lines } = await run([], { env: { ...env, BUCKET_SECRET_ACCESS_KEY: 'hush-hush' } })
    expect([code, lines]).toEqual([
      1,
      [expect.stringMatching(/nothing listens there\. Check the host and port/)],
    ])
  })

  it('says that its live socket cannot be where it is to be, and that dev cannot have its store', async () => {
    const cwd = temporaryDir()
    writeFileSync(join(cwd, 'file'), '')
    const env = { LONGSHORE_DEV_STORE: 'sqlite:new.db', LONGSHORE_LIVE_SOCKET: join(cwd, 'live.sock') }
    expect(await run([], { cwd, env })).toEqual(well)
    const wrong = {
      LONGSHORE_DEV_STORE: 'sqlite:file/q.db',
      LONGSHORE_LIVE_SOCKET: join(cwd, 'gone', 'live.sock'),
    }
    expect(await run([], { cwd, env: wrong })).toEqual({
      code: 1,
      lines: [
        expect.stringMatching(
          /^No worker can have its live socket in \S+gone \(ENOENT\).* set LONGSHORE_LIVE_SOCKET/,
        ),
        expect.stringMatching(/^The store file\/q\.db cannot be opened/),
      ],
    })
    expect((await run(['--live-socket', 'file'], { cwd })).lines).toEqual([
      expect.stringMatching(
        /^There is something at file that is no socket\. .* set --live-socket to another\.$/,
      ),
    ])
  })

  it('says that what answers anything is no bucket', async () => {
    const port = await listen(createServer((_, response) => response.end('hello')))
    const env = {
      BUCKET_ENDPOINT_URL: `http://127.0.0.1:${port}/photos`,
      BUCKET_ACCESS_KEY_ID: 'id',
      BUCKET_SECRET_ACCESS_KEY: 'hush-hush',
    }
    expect(await run([], { env })).toEqual({
      code: 1,
      lines: [expect.stringMatching(/^The bucket cannot be used: .* Check BUCKET_ENDPOINT_URL\.$/)],
    })
  })
})

/** A free port, which is listened on unless `isOnlyFound`. */
async function listen(server: Server, isOnlyFound = false): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  if (isOnlyFound) server.close()
  else
    onTestFinished(() => {
      server.close()
      server.closeAllConnections()
    })
  return port
}
