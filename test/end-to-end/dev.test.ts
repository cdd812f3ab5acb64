import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Client } from '../../src/client/client.ts'
import { isRunning } from '../support/children.ts'
import { pasted, startDev, takenPort } from '../support/dev.ts'
import { KEY, longshore, main, temporaryDir } from '../support/processes.ts'

const says = (word: string): string => `export const word = '${word}'\n`

const handler = `import { setTimeout as sleep } from 'node:timers/promises'
import { word } from './parts/word.ts'
export default async ({ input }: { input: { ms?: number } }) => {
  if (input.ms) {
    console.log('begun')
    await sleep(input.ms)
  }
  return word
}
`
const files = { 'handler.ts': handler, 'parts/word.ts': says('old') }

/** The processes right below this one. */
function childrenOf(pid: number | undefined): number[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return all.map(Number).filter((child) => parentOf(child) === pid)
}

function parentOf(pid: number): number | undefined {
  try {
    // Behind the name, which may have anything in it: the state and the parent.
    return Number(/.*\) \S (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1])
  } catch {
    // It ended meanwhile.
    return undefined
  }
}

describe('longshore dev', () => {
  it('prints a curl that works as pasted, with the job that lies beside the handler', async () => {
    const dev = await startDev({
      'handler.ts': 'export default ({ input }: { input: unknown }) => input\n',
      'test_input.json': '{ "input": { "it\'s": "a test" } }\n',
    })
    expect(await pasted(dev.curl)).toMatchObject({ status: 'COMPLETED', output: { "it's": 'a test' } })
    expect(dev.stdout).toMatch(
      /^Serving http:\/\/127\.0\.0\.1:\d+\/v2\/default {2}\(jobs are kept in memory\)$/m,
    )
  })

  it('makes a key of its own, beside the one of the environment', async () => {
    const dev = await startDev(files, { env: { LONGSHORE_API_KEY: KEY } })
    expect(dev.key).not.toBe(KEY)
    expect(await pasted(dev.curl)).toMatchObject({ status: 'COMPLETED', output: 'old' })
    const endpointUrl = dev.curl.split(' ')[1]?.replace(/\/runsync$/, '') ?? ''
    const client = new Client({ endpointUrl, apiKey: KEY, attempts: 1 })
    onTestFinished(() => client.close())
    expect((await client.runsync({ input: {} })).output).toBe('old')
    const stranger = new Client({ endpointUrl, apiKey: 'another', attempts: 1 })
    onTestFinished(() => stranger.close())
    await expect(stranger.runsync({ input: {} })).rejects.toMatchObject({ status: 401 })
  })

  it('takes a free port where the usual one is taken, and refuses one that it was told to take', async () => {
    const port = await takenPort(8000)
    const dir = temporaryDir()
    writeFileSync(join(dir, 'handler.mjs'), 'export default () => 1\n')
    const dev = longshore(['dev', 'handler.mjs'], { cwd: dir })
    expect(await dev.says(/Serving http:\/\/127\.0\.0\.1:(\d+)/)).not.toBe(String(port))
    const refused = longshore(['dev', 'handler.mjs', '--port', String(port)], { cwd: dir })
    expect(await refused.exit).toBe(1)
    expect(refused.stderr).toContain(`Port ${port} on 127.0.0.1 is in use.`)
    expect(await dev.kill('SIGINT')).toBe(0)
  })

  it('refuses a handler that is not there', async () => {
    const dev = longshore(['dev', 'nowhere.ts'], { cwd: temporaryDir() })
    expect(await dev.exit).toBe(1)
    expect(dev.stderr).toContain('There is no handler at nowhere.ts')
  })

  it('says one line per job, at its end, below what its handler printed, and why it failed', async () => {
    const dev = await startDev({
      'handler.ts': `export default async function* ({ input }, { progress, log }) {
  console.log('printed')
  log.info('logged')
  progress({ half: true })
  yield 1
  yield 2
  if (input.fails) throw new RangeError('too far')
}
`,
    })
    const { id } = await dev.client.runsync({ input: {} })
    await dev.says(/COMPLETED/)
    const lines = dev.stdout.split('\n')
    const line = new RegExp(`^${id} {2}COMPLETED {2,}\\d+ ms {2}2 chunks {2}\\{"half":true\\}$`)
    expect(lines.filter((one) => one.includes(id))).toEqual([expect.stringMatching(line)])
    expect(lines.indexOf('printed')).toBeGreaterThan(0)
    expect(lines.indexOf('info: logged')).toBeGreaterThan(0)
    expect(lines.indexOf('printed')).toBeLessThan(lines.findIndex((one) => line.test(one)))
    await dev.client.runsync({ input: { fails: true } })
    await dev.says(/FAILED[^]*RangeError: too far \[HANDLER_ERROR\]\n {2}at handler\.ts:7:\d+\n {2}7 \| /)
  })

  it('says once that a handler is ready that wants a process for each job', async () => {
    const dev = await startDev({
      'handler.ts': 'export default { refresh: true, handler: () => process.pid }\n',
    })
    const pids = [await dev.answer(), await dev.answer(), await dev.answer()]
    expect(new Set(pids).size).toBe(3)
    expect(dev.stdout.match(/Handler ready/g)).toHaveLength(1)
  })

  it('ends when nobody reads on', () => {
    const dir = temporaryDir()
    writeFileSync(
      join(dir, 'handler.mjs'),
      'setInterval(() => console.log("more"), 100)\nexport default () => 1\n',
    )
    const command = `${process.execPath} --disable-warning=ExperimentalWarning ${main} dev handler.mjs --port 0 | head -n 1`
    const { status, stderr } = spawnSync('bash', ['-o', 'pipefail', '-c', command], {
      cwd: dir,
      encoding: 'utf8',
      timeout: 20_000,
    })
    expect([status, stderr]).toEqual([0, ''])
  })

  it('keeps files in ./local-bucket where no bucket is set', async () => {
    const dev = await startDev(
      {
        'handler.ts': `import { s3From } from 'longshore'
export default async () => (await s3From().upload('hello', { name: 'a.txt', key: 'a.txt' })).url
`,
      },
      { env: { BUCKET_ENDPOINT_URL: '', BUCKET_NAME: '' } },
    )
    expect(await dev.answer()).toBe(`file://${join(dev.dir, 'local-bucket', 'a.txt')}`)
    expect(existsSync(join(dev.dir, 'local-bucket', 'a.txt'))).toBe(true)
  })

  it('keeps jobs where it is told to', async () => {
    const dir = temporaryDir()
    const args = ['--store', `sqlite:${join(dir, 'queue.db')}`]
    const first = await startDev(files, { args })
    const { id } = await first.client.runsync({ input: {} })
    expect(await first.kill('SIGINT')).toBe(0)
    const second = await startDev(files, { args })
    expect(await second.client.status(id)).toMatchObject({ status: 'COMPLETED', output: 'old' })
  })
})

describe('a saved change', () => {
  it('takes effect, whichever way and wherever it was saved, and says what the start took', async () => {
    const dev = await startDev(files)
    expect(dev.stdout).toMatch(
      /^Handler ready: cold start \d+ ms \(runtime \d+, import \d+, setup \d+\), memory \d+ MB$/m,
    )
    expect(await dev.answer()).toBe('old')
    dev.save('parts/word.ts', says('written'))
    await dev.says(/^Reloaded in \d+ ms \(word\.ts\): cold start \d+ ms \(.+\), memory \d+ MB$/m)
    expect(await dev.answer()).toBe('written')
    dev.save('parts/word.ts.tmp', says('renamed'))
    renameSync(join(dev.dir, 'parts/word.ts.tmp'), join(dev.dir, 'parts/word.ts'))
    await dev.reloaded(2)
    expect(await dev.answer()).toBe('renamed')
    dev.save('handler.ts', handler.replace('return word', 'return word + "!"'))
    await dev.reloaded(3)
    expect(await dev.answer()).toBe('renamed!')
    // One that serves and one that stands ready, however many there were.
    await vi.waitUntil(() => childrenOf(dev.child.pid).length === 2, { timeout: 5_000 })
  })

  it('is one reload, however many saves there were in a burst', async () => {
    const dev = await startDev(files)
    for (let n = 1; n <= 10; n += 1) dev.save('parts/word.ts', says(`number ${n}`))
    await dev.reloaded(1)
    expect(await dev.answer()).toBe('number 10')
    dev.save('parts/word.ts', says('last'))
    await dev.reloaded(2)
    expect(await dev.answer()).toBe('last')
    expect(dev.reloads).toBe(2)
  })

  it('lets running jobs end as they began, and does not keep others waiting for that', async () => {
    const dev = await startDev(files)
    const long = dev.client.run({ input: { ms: 3_000 } })
    await dev.says(/begun/)
    dev.save('parts/word.ts', says('new'))
    await dev.says(/1 job goes on in the version that it began in\./)
    expect(await dev.answer()).toBe('new')
    const { id } = await long
    expect(await dev.client.status(id)).toMatchObject({ status: 'IN_PROGRESS' })
    await dev.says(new RegExp(`${id} {2}COMPLETED`))
    // The line comes with the end of the run, before the queue has heard of it.
    await expect
      .poll(() => dev.client.status(id), { timeout: 5_000 })
      .toMatchObject({ status: 'COMPLETED', output: 'old' })
  })

  const broken: [what: string, name: string, source: string, message: RegExp][] = [
    [
      'has a syntax error',
      'parts/word.ts',
      `${says('new')}\nexport const x = (]\nexport const y = 1\n`,
      /^Cannot load handler\.ts: SyntaxError: .* at parts\/word\.ts:3\. .*\n {2}1 \| export const word = 'new'\n {2}2 \|\n> 3 \| export const x = \(\]\n {2}4 \| export const y = 1\nThe version before goes on serving\.$/m,
    ],
    [
      'throws where it is imported',
      'parts/word.ts',
      `${says('new')}throw new Error('no such word')\n`,
      /^Cannot load handler\.ts: Error: no such word at parts\/word\.ts:2\. .*\n.*\n> 2 \| throw new Error\('no such word'\)\nThe version before goes on serving\.$/m,
    ],
    [
      'fails in its setup',
      'handler.ts',
      'export default {\n  setup() {\n    throw new Error("no model")\n  },\n  handler: () => 1,\n}\n',
      /^setup\(\) of handler\.ts failed: no model .*\n[^]*^> 3 \|[^]*^The version before goes on serving\.$/m,
    ],
  ]
  it(`that ${broken.map(([what]) => what).join(', or ')} leaves the version before serving, and shows the line`, async () => {
    const dev = await startDev(files)
    for (const [at, [what, name, source, message]] of broken.entries()) {
      const good = await dev.answer()
      dev.save(name, source)
      await dev.says(message)
      expect(await dev.answer(), what).toBe(good)
      dev.save('handler.ts', handler)
      dev.save('parts/word.ts', says(`mended ${at}`))
      await dev.reloaded(at + 1)
      expect(await dev.answer(), what).toBe(`mended ${at}`)
    }
  })

  it('mends a handler that could not be loaded from the start, and then runs what has come meanwhile', async () => {
    const dev = await startDev(
      { 'handler.ts': handler },
      { says: /Nothing serves as long as that is so: jobs wait, and the next save is tried\./ },
    )
    expect(dev.stdout).toMatch(
      /Cannot load handler\.ts: .*\/parts\/word\.ts' at handler\.ts:2\. Check the path of that import\.\n[^]*> 2 \| import \{ word \}/,
    )
    const { id } = await dev.client.run({ input: {} })
    dev.save('parts/word.ts', says('there'))
    await dev.says(new RegExp(`${id} {2}COMPLETED`))
    expect(await dev.answer()).toBe('there')
  })

  it('counts also while the handler is still loading, which is told of before long', async () => {
    const dev = await startDev(
      {
        'handler.ts':
          'console.log("loading")\nawait new Promise(() => setInterval(() => undefined, 60_000))\n',
      },
      { says: /^loading$/m },
    )
    await dev.says(/^handler\.ts is still being imported \(\d+ s\); jobs wait\.$/m)
    dev.save('handler.ts', 'export default () => "quick"\n')
    await dev.reloaded(1)
    expect(await dev.answer()).toBe('quick')
  })

  it('is the removal of the handler as well: the version before serves until it is back', async () => {
    const dev = await startDev(files)
    rmSync(join(dev.dir, 'handler.ts'))
    await dev.says(/There is no handler at handler\.ts[^]*The version before goes on serving\./)
    expect(await dev.answer()).toBe('old')
    dev.save('handler.ts', handler.replace('return word', 'return "back"'))
    await dev.reloaded(1)
    expect(await dev.answer()).toBe('back')
  })
})

describe('Ctrl-C', () => {
  /** A job that stops for nothing, and the program that it has started. */
  const stubborn = `import { spawn } from 'node:child_process'
process.on('SIGTERM', () => undefined)
export default () => {
  const { pid } = spawn(process.execPath, ['-e', 'setTimeout(() => undefined, 60_000)'])
  console.log('pids', process.pid, pid)
  return new Promise(() => setInterval(() => undefined, 1_000))
}
`

  it.each<NodeJS.Signals[][]>([
    [['SIGINT']],
    // Two of a kind may arrive as one.
    [['SIGINT', 'SIGTERM']],
  ])('leaves nothing running, whatever the handler does, at %j', async (signals) => {
    const dev = await startDev({ 'handler.ts': stubborn })
    await dev.client.run({ input: {} })
    const pids = (await dev.says(/pids (\d+ \d+)/)).split(' ').map(Number)
    const all = [...pids, ...childrenOf(dev.child.pid)]
    const at = performance.now()
    for (const signal of signals) dev.child.kill(signal)
    expect(await dev.exit).toBe(0)
    expect(performance.now() - at).toBeLessThan(5_000)
    await vi.waitUntil(() => all.every((pid) => !isRunning(pid)), { timeout: 2_000 })
    expect(dev.stderr).toBe('')
  })

  // The first listener is there before anything is loaded, and the second is the command's own.
  it.each([1, 2])(
    'ends it without a greeting while it starts, once there are %d that listen',
    (listeners) => {
      const dir = temporaryDir()
      writeFileSync(
        join(dir, 'handler.mjs'),
        'await new Promise(() => setInterval(() => undefined, 60_000))\n',
      )
      const spy = `let left = ${listeners}
process.on('newListener', (name) => {
  if (name === 'SIGINT' && --left === 0) setImmediate(() => process.kill(process.pid, 'SIGINT'))
})`
      const preload = `data:text/javascript,${encodeURIComponent(spy)}`
      const args = [
        '--disable-warning=ExperimentalWarning',
        '--import',
        preload,
        main,
        'dev',
        'handler.mjs',
        '--port',
        '0',
      ]
      const { status, stdout, stderr } = spawnSync(process.execPath, args, {
        cwd: dir,
        encoding: 'utf8',
        timeout: 10_000,
      })
      expect([status, stderr]).toEqual([0, ''])
      expect(stdout).not.toContain('Serving')
    },
  )

  it('ends it also while nothing can be loaded', async () => {
    const dev = await startDev({ 'handler.ts': 'export default (\n' }, { says: /Nothing serves/ })
    const children = childrenOf(dev.child.pid)
    expect(await dev.kill('SIGINT')).toBe(0)
    await vi.waitUntil(() => children.every((pid) => !isRunning(pid)), { timeout: 2_000 })
  })
})

describe('on a terminal', () => {
  interface Terminal {
    press(keys: string): void
    says(pattern: RegExp): Promise<void>
    readonly said: string
    exit: Promise<unknown>
  }

  function onTerminal(dir: string): Terminal {
    const command = `stty cols 100; exec ${process.execPath} --disable-warning=ExperimentalWarning ${main} dev handler.ts --port 0`
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      cwd: dir,
      env: { ...process.env, LONGSHORE_API_KEY: '', TERM: 'xterm', SHELL: '/bin/bash' },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
    const exit = once(child, 'exit').then(([code]) => code as unknown)
    onTestFinished(async () => {
      child.kill('SIGHUP')
      await exit
    })
    return {
      exit,
      get said() {
        return said
      },
      press: (keys) => child.stdin.write(keys),
      says: (pattern) => vi.waitUntil(() => pattern.test(said), { timeout: 15_000 }).then(() => undefined),
    }
  }

  it('sends the job beside the handler at Enter, and draws its line again as it goes on, below what is printed', async () => {
    const dir = temporaryDir()
    const sample = join(dir, 'test_input.json')
    writeFileSync(
      join(dir, 'handler.ts'),
      `import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
export default async function* ({ input }, { progress }) {
  for (let n = 1; n <= input.n; n += 1) {
    console.log('at ' + n + '\\u001b[2J')
    progress(n + ' of ' + input.n)
    yield n
    while (!existsSync(input.seen + n)) await sleep(5)
  }
}
`,
    )
    const terminal = onTerminal(dir)
    await terminal.says(
      /Enter sends test_input\.json, once it is there · r loads the handler again · Ctrl-C ends/,
    )
    await terminal.says(/Handler ready/)
    terminal.press('\r')
    await terminal.says(/There is no test_input\.json\. Write one/)
    writeFileSync(sample, '{ bad')
    terminal.press('\r')
    await terminal.says(/^test_input\.json: .+/m)
    const seen = join(temporaryDir(), 'seen')
    writeFileSync(sample, JSON.stringify({ input: { n: 3, seen } }))
    terminal.press('\r')
    // Drawn while it ran, taken back each time, and left once.
    for (const n of [1, 2, 3]) {
      await terminal.says(new RegExp(`IN_PROGRESS.*${n} of 3`))
      writeFileSync(seen + n, '')
    }
    await terminal.says(/COMPLETED/)
    expect(terminal.said.match(/COMPLETED/g)).toHaveLength(1)
    expect(terminal.said).toContain('\u001b[1A\u001b[0J')
    expect(terminal.said).not.toContain('\u001b[2J')
    expect(terminal.said).toContain('at 3\r\n')
    terminal.press('r')
    await terminal.says(/Reloaded in \d+ ms \(asked for\)/)
    terminal.press('\u0003')
    expect(await terminal.exit).toBe(0)
    expect(readdirSync(dir).toSorted()).toEqual(['handler.ts', 'test_input.json'])
  })
})
