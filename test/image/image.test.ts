import { execFile } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { NewSubmission } from '../../src/client/client.ts'
import { commandsOf, readPage } from '../docs/markdown.ts'
import { isDockerMissing, startDocker, type Docker } from '../support/docker.ts'
import { freePort } from '../support/free-port.ts'
import { fixture, KEY, main, serve, template, temporaryDir } from '../support/processes.ts'
import { describeFleet } from './fleet-in-containers.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const BASE = 'longshore-base'
const WORKER = 'longshore-test-worker'
const VERSIONS = 'longshore-test-versions'
const CHECKOUT =
  'Dockerfile.base .dockerignore package.json package-lock.json tsconfig.json tsconfig.build.json src image'.split(
    ' ',
  )
/** npm fetches some hundred packages for the base. */
const BUILD_MS = 300_000
const SOON = { timeout: 20_000, interval: 200 }

describe.skipIf(isDockerMissing)('an image', { timeout: 60_000 }, () => {
  let docker: Docker

  beforeAll(async () => {
    docker = await startDocker()
    const checkout = privateCheckout()
    const file = join(checkout, 'Dockerfile.base')
    await docker.run('build', '--network', 'host', '-f', file, '-t', BASE, checkout)
    rmSync(checkout, { recursive: true })
    await build(fixture('for-an-image.ts'), WORKER)
    await build(fixture('says-its-version.ts'), VERSIONS)
  }, BUILD_MS)

  afterAll(() => docker?.stop(), 120_000)

  /** `longshore build` with this engine; npm within it has the network of this machine. */
  async function build(handler: string, tag: string, ...flags: string[]): Promise<string> {
    const own = flags.includes('--') ? flags : [...flags, '--']
    const words = [main, 'build', handler, '--tag', tag, ...own, '--network', 'host']
    const env = { ...process.env, ...docker.env }
    // Its files are for another user than this one.
    const shell = ['-c', 'umask 077; exec "$@"', 'sh', process.execPath]
    return (await promisify(execFile)('sh', [...shell, ...words], { env })).stdout
  }

  /** A container that leases from the service; gone after the test. */
  async function start(endpointUrl: string, flags: string[] = [], image = WORKER): Promise<string> {
    const variables = {
      LONGSHORE_ENDPOINT_URL: endpointUrl,
      LONGSHORE_WORKER_TOKEN: KEY,
      NODE_EXTRA_CA_CERTS: '',
    }
    const env = Object.entries(variables).flatMap(([name, value]) => ['-e', `${name}=${value}`])
    const id = await docker.run('run', '--detach', '--network', 'host', ...env, ...flags, image)
    onTestFinished(async () => void (await docker.run('rm', '--force', id)))
    return id
  }

  async function inspect<T>(what: string, format: string): Promise<T> {
    return JSON.parse(await docker.run('inspect', '--format', `{{json ${format}}}`, what)) as T
  }

  it('has what a worker needs, and nothing of the queue service', async () => {
    const script =
      "for (const dir of ['node_modules', 'dist']) console.log(...require('fs').readdirSync(`/opt/longshore/${dir}`))"
    const touch = `for (const one of ['', ...require('fs').readdirSync(process.env.NODE_COMPILE_CACHE, { recursive: true })])
      try { require('fs').accessSync(process.env.NODE_COMPILE_CACHE + '/' + one, 2); console.log('writable', one) }
      catch { require('fs').accessSync(process.env.NODE_COMPILE_CACHE + '/' + one, 4) }`
    expect(await docker.run('run', '--rm', '--network', 'none', BASE, 'node', '-e', touch)).toBe('')
    const [modules = '', built = ''] = (
      await docker.run('run', '--rm', '--network', 'none', BASE, 'node', '-e', script)
    ).split('\n')
    expect(built.split(' ').toSorted()).toEqual(
      'cli client config index.js job lib protocol s3 testing worker'.split(' '),
    )
    expect(modules.split(' ')).toEqual(expect.arrayContaining(['undici', 'zod', 'pino', '@aws-sdk']))
    for (const name of [
      'fastify',
      '@fastify',
      'ioredis',
      '@ioredis',
      'typescript',
      'vitest',
      'node',
      'sharp',
      'fast-check',
    ])
      expect(modules.split(' ')).not.toContain(name)
    const serving = docker.run('run', '--rm', '--network', 'none', BASE, 'longshore', 'serve')
    await expect(serving).rejects.toThrow('This is the worker alone')
    const labels = await inspect<Record<string, string>>(BASE, '.Config.Labels')
    expect(labels).toMatchObject({
      'org.opencontainers.image.title': 'longshore-base',
      'org.opencontainers.image.licenses': 'MIT',
      'org.opencontainers.image.version': '0.1.0',
      'org.opencontainers.image.base.name': 'node:24-bookworm-slim',
    })
  })

  it('serves jobs of a queue as a user without rights, and names the lines of the author', async () => {
    const { endpointUrl, client } = await serve()
    await start(endpointUrl)
    const told = await client.runsync({ input: { what: 'tell' } })
    expect(told.output).toEqual({ uid: 1000, folder: '/app', colour: 'red' })
    const failed = await client.runsync({ input: { what: 'fail' } })
    expect(failed.error).toMatchObject({ code: 'HANDLER_ERROR', message: 'as asked' })
    expect(failed.error?.stack).toMatch(/\/app\/for-an-image\.ts:13:\d+/)
  })

  it('hands its job back when it is stopped, and ends with 0', async () => {
    const { endpointUrl, client } = await serve()
    const id = await start(endpointUrl, ['-e', 'LONGSHORE_DRAIN_MS=300'])
    const job = await client.run({ input: { what: 'wait' } })
    await expect.poll(() => docker.run('logs', id), SOON).toContain('began wait')
    const stoppedAt = performance.now()
    await docker.run('stop', id)
    expect(performance.now() - stoppedAt).toBeLessThan(9_000)
    expect(await inspect(id, '.State.ExitCode')).toBe(0)
    // Not lapsed: that would count as an attempt.
    await expect.poll(() => client.status(job.id), SOON).toMatchObject({ status: 'IN_QUEUE', attempt: 1 })
    await start(endpointUrl)
    await expect.poll(() => client.status(job.id), SOON).toMatchObject({ status: 'IN_PROGRESS' })
    await client.cancel(job.id)
  })

  it('survives a job that uses up the memory of its container', async () => {
    const { endpointUrl, client } = await serve()
    const id = await start(endpointUrl, ['--memory', '300m', '--memory-swap', '300m'])
    const filled = await client.runsync({ input: { what: 'fill' } }, { waitMs: 60_000 })
    expect(filled).toMatchObject({ status: 'FAILED', error: { code: 'OUT_OF_MEMORY' } })
    expect((await client.runsync({ input: { what: 'tell' } })).status).toBe('COMPLETED')
    expect(await inspect(id, '.State.Running')).toBe(true)
  })

  it('leaves no zombie of the orphans of a job', async () => {
    const { endpointUrl, client } = await serve()
    const id = await start(endpointUrl)
    const processes = async (): Promise<string[]> => {
      const script = `for (const pid of require('fs').readdirSync('/proc').filter(Number))
        try { console.log(require('fs').readFileSync('/proc/' + pid + '/stat', 'utf8').split(' ').slice(1, 4).join(' ')) } catch {}`
      return (await docker.run('exec', id, 'node', '-e', script)).split('\n')
    }
    expect((await client.runsync({ input: { what: 'orphan' } })).output).toBe('left')
    await expect
      .poll(async () => (await processes()).filter((one) => /\(sleep\)| Z /.test(one)), SOON)
      .toEqual([])
    expect((await processes())[0]).toMatch(/sh|longshore-entry/)
  })

  it('is healthy while its worker turns, and unhealthy while it does not', async () => {
    const { endpointUrl } = await serve()
    const id = await start(endpointUrl, [
      '--health-interval',
      '500ms',
      '--health-retries',
      '1',
      '--health-start-period',
      '0s',
    ])
    const health = (): Promise<{ Status: string; Log: { Output: string }[] }> => inspect(id, '.State.Health')
    await expect.poll(async () => (await health()).Status, SOON).toBe('healthy')
    const worker = (await docker.run('exec', id, 'cat', '/proc/1/task/1/children')).trim()
    await docker.run('exec', id, 'sh', '-c', `kill -STOP ${worker}`)
    await expect.poll(async () => (await health()).Status, SOON).toBe('unhealthy')
    expect((await health()).Log.at(-1)?.Output).toMatch(/^The worker does not answer at .*\n$/)
    await docker.run('exec', id, 'sh', '-c', `kill -CONT ${worker}`)
    await expect.poll(async () => (await health()).Status, SOON).toBe('healthy')
  })

  it('ends with the exit code of its worker, also when nothing can be started', async () => {
    const run = docker.run('run', '--network', 'host', BASE)
    await expect(run).rejects.toThrow('LONGSHORE_ENDPOINT_URL')
    const options = docker.run('run', '--rm', '--network', 'none', BASE, '--concurrency', '4')
    await expect(options).rejects.toThrow('longshore start handler.js --concurrency 4')
    const sh = docker.run('run', '--rm', '--network', 'none', BASE, 'sh', '-c', 'exit 7')
    await expect(sh).rejects.toThrow()
    await expect(sh.catch(({ cause }: Error) => (cause as { code: number }).code)).resolves.toBe(7)
  })

  it('runs a model server beside the worker, which goes when it goes: openai-proxy with the lines of its page', async () => {
    const dir = temporaryDir()
    cpSync(template('openai-proxy'), dir, { recursive: true })
    const [, lines = ''] =
      /```dockerfile\n([^`]*)```/.exec(readFileSync(join(dir, 'README.md'), 'utf8')) ?? []
    const port = await freePort()
    expect(lines).toContain('"my-model-server --port 8001"')
    const ownLines = lines.replace('my-model-server --port 8001', `node beside.ts ${port}`)
    appendFileSync(join(dir, 'Dockerfile'), ownLines)
    writeFileSync(
      join(dir, 'beside.ts'),
      `import { createServer } from 'node:http'
      createServer((request, response) => response.end('{"data":[]}')).listen(Number(process.argv[2]), '127.0.0.1')
      process.on('SIGTERM', () => {
        console.log('the model server is told')
        process.exit()
      })`,
    )
    await docker.run('build', '--tag', 'beside', dir)
    const { endpointUrl, client } = await serve()
    const id = await start(endpointUrl, ['-e', `MODEL_SERVER_URL=http://127.0.0.1:${port}/v1`], 'beside')
    const job = JSON.parse(readFileSync(join(dir, 'test_input.json'), 'utf8')) as NewSubmission
    expect((await client.runsync(job)).status).toBe('COMPLETED')
    await docker.run('stop', id)
    expect(await docker.run('logs', id)).toContain('the model server is told')
    expect(await inspect(id, '.State.ExitCode')).toBe(0)
  })

  it('ends with 1 when what runs beside its worker ends', async () => {
    const beside = ['-e', 'LONGSHORE_BESIDE=CODE=4 node -e "process.exit(Number(process.env.CODE))"']
    const id = await start('http://127.0.0.1:9/v2/default', beside)
    expect(await docker.run('wait', id)).toBe('1')
    expect(await docker.run('logs', id)).toContain('LONGSHORE_BESIDE started ended with exit code 4')
  })

  it('ends with 0 when it is stopped before its worker listens', async () => {
    const id = await start('http://127.0.0.1:9/v2/default', [])
    await docker.run('kill', '--signal', 'TERM', id)
    expect(await docker.run('wait', id)).toBe('0')
  })

  it('is made, run and stopped by what its page shows', async () => {
    const page = readPage('docs/image.md')
    const [, written = ''] = /```dockerfile\n([^`]*)```/.exec(page.text) ?? []
    const shown = commandsOf(page).find((command) => command.startsWith('docker run ')) ?? ''
    const [, drain = '', stop = ''] =
      /`(-e LONGSHORE_DRAIN_MS=\d+)` with `docker (stop [^`]+)`/.exec(page.text) ?? []
    const dir = temporaryDir()
    writeFileSync(join(dir, 'Dockerfile'), written)
    const handler = `import { setTimeout as pause } from 'node:timers/promises'
      export default async () => { console.log('began'); await pause(1_000); return 'ended' }`
    writeFileSync(join(dir, 'handler.js'), handler)
    await docker.run('build', '--tag', 'my-worker', dir)
    const { endpointUrl, client } = await serve()
    const words = shown.replace('…', endpointUrl).replace('…', KEY).split(' ').slice(2)
    const id = await docker.run('run', '--detach', '--network', 'host', ...drain.split(' '), ...words)
    onTestFinished(async () => void (await docker.run('rm', '--force', id)))
    const job = await client.run({ input: {} })
    await expect.poll(() => docker.run('logs', id), SOON).toContain('began')
    await docker.run(...stop.split(' '), id)
    expect(await client.status(job.id)).toMatchObject({ status: 'COMPLETED', output: 'ended', attempt: 1 })
    expect(await inspect(id, '.State.ExitCode')).toBe(0)
  })

  it('has packages of another registry by the settings in a secret alone, which do not stay in it', async () => {
    const dir = temporaryDir()
    const modules = join(dir, 'node_modules')
    mkdirSync(join(modules, 'ms'), { recursive: true })
    const resolved = 'https://npm.mine.example/ms/-/ms-2.1.3.tgz'
    const lock = { packages: { 'node_modules/ms': { version: '2.1.3', resolved } } }
    writeFileSync(join(modules, '.package-lock.json'), JSON.stringify(lock))
    writeFileSync(join(modules, 'ms', 'package.json'), '{"name":"ms","version":"2.1.3","main":"index.js"}')
    writeFileSync(join(modules, 'ms', 'index.js'), 'module.exports = () => __dirname')
    const handler = join(dir, 'handler.ts')
    writeFileSync(handler, `import ms from 'ms'\nexport default () => ms(60_000)`)
    await expect(build(handler, 'private')).rejects.toThrow(/npmrc/)
    writeFileSync(join(dir, '.npmrc'), 'registry=https://registry.npmjs.org/\n')
    await build(handler, 'private', '--', '--secret', `id=npmrc,src=${join(dir, '.npmrc')}`)
    const words = ['longshore', 'run', 'handler.js', '--test-input', '{"input":{}}']
    expect(await docker.run('run', '--rm', '--network', 'none', 'private', ...words)).toContain('"1m"')
    const list = await docker.run('run', '--rm', '--network', 'none', 'private', 'ls', '-AR', '/app', '/run')
    expect(list).not.toContain('npmrc')
  })

  it('is small, and asks for jobs soon after docker run', async () => {
    const queue = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => queue.close().closeAllConnections())
    await once(queue, 'listening')
    const endpointUrl = `http://127.0.0.1:${(queue.address() as AddressInfo).port}/v2/default`
    const times: number[] = []
    for (let n = 0; n < 3; n += 1) {
      const asked = once(queue, 'request')
      const startedAt = performance.now()
      const id = await start(endpointUrl)
      await asked
      times.push(Math.round(performance.now() - startedAt))
      await docker.run('kill', id)
    }
    const sizes = await Promise.all(
      ['node:24-bookworm-slim', BASE, WORKER].map((image) => inspect<number>(image, '.Size')),
    )
    const [node = 0, base = 0, worker = 0] = sizes.map((bytes) => Math.round(bytes / 1_000_000))
    console.log(`Image: ${base} MB, of which Node's is ${node}; a worker's is ${worker} MB.`)
    const id = await start(endpointUrl)
    await once(queue, 'request')
    // Ticks of 10 ms that the checks were on the processor, which a busy machine does not change.
    const script = `const ticks = () => {
      const fields = require('fs').readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ')
      return Number(fields[13]) + Number(fields[14])
    }
    const before = ticks()
    for (let n = 0; n < 5; n += 1) {
      const startedAt = performance.now()
      const { status } = require('child_process').spawnSync('longshore', ['doctor', '--live'])
      console.log(status === 0 ? Math.round(performance.now() - startedAt) : 'failed')
    }
    console.log((ticks() - before) * 10 / 5)`
    const said = (await docker.run('exec', id, 'node', '-e', script)).trim().split('\n').map(Number)
    const [checks, cpuMs] = [said.slice(0, 5), said[5]]
    console.log(`Health check: ${checks.join(', ')} ms, of which ${cpuMs} ms on the processor.`)
    expect(cpuMs).toBeLessThan(150)
    expect(Math.min(...checks)).toBeLessThan(1_000)
    console.log(`Cold start, docker run to the first request for jobs: ${times.join(', ')} ms.`)
    expect(base - node).toBeLessThan(100)
    expect(Math.min(...times)).toBeLessThan(10_000)
  })

  it('of a template with native packages works: thumbnail, by longshore build', async () => {
    const said = await build(
      join(template('thumbnail'), 'handler.ts'),
      'thumbnail',
      '--include',
      'test_input.json',
    )
    expect(said).toMatch(/Installed in the image, not bundled: sharp \d/)
    const bucket = temporaryDir()
    chmodSync(bucket, 0o777)
    cpSync(join(template('thumbnail'), 'local-bucket', 'photo.jpg'), join(bucket, 'photo.jpg'))
    const mount = ['--volume', `${bucket}:/app/local-bucket`]
    const ran = await docker.run(
      'run',
      '--rm',
      '--network',
      'none',
      ...mount,
      'thumbnail',
      'longshore',
      'run',
      'handler.js',
    )
    expect(ran).toContain('"width": 341')
  })

  it.each([
    ['hello', 'Hello, '],
    ['stream-text', '\n'],
    ['ocr', '"confidence"'],
  ])(
    'of a template by its own Dockerfile works: %s',
    async (name, prints) => {
      await docker.run('build', '--network', 'host', '--tag', name, template(name))
      const mount = ['--volume', `${join(template(name), 'test_input.json')}:/app/test_input.json`]
      const words = ['--network', 'none', ...mount, name, 'longshore', 'run', 'handler.ts']
      expect(await docker.run('run', '--rm', ...words)).toContain(prints)
    },
    BUILD_MS,
  )

  it('of a template has no secret of its folder in it, and nothing that only its author needs', async () => {
    const dir = temporaryDir()
    cpSync(template('hello'), dir, { recursive: true })
    for (const name of ['.env', '.env.local', '.npmrc', '.gitignore', 'key.pem', 'queue.db', 'queue.db-wal'])
      writeFileSync(join(dir, name), 'mine')
    mkdirSync(join(dir, '.git'))
    writeFileSync(join(dir, '.git', 'HEAD'), 'mine')
    await docker.run('build', '--tag', 'secrets', dir)
    const list = await docker.run('run', '--rm', '--network', 'none', 'secrets', 'ls', '-A', '/app')
    expect(list.split('\n')).toEqual(['handler.ts', 'package.json'])
  })

  it('does not run test_input.json where its queue was forgotten', async () => {
    const mount = ['--volume', `${join(template('hello'), 'test_input.json')}:/app/test_input.json`]
    const run = docker.run('run', '--rm', '--network', 'none', ...mount, WORKER)
    await expect(run).rejects.toThrow('No queue is set')
  })

  describeFleet({ docker: () => docker, image: VERSIONS })
})

/** What the base is made from, as it is after a clone under a umask of 077. */
function privateCheckout(): string {
  const dir = mkdtempSync(join(tmpdir(), 'longshore-checkout-'))
  for (const name of CHECKOUT) cpSync(join(root, name), join(dir, name), { recursive: true })
  for (const path of readdirSync(dir, { recursive: true, encoding: 'utf8' }))
    chmodSync(join(dir, path), statSync(join(dir, path)).mode & 0o700)
  return dir
}
