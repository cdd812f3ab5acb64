import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { variableOf, type Setting } from '../../src/config/setting.ts'
import { settingKeys, settings, type SettingKey } from '../../src/config/settings.ts'
import { fixture, longshore, temporaryDir } from '../support/processes.ts'

interface Said {
  code: unknown
  out: string
  err: string
}

async function run(
  args: string[],
  { cwd = temporaryDir(), env = {} }: { cwd?: string; env?: Record<string, string> } = {},
): Promise<Said> {
  const child = longshore(args, { cwd, env })
  const code = await child.exit
  return { code, out: child.stdout, err: child.stderr }
}

function folderWith(config: string, name = 'longshore.config.ts'): string {
  const dir = temporaryDir()
  writeFileSync(join(dir, name), config)
  return dir
}

const typed = `import { defineConfig } from 'longshore'
export default defineConfig({ port: 9001, host: '::1', store: 'redis://:hush@h:1', webhookSecret: 'hush', endpointUrl: 'http://me:hush@h/v2/a' })
`

describe('longshore config', () => {
  it('prints each setting of a command and where it came from, secrets masked', async () => {
    const { code, out, err } = await run(['config', 'serve', '--port', '9000'], { cwd: folderWith(typed) })
    expect([code, err]).toEqual([0, ''])
    const rows = out
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split(/ {2,}/))
    expect(rows).toContainEqual(['port', '9000', '--port'])
    expect(rows).toContainEqual(['host', '::1', 'host in longshore.config.ts'])
    expect(rows).toContainEqual(['apiKey', '[masked]', 'LONGSHORE_API_KEY'])
    expect(rows).toContainEqual(['webhookSecret', '[masked]', 'webhookSecret in longshore.config.ts'])
    expect(rows).toContainEqual(['redisWait', '0', 'default'])
    expect(out).not.toMatch(/hush|concurrency/)
  })

  it('takes a flag for the setting of the command, and refuses those of others', async () => {
    const { code, out } = await run(['config', 'dev', '--store', 'sqlite:mine.db'])
    expect(code).toBe(0)
    expect(out).toMatch(/^devStore +sqlite:mine\.db +--store$/m)
    const refused = await run(['config', 'dev', '--concurrency', '4'])
    expect([refused.code, refused.err]).toEqual([1, '--concurrency is no setting of longshore dev.\n'])
  })

  it('prints all of them as JSON', async () => {
    const { code, out } = await run(['config', '--json'], {
      cwd: folderWith(typed),
      env: { LONGSHORE_SPARE: 'warm' },
    })
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      port: { value: 9001, from: 'port in longshore.config.ts' },
      spare: { value: 'warm', from: 'LONGSHORE_SPARE' },
      concurrency: { value: null, from: 'default' },
      endpointUrl: { value: 'http://[masked]@h/v2/a' },
    })
    expect(out).not.toContain('hush')
  })

  it('masks every secret, wherever it was said', async () => {
    const secrets = settingKeys.filter((key) => (settings[key] as Setting).isSecret)
    const said = (key: SettingKey): string => `hush-hush-of-${key}`
    const config = Object.fromEntries(secrets.map((key) => [key, said(key)]))
    const cwd = folderWith(`export default ${JSON.stringify(config)}`, 'longshore.config.mjs')
    const env = Object.fromEntries(secrets.map((key) => [variableOf(key, settings[key]), said(key)]))
    const none = Object.fromEntries(Object.keys(env).map((name) => [name, '']))
    // Of the two that refuse to be empty the variable counts.
    const { code, out } = await run(['config', '--json'], {
      cwd,
      env: { ...none, LONGSHORE_WORKER_TOKEN: 'hush-hush' },
    })
    const other = await run(['config', '--json'], { env })
    expect([code, other.code]).toEqual([0, 0])
    for (const shown of [out, other.out]) {
      const values = JSON.parse(shown) as Record<string, unknown>
      for (const key of secrets) expect(values[key]).toMatchObject({ value: '[masked]' })
      expect(shown).not.toContain('hush')
    }
  })

  it('ends in silence when its reader has had enough', async () => {
    const child = longshore(['config', '--json'])
    child.child.stdout?.destroy()
    expect([await child.exited, child.stderr]).toEqual([0, ''])
  })

  it('shows what the hosted platform set, its key masked', async () => {
    const url = 'https://host/v2/ep/x/$ID?key=hush'
    const { code, out } = await run(['config', 'start', '--json'], {
      env: {
        RUNPOD_WEBHOOK_GET_JOB: url,
        RUNPOD_WEBHOOK_POST_OUTPUT: url,
        RUNPOD_WEBHOOK_POST_STREAM: url,
        RUNPOD_AI_API_KEY: 'hush',
      },
    })
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      RUNPOD_WEBHOOK_GET_JOB: { value: 'https://host/v2/ep/x/$ID?[masked]', from: 'RUNPOD_WEBHOOK_GET_JOB' },
      RUNPOD_AI_API_KEY: { value: '[masked]' },
      RUNPOD_PING_INTERVAL: { value: 10_000, from: 'default' },
    })
    expect(out).not.toContain('hush')
  })

  it('tells what is wrong on stderr, and exits with 1', async () => {
    const { code, err } = await run(['config', 'start', '--concurrency', '0', '--port', '1'], {
      env: { LONGSHORE_DRAIN_MSS: '1', LONGSHORE_KILL_GRACE_MS: 'soon' },
    })
    expect(code).toBe(1)
    expect(err.split('\n')).toEqual([
      'Warning: LONGSHORE_DRAIN_MSS is no variable of longshore. Did you mean LONGSHORE_DRAIN_MS?',
      'LONGSHORE_ENDPOINT_URL must be set to the URL of an endpoint, as in http://127.0.0.1:8000/v2/default.',
      'LONGSHORE_WORKER_TOKEN must be set to a worker token or an API key of the queue.',
      '--concurrency must be a whole number from 1 to 1000.',
      'LONGSHORE_KILL_GRACE_MS must be a whole number of ms from 0 to 604800000.',
      '--port is no setting of a worker.',
      '',
    ])
  })
})

describe('all problems are told at once', () => {
  it.each([
    [
      'config dev --port x --prot=3 --log-level zz',
      [
        '--port must be a port',
        '--log-level must be one of',
        '--prot is no flag of longshore config. Did you mean --port?',
      ],
    ],
    [
      'start --concurency 3 --prot 3 h.ts --spare x',
      [
        'LONGSHORE_ENDPOINT_URL must be set',
        'LONGSHORE_WORKER_TOKEN must be set',
        "--spare must be none, bare or warm, got 'x'",
        '--concurency is no flag of longshore start. Did you mean --concurrency?',
        '--prot is no flag of longshore start.',
      ],
    ],
    ['keys revoke --sotre x', ['--sotre is no flag of longshore keys revoke. Did you mean --store?']],
    ['run --test_inputs x', ['--test_inputs is no flag of longshore run. Did you mean --test-input?']],
    [
      'start --worker-token x',
      ['--worker-token is no flag of longshore start. Did you mean --worker-token-file?'],
    ],
    ['config strat', ["'strat' is no command with settings. Choose one of dev,", ' Did you mean start?']],
    ['doctor --live --fixx', ['--fixx is no flag of longshore doctor.']],
  ])('by longshore %s', async (line, says) => {
    const { code, err } = await run(line.split(' '), { env: { LONGSHORE_LIVE_SOCKET: '/nowhere' } })
    expect(code).toBe(1)
    for (const sentence of says) expect(err).toContain(sentence)
  })
})

describe('the config file', () => {
  it('is what a service and a worker go by', async () => {
    const dir = folderWith(
      `export default { store: 'sqlite:mine.db', port: 0, endpoints: ['ocr'], apiKey: 'file-key', workerToken: 'file-key', handler: ${JSON.stringify(fixture('echo.ts'))}, endpointUrl: process.env.AT, logLevel: 'debug' }`,
      'longshore.config.mjs',
    )
    const server = longshore(['serve'], { cwd: dir, env: { LONGSHORE_API_KEY: '', LONGSHORE_HOTS: '::1' } })
    await server.says(/LONGSHORE_HOTS is no variable of longshore\. Did you mean LONGSHORE_HOST\?/)
    const endpointUrl = await server.says(/Serving (\S+\/v2\/ocr)/)
    const worker = longshore(['start'], { cwd: dir, env: { AT: endpointUrl, LONGSHORE_SPAER: 'warm' } })
    await worker.says(/LONGSHORE_SPAER is no variable of longshore\. Did you mean LONGSHORE_SPARE\?/)
    await worker.says(/ready after/)
    expect(await worker.kill('SIGTERM')).toBe(0)
    expect(await server.kill('SIGTERM')).toBe(0)
  })

  it('gives a bucket to handlers, and a job to run its handler', async () => {
    const dir = folderWith(
      `export default { handler: 'handler.mjs', bucketName: 'photos', bucketAccessKeyId: 'id-of-mine', bucketSecretAccessKey: 'hush-hush', allowPrivateDownloads: true }`,
      'longshore.config.js',
    )
    writeFileSync(join(dir, 'package.json'), '{"type":"module"}')
    writeFileSync(
      join(dir, 'handler.mjs'),
      'export default () => [process.env.BUCKET_NAME, process.env.BUCKET_ACCESS_KEY_ID.length, process.env.LONGSHORE_ALLOW_PRIVATE_DOWNLOADS]',
    )
    const { code, out } = await run(['run', '--test-input', '{"input":{}}'], { cwd: dir })
    expect([code, JSON.parse(out)]).toEqual([0, ['photos', 10, 'true']])
  })

  it('may be another one, and TypeScript that Node cannot strip', async () => {
    const dir = temporaryDir()
    mkdirSync(join(dir, 'sub'))
    writeFileSync(
      join(dir, 'sub', 'mine.ts'),
      'enum Port { Mine = 9002 }\nexport default { port: Port.Mine }\n',
    )
    const { code, out } = await run(['config', 'serve', '--config', 'sub/mine.ts'], { cwd: dir })
    expect(code).toBe(0)
    expect(out).toMatch(/port +9002 +port in sub\/mine\.ts/)
  })

  const refused: [what: string, config: string, says: RegExp][] = [
    [
      'has a typo',
      'export default { prot: 1 }',
      /^prot in longshore\.config\.ts is no setting\. Did you mean port\?$/m,
    ],
    ['has a syntax error', 'export default {\n  port: = 1\n}', /Cannot load longshore\.config\.ts: .*:2/],
    [
      'exports no object',
      'export default 1',
      /longshore\.config\.ts has no default export that is an object/,
    ],
    [
      'imports what is missing',
      'import "nowhere-to-be-found"',
      /^Cannot load .* beside the config file: npm install nowhere-to-be-found\.$/m,
    ],
    [
      'throws',
      'throw new Error("no")',
      /^Cannot load longshore\.config\.ts: Error: no at .*:1\. Mend it there\.$/m,
    ],
    [
      'has a getter that throws',
      'export default { get port() { throw new Error("no") } }',
      /^Cannot read the settings of longshore\.config\.ts: Error: no\./,
    ],
    ['exports a Map', 'export default new Map([["port", 1]])', /no default export that is an object/],
    ['exports a date', 'export default new Date()', /no default export that is an object/],
    ['is empty', '', /no default export that is an object/],
    [
      'waits for what never comes',
      'await new Promise(() => {})\nexport default {}',
      /^longshore\.config\.ts never finished loading/,
    ],
  ]
  it.each(refused)('is refused in a sentence when it %s', async (_, config, says) => {
    const { code, err } = await run(['serve'], { cwd: folderWith(config) })
    expect(code).toBe(1)
    expect(err).toMatch(says)
    expect(err).not.toMatch(/^ {4}at |handler|setup|HANDLER/m)
  })

  it.each([
    ['.', /^'\.' is a folder, and --config names a file\./],
    ['c.json', /^The config file c\.json is neither TypeScript nor JavaScript\./],
  ])('is no %s', async (name, says) => {
    const { code, err } = await run(['config', '--config', name], { cwd: folderWith('{}', 'c.json') })
    expect([code, err]).toEqual([1, expect.stringMatching(says)])
  })

  it('may have no settings', async () => {
    expect((await run(['config'], { cwd: folderWith('export default {}') })).code).toBe(0)
  })

  it('is refused when there are two, or not the one that is named', async () => {
    const dir = folderWith('export default {}')
    writeFileSync(join(dir, 'longshore.config.mjs'), 'export default {}')
    expect((await run(['config'], { cwd: dir })).err).toContain(
      'There are longshore.config.ts and longshore.config.mjs, and only one can count.',
    )
    expect((await run(['config', '--config', 'no.ts'], { cwd: dir })).err).toContain(
      'There is no config file no.ts.',
    )
  })

  it('is asked for a handler where none is named', async () => {
    const { code, err } = await run(['run'])
    expect([code, err]).toEqual([
      1,
      'No handler is named. Give its file, as in longshore run handler.ts, or set handler in longshore.config.ts.\n',
    ])
  })
})
