import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fixture, longshore, main, serve, startWorker, template, temporaryDir } from '../support/processes.ts'

/** Starters that run only once npm install has brought what they import. */
const needInstall = new Set(['ocr', 'thumbnail'])
/** Starters that run beside a model server; with one they are run in openai-proxy.test.ts. */
const needServer = new Set(['openai-proxy'])

async function run(args: string[], cwd?: string): Promise<{ code: unknown; out: string; err: string }> {
  const child = longshore(['run', ...args], cwd === undefined ? {} : { cwd })
  const code = await child.exit
  return { code, out: child.stdout, err: child.stderr }
}

describe('longshore run', () => {
  it('prints a returned value as JSON', async () => {
    expect(await run([fixture('echo.ts'), '--test-input', '{"input":{"a":[1]}}'])).toMatchObject({
      code: 0,
      out: '{\n  "a": [\n    1\n  ]\n}\n',
    })
  })

  it("prints a generator's values as they come, and its return value", async () => {
    expect(await run([fixture('counts.ts'), '--test-input', '{"input":{"to":3}}'])).toMatchObject({
      code: 0,
      out: '1\n2\n3\n6\n',
    })
  })

  it('prints what is no text on a line of its own, also behind text', async () => {
    const dir = temporaryDir()
    const source =
      "export default async function* () { yield 't'; yield { a: 1 }; yield 'u\\n'; yield [2]; yield 'v' }\n"
    writeFileSync(join(dir, 'mixes.mjs'), source)
    const { code, out } = await run(['mixes.mjs', '--test-input', '{"input":{}}'], dir)
    expect([code, out]).toEqual([0, 't\n{"a":1}\nu\n[2]\nv\n'])
  })

  it('takes the job from a file', async () => {
    const dir = temporaryDir()
    writeFileSync(join(dir, 'job.json'), '{"input":{"from":"file"}}')
    expect((await run([fixture('echo.ts'), '--test-input', '@job.json'], dir)).out).toContain(
      '"from": "file"',
    )
  })

  it('finds test_input.json beside the handler by itself', async () => {
    const dir = temporaryDir()
    writeFileSync(join(dir, 'handler.mjs'), 'export default (job) => job.input.n + 1\n')
    writeFileSync(join(dir, 'test_input.json'), '{"input":{"n":41}}')
    expect((await run([join(dir, 'handler.mjs')])).out).toBe('42\n')
    expect((await run([dir])).out).toBe('42\n')
  })

  it("exits with 1, the handler's error and its source line when the job fails", async () => {
    const dir = temporaryDir()
    writeFileSync(
      join(dir, 'handler.ts'),
      'export default (): never => {\n  throw new RangeError("too far")\n}\n',
    )
    const { code, out, err } = await run([join(dir, 'handler.ts'), '--test-input', '{"input":{}}'])
    expect([code, out]).toEqual([1, ''])
    expect(err).toContain('RangeError: too far [HANDLER_ERROR]')
    expect(err).toMatch(/handler\.ts:2:9\n {2}2 \| {3}throw new RangeError/)
  })

  // Seen: the command ended with an error of its own, a bare SyntaxError.
  it('fails the job whose output cannot be read', async () => {
    const { code, out, err } = await run([
      fixture('speaks-for-the-runtime.ts'),
      '--test-input',
      '{"input":{}}',
    ])
    expect([code, out]).toEqual([1, ''])
    expect(err).toMatch(/NotJsonError: The output .* is not JSON: .* \[OUTPUT_NOT_JSON\]/)
  })

  it('shows progress and what the handler prints on stderr', async () => {
    const dir = temporaryDir()
    writeFileSync(
      join(dir, 'handler.mjs'),
      'export default (job, { progress }) => { console.log("printed"); progress({ half: true }); return 1 }\n',
    )
    const { out, err } = await run([join(dir, 'handler.mjs'), '--test-input', '{"input":{}}'])
    expect(out).toBe('1\n')
    expect(err).toContain('printed')
    expect(err).toContain('progress: {"half":true}')
  })

  it('ends quietly when nobody reads on', async () => {
    const command = `${process.execPath} ${main} run ${fixture('streams-for-ever.ts')} --test-input '{"input":{}}' | head -c 1`
    const { status, stderr } = spawnSync('bash', ['-o', 'pipefail', '-c', command], { encoding: 'utf8' })
    expect(status).toBe(1)
    expect(stderr).not.toMatch(/^ {4}at |EPIPE/m)
  })

  const refused: [what: string, args: string[], says: RegExp][] = [
    [
      'a missing handler file',
      ['nowhere.ts', '--test-input', '{"input":{}}'],
      /There is no handler at nowhere\.ts.*longshore init/,
    ],
    [
      'a job that is not JSON',
      [fixture('echo.ts'), '--test-input', '{'],
      /--test-input is not JSON.*Write it as/,
    ],
    [
      'a job without input',
      [fixture('echo.ts'), '--test-input', '{}'],
      /--test-input: input must be an object/,
    ],
    [
      'a job file that is missing',
      [fixture('echo.ts'), '--test-input', '@nowhere.json'],
      /nowhere\.json: it does not exist/,
    ],
    ['an unknown option', [fixture('echo.ts'), '--test-inptu', '{}'], /Did you mean --test-input\?/],
    [
      'a handler whose process dies about when it is ready',
      [fixture('listens-twice.ts'), '--test-input', '{"input":{}}'],
      /listen EADDRINUSE/,
    ],
  ]
  for (const [what, args, says] of refused) {
    it(`exits with 1 and a sentence for ${what}`, async () => {
      const { code, err } = await run(args)
      expect(code).toBe(1)
      expect(err).toMatch(says)
      expect(err).not.toMatch(/^ {4}at /m)
    })
  }
})

describe('longshore start', () => {
  const broken: [what: string, source: string, says: RegExp][] = [
    [
      'has no handler',
      'export const handle = () => 1\n',
      /no default export \(it exports handle\)\. Did you mean "export default handle"\?/,
    ],
    [
      'throws on import',
      'const nothing = undefined\nnothing.x\nexport default () => 1\n',
      /Cannot load .*handler\.mjs: TypeError.* at .*handler\.mjs:2/,
    ],
    [
      'has a syntax error',
      'export default () => {\n  retrun 1\n}\n',
      /Cannot load .*handler\.mjs: SyntaxError.* at .*handler\.mjs:2.*Mend the syntax/,
    ],
    [
      'imports what is not installed',
      'import "no-such-package"\nexport default () => 1\n',
      /npm install no-such-package/,
    ],
  ]
  for (const [what, source, says] of broken) {
    it(`exits with 1 and a sentence with the mend when the file ${what}`, async () => {
      const dir = temporaryDir()
      writeFileSync(join(dir, 'handler.mjs'), source)
      const worker = longshore(['start', join(dir, 'handler.mjs')], {
        env: { LONGSHORE_ENDPOINT_URL: 'http://127.0.0.1:9/v2/default', LONGSHORE_WORKER_TOKEN: 'x' },
      })
      expect(await worker.exit).toBe(1)
      expect(worker.stderr.replaceAll('\n', ' ')).toMatch(says)
    })
  }

  it('names every setting that is missing or wrong at once', async () => {
    const worker = longshore(['start', fixture('echo.ts'), '--concurrency', '0'], {
      env: { LONGSHORE_ENDPOINT_URL: 'http://host/elsewhere', LONGSHORE_WORKER_TOKEN: '' },
    })
    expect(await worker.exit).toBe(1)
    expect(worker.stderr).toContain(
      'LONGSHORE_ENDPOINT_URL must be an http or https URL that ends with /v2/{endpointId}',
    )
    expect(worker.stderr).toContain('LONGSHORE_WORKER_TOKEN must not be empty.')
    expect(worker.stderr).toContain('--concurrency must be a whole number from 1 to 1000.')
  })
})

describe('longshore start without a queue', () => {
  async function start(
    args: string[],
    cwd = temporaryDir(),
  ): Promise<{ code: unknown; out: string; err: string }> {
    const child = longshore(['start', ...args], { cwd })
    const code = await child.exit
    return { code, out: child.stdout, err: child.stderr }
  }

  it('runs the job of --test_input once, whatever queue is set, and prints its output', async () => {
    const child = longshore(['start', fixture('echo.ts'), '--test_input', '{"input":{"a":1},"id":"mine"}'], {
      env: { LONGSHORE_ENDPOINT_URL: 'http://127.0.0.1:9/v2/default', LONGSHORE_WORKER_TOKEN: 'x' },
    })
    expect([await child.exit, child.stdout]).toEqual([0, '{\n  "a": 1\n}\n'])
  })

  it('runs the job of ./test_input.json once, and says so', async () => {
    const dir = temporaryDir()
    writeFileSync(join(dir, 'test_input.json'), '{"input":{"to":2}}')
    const { code, out, err } = await start([fixture('counts.ts')], dir)
    expect([code, out]).toEqual([0, '1\n2\n3\n'])
    expect(err).toContain('No queue is set: runs the job in ./test_input.json once.')
  })

  const refused: [what: string, args: string[], says: RegExp][] = [
    ['no job at all', [], /No queue is set.*no test_input\.json in .*LONGSHORE_ENDPOINT_URL.*--test_input/],
    [
      'a job without input',
      ['--test_input', '{"id":"x"}'],
      /--test_input: input must be an object, and there is none/,
    ],
    ['a job that is not JSON', ['--test_input', '{'], /--test_input is not JSON/],
    [
      'settings that are wrong, also those of a worker alone',
      ['--test_input', '{"input":{}}', '--concurrency', '-4', '--drain-ms', 'abc'],
      /^--concurrency must be a whole number.*\n--drain-ms must be a whole number/,
    ],
    [
      'a job file that is missing',
      ['--test_input', '@no.json'],
      /no\.json: it does not exist.*--test_input @file/,
    ],
  ]
  for (const [what, args, says] of refused) {
    it(`exits with 1 and a sentence for ${what}`, async () => {
      const { code, out, err } = await start([fixture('echo.ts'), ...args])
      expect([code, out]).toEqual([1, ''])
      expect(err).toMatch(says)
      expect(err).not.toMatch(/^ {4}at /m)
    })
  }

  it('exits with 1 and the error when the job fails', async () => {
    const { code, err } = await start([
      fixture('throws-what-is-asked.ts'),
      '--test_input',
      '{"input":{"kind":"error"}}',
    ])
    expect(code).toBe(1)
    expect(err).toContain('PaymentError: The card was declined. [HANDLER_ERROR]')
  })
})

describe('longshore serve', () => {
  it('is refused a file that another one serves, with its pid', async () => {
    const first = await serve()
    const second = longshore(['serve', '--store', `sqlite:${first.file}`, '--port', '0'])
    expect(await second.exit).toBe(1)
    expect(second.stderr).toContain(`is in use by process ${first.child.pid}.`)
  })

  it('is refused a file that a link leads to, also before there is one, and keeps one key for it', async () => {
    const dir = temporaryDir()
    symlinkSync('real.db', join(dir, 'link.db'))
    const first = await serve({ file: join(dir, 'link.db') })
    const second = longshore(['serve', '--store', `sqlite:${join(dir, 'real.db')}`, '--port', '0'])
    expect(await second.exit).toBe(1)
    expect(second.stderr).toContain(`is in use by process ${first.child.pid}.`)
    expect(readdirSync(dir).filter((name) => name.endsWith('.key'))).toEqual(['real.db.key'])
  })

  it('is refused an API key that no request could carry, and an empty secret', async () => {
    const file = join(temporaryDir(), 'q.db')
    const args = ['serve', '--store', `sqlite:${file}`, '--port', '0']
    const spaced = longshore(args, { env: { LONGSHORE_API_KEY: ' hush ' } })
    expect(await spaced.exit).toBe(1)
    expect(spaced.stderr).toContain('LONGSHORE_API_KEY must be printable ASCII without spaces')
    writeFileSync(`${file}.key`, '')
    const empty = longshore(args)
    expect(await empty.exit).toBe(1)
    expect(empty.stderr).toContain('q.db.key is empty')
  })

  it('exits with 1 and a sentence for a port in use, a bad port, a bad endpoint name, an unknown store', async () => {
    const { port } = new URL((await serve()).endpointUrl)
    const store = `sqlite:${join(temporaryDir(), 'q.db')}`
    for (const [args, says] of [
      [['--store', store, '--port', port], /is in use\. Stop what listens there/],
      [['--store', store, '--port', '70000'], /--port must be a port from 0 to 65535\./],
      [['--store', store, '--endpoint', 'a b'], /--endpoint must be letters.*got 'a b'/],
      [['--store', 'postgres://x'], /--store must be sqlite:<file> or redis:/],
    ] as const) {
      const server = longshore(['serve', ...args])
      expect(await server.exit).toBe(1)
      expect(server.stderr).toMatch(says)
    }
  })
})

describe('longshore init', () => {
  it('writes each template as a starter that runs as it stands', async () => {
    for (const name of readdirSync(template('.'))) {
      const dir = join(temporaryDir(), 'starter')
      const init = longshore(['init', name, dir])
      expect(await init.exit).toBe(0)
      expect(init.stdout).toContain(needServer.has(name) ? 'npm run try' : 'npx longshore run handler.ts')
      expect(existsSync(join(dir, 'test_input.json'))).toBe(true)
      const manifest = JSON.parse(readFileSync(join(dir, 'package.json'), 'utf8'))
      expect(manifest.dependencies.longshore).toMatch(/^file:/)
      if (!needInstall.has(name) && !needServer.has(name))
        expect((await run([join(dir, 'handler.ts')])).code).toBe(0)
    }
  })

  it('overwrites nothing and knows its templates', async () => {
    const dir = temporaryDir()
    mkdirSync(join(dir, 'full'))
    writeFileSync(join(dir, 'full', 'mine.txt'), 'mine')
    const full = longshore(['init', 'hello', join(dir, 'full')])
    expect([await full.exit, readdirSync(join(dir, 'full'))]).toEqual([1, ['mine.txt']])
    const unknown = longshore(['init', 'nonsense', join(dir, 'x')])
    expect(await unknown.exit).toBe(1)
    expect(unknown.stderr).toContain('Choose one of hello, ocr, openai-proxy, stream-text, thumbnail.')
  })
})

describe('the templates', () => {
  const expected: Record<string, (record: { output?: unknown }) => void> = {
    hello: ({ output }) => expect(output).toEqual({ greeting: 'Hello, Ada!' }),
    'stream-text': ({ output }) =>
      expect((output as string[]).join('')).toBe('Each of these words is a chunk of its own.'),
    ocr: ({ output }) =>
      expect(output).toMatchObject([{ page: 1, text: expect.stringContaining('streets') }]),
  }
  const behindBucket = 'thumbnail'

  it(`${behindBucket} does what its test_input.json asks, on the files that come with it`, async () => {
    const dir = temporaryDir()
    cpSync(join(template(behindBucket), 'local-bucket'), join(dir, 'local-bucket'), { recursive: true })
    const { code, out, err } = await run([template(behindBucket)], dir)
    expect(code).toBe(0)
    expect(err).toContain(`There is no bucket: objects are kept as files in ${join(dir, 'local-bucket')}.`)
    const { thumbnails } = JSON.parse(out) as { thumbnails: { url: string; bytes: number }[] }
    expect(thumbnails).toMatchObject([{ height: 128 }, { height: 512 }])
    for (const { url, bytes } of thumbnails) expect(readFileSync(new URL(url))).toHaveLength(bytes)
  })

  // With one it is run in test/s3.
  it(`${behindBucket} says behind a queue that it wants a bucket`, async () => {
    const { endpointUrl, client } = await serve()
    await startWorker(endpointUrl, template(behindBucket))
    const record = await client.runsync({ input: { image: 'photo.jpg' } })
    expect(record).toMatchObject({ status: 'FAILED', error: { code: 'S3_NOT_CONFIGURED' } })
  })

  const alone = readdirSync(template('.')).filter((one) => one !== behindBucket && !needServer.has(one))
  for (const name of alone) {
    it(`${name} does what its test_input.json asks, on its own and behind a queue`, async () => {
      expect((await run([template(name)])).code).toBe(0)
      const { endpointUrl, client } = await serve()
      await startWorker(endpointUrl, template(name))
      const submission = JSON.parse(readFileSync(join(template(name), 'test_input.json'), 'utf8'))
      const record = await client.runsync(submission)
      expect(record.status).toBe('COMPLETED')
      expected[name]?.(record)
      expect(expected).toHaveProperty(name)
    })
  }
})

describe('an old Node', () => {
  it('is told in one sentence which one is needed', () => {
    const source = readFileSync(new URL('../../src/cli/main.ts', import.meta.url), 'utf8')
    const script = `Object.defineProperty(process.versions, 'node', { value: '20.20.2' })\n${source.replace(/^#!.*\n/, '')}`
    const { status, stderr } = spawnSync(process.execPath, ['--input-type=module-typescript', '-e', script], {
      encoding: 'utf8',
    })
    expect([status, stderr.trim().split('\n')]).toEqual([
      1,
      [expect.stringMatching(/^longshore needs Node 24 or newer, and this is Node 20\.20\.2/)],
    ])
  })
})
