// Every command that a page shows in a block of its own, run as it stands there, page by page, in a checkout of its own.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { temporaryDir } from '../support/processes.ts'
import { allPages, commandsOf } from './markdown.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Run elsewhere, because they take long or something that not every machine has: where, and by which words there. */
const elsewhere: readonly [RegExp, string, string][] = [
  [/^npm ci$/, '.ci/run', 'npm ci'],
  [/^(npm ci && )?npm test$/, '.ci/run', 'npm test'],
  [/^npm run check$/, '.ci/run', 'npm run check'],
  [/^(npm ci && )?npm run demo$/, 'test/end-to-end/demo.test.ts', "'run', 'demo'"],
  [/^docker build -f Dockerfile\.base /, 'test/image/image.test.ts', "'Dockerfile.base'"],
  [/longshore build /, 'test/image/image.test.ts', "'build', handler, '--tag'"],
  [/^docker run /, 'test/image/image.test.ts', "command.startsWith('docker run ')"],
  [/completion (?:zsh|fish)/, 'test/cli/completion.test.ts', "'zsh'"],
  [/ migrate .*redis:/, 'test/store/migrate.test.ts', "'migrate', '--from'"],
]

const SERVE = 'LONGSHORE_API_KEY=dev-key npx longshore serve'
const START =
  'LONGSHORE_ENDPOINT_URL=http://127.0.0.1:8000/v2/default LONGSHORE_WORKER_TOKEN=dev-key npx longshore start templates/hello/handler.ts'
const SUBMIT = `curl http://127.0.0.1:8000/v2/default/run -H 'Authorization: Bearer dev-key' -d '{"input":{"name":"Ada"}}'`

/** What a page takes for granted. */
const before: Record<string, readonly string[]> = {
  'docs/configuration.md': [SERVE],
  'docs/fleet.md': [SERVE],
  'docs/http-api.md': [SERVE, START],
}

/** What goes on until it is stopped, and what it says once it is there. */
const lasting: readonly [RegExp, RegExp][] = [
  [/longshore serve/, /Serving http/],
  [/longshore start/, /ready after/],
  [/longshore dev/, /curl http/],
]

// Those of a template are run in its folder, by the tests of `longshore init`.
const pages = allPages()
  .filter(({ path }) => !path.startsWith('templates/'))
  .map((page) => ({ path: page.path, commands: commandsOf(page) }))
  .filter(({ commands }) => commands.some((command) => !isRunElsewhere(command)))

describe('the commands of', () => {
  it.each(pages)('$path do what they are shown for', { timeout: 60_000 }, async ({ path, commands }) => {
    const checkout = new Checkout(await freePort())
    for (const command of [...(before[path] ?? []), ...commands])
      if (!isRunElsewhere(command)) await checkout.run(command)
  })

  it('other tests are run there', () => {
    const missing = elsewhere.filter(
      ([, file, words]) => !readFileSync(`${root}${file}`, 'utf8').includes(words),
    )
    expect(missing).toEqual([])
  })
})

function isRunElsewhere(command: string): boolean {
  return elsewhere.some(([shown]) => shown.test(command))
}

/** What a clone has after `npm ci`, with a port of its own for the usual one. */
class Checkout {
  readonly #dir = temporaryDir()
  readonly #port: number
  readonly #env: NodeJS.ProcessEnv
  #lastId = ''
  /** What listens on the port: a reader ends it before they start another. */
  #listening: Shell | undefined

  constructor(port: number) {
    this.#port = port
    for (const name of ['package.json', 'dist', 'templates'])
      cpSync(`${root}${name}`, `${this.#dir}/${name}`, { recursive: true })
    cpSync(`${root}templates/hello/handler.ts`, `${this.#dir}/handler.ts`)
    symlinkSync(`${root}node_modules`, `${this.#dir}/node_modules`)
    // npx builds the package of a checkout before it runs it; here it is built.
    const bin = `${this.#dir}/bin`
    mkdirSync(bin)
    const run = `exec '${process.execPath}' '${this.#dir}/dist/cli/main.js' "$@"\n`
    writeFileSync(`${bin}/longshore`, `#!/bin/sh\n${run}`, { mode: 0o755 })
    writeFileSync(`${bin}/npx`, `#!/bin/sh\n[ "$1" = longshore ] || exit 1\nshift\n${run}`, { mode: 0o755 })
    // The service that commands ask unless they are told otherwise.
    const asked = { LONGSHORE_SERVICE_URL: `http://127.0.0.1:${port}` }
    this.#env = { ...process.env, ...asked, PATH: `${bin}:${process.env['PATH']}` }
  }

  async run(shown: string): Promise<void> {
    if (shown.includes('<id>') && this.#lastId === '') await this.run(SUBMIT)
    const command = shown
      .replace(/longshore (?:serve|dev)(?!.*--port)/, '$& --port 8000')
      .replaceAll('8000', String(this.#port))
      .replaceAll('<id>', this.#lastId)
    const says = lasting.find(([words]) => words.test(command))?.[1]
    const listens = /longshore (?:serve|dev)/.test(command)
    if (listens) await this.#listening?.end()
    const shell = new Shell(command, { cwd: this.#dir, env: this.#env })
    if (listens) this.#listening = shell
    if (says) return shell.says(says)
    const said = await shell.ended()
    this.#lastId = /"id":"([^"]+)"/.exec(said)?.[1] ?? this.#lastId
  }
}

/** One command line in bash, ended with all that it started when the test is over. */
class Shell {
  readonly #command: string
  readonly #exit: Promise<number | NodeJS.Signals>
  readonly #child
  #said = ''

  constructor(command: string, place: { cwd: string; env: NodeJS.ProcessEnv }) {
    this.#command = command
    // Of a group of its own, as in a terminal: npx is not the only process of it.
    this.#child = spawn('bash', ['-c', command], {
      ...place,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => void (this.#said += text))
    this.#exit = once(this.#child, 'close').then(([code, signal]) => code ?? signal)
    onTestFinished(() => this.end())
  }

  async end(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.pid !== undefined)
      process.kill(-this.#child.pid, 'SIGINT')
    await this.#exit
  }

  async says(words: RegExp): Promise<void> {
    await expect.poll(() => this.#said, { timeout: 20_000, message: this.#command }).toMatch(words)
  }

  /** What it said; it is to end well, and what it asked a service is to be answered. */
  async ended(): Promise<string> {
    expect(await this.#exit, `${this.#command}\n${this.#said}`).toBe(0)
    expect(this.#said, this.#command).not.toMatch(/"error":|"code":"[A-Z_]+"/)
    return this.#said
  }
}
