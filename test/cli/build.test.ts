import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fixture, longshore, main, template, temporaryDir } from '../support/processes.ts'
import { packageFiles, project } from '../support/project.ts'

interface Built {
  code: number | NodeJS.Signals
  stdout: string
  stderr: string
}

async function build(
  args: string[],
  options: { env?: Record<string, string>; cwd?: string } = {},
): Promise<Built> {
  const process = longshore(['build', ...args], options)
  const code = await process.exit
  return { code, stdout: process.stdout, stderr: process.stderr }
}

/** Runs one job of the handler in the folder, and gives its output. */
function run(dir: string): unknown {
  const words = [main, 'run', 'handler.js', '--test-input', '{"input":{"what":"tell"}}']
  return JSON.parse(
    execFileSync(process.execPath, words, {
      cwd: dir,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  )
}

describe('longshore build --out', () => {
  it('writes a Dockerfile and one file that runs, of a handler in several', async () => {
    const out = join(temporaryDir(), 'out')
    expect(
      await build([fixture('for-an-image.ts'), '--base', 'registry/base:2', '--out', out]),
    ).toMatchObject({ code: 0 })
    expect(readdirSync(out).toSorted()).toEqual([
      '.dockerignore',
      'Dockerfile',
      'handler.js',
      'handler.js.map',
      'package.json',
    ])
    expect(readFileSync(join(out, 'Dockerfile'), 'utf8')).toBe(
      'ARG BASE=registry/base:2\nFROM $BASE\nCOPY . .\nCMD ["longshore", "start", "handler.js"]\n',
    )
    expect(run(out)).toMatchObject({ colour: 'red' })
  })

  it('bundles what it can, and installs what asks for its place, has native code, or is found by name', async () => {
    const dir = project({
      'handler.ts': `import plain from 'plain'
        import 'outer'
        import { createRequire } from 'node:module'
        const require = createRequire(import.meta.url)
        const __dirname = 'mine'
        export const named = () => require.resolve('by-name/data.txt')
        export default () => plain + __dirname`,
      'package.json': '{"dependencies":{"plain":"1","outer":"1","by-name":"1","unused":"1"}}',
      ...packageFiles('plain', '1.0.0', `module.exports = require('node:path').sep`),
      ...packageFiles(
        'outer',
        '1.0.0',
        `require('placed'); require('native'); require('dynamic'); import('meta')`,
      ),
      ...packageFiles('meta', '6.0.0', 'const { dirname } = import.meta; export { dirname }'),
      ...packageFiles('placed', '1.2.3', 'module.exports = __dirname'),
      ...packageFiles('native', '2.0.0', `try { require('./build/native.node') } catch {}`),
      'node_modules/native/build/native.node': '\u0000',
      ...packageFiles('dynamic', '3.0.0', 'module.exports = (name) => require(name)'),
      ...packageFiles('by-name', '4.0.0', ''),
      ...packageFiles('unused', '5.0.0', ''),
    })
    const out = join(dir, 'out')
    expect(await build(['handler.ts', '--out', out], { cwd: dir })).toMatchObject({ code: 0, stderr: '' })
    const manifest = JSON.parse(readFileSync(join(out, 'package.json'), 'utf8')) as { dependencies: object }
    const installed = {
      placed: '1.2.3',
      native: '2.0.0',
      dynamic: '3.0.0',
      'by-name': '4.0.0',
      meta: '6.0.0',
    }
    expect(manifest.dependencies).toEqual(installed)
    const line = readFileSync(join(out, 'Dockerfile'), 'utf8').split('\n')[2] ?? ''
    expect(line.split(' ').slice(0, 3)).toEqual(['RUN', 'npm', 'install'])
    expect(line).toMatch(/ --cache \/tmp\/npm && rm -r \/tmp\/npm$/)
    expect(line.split(' ').slice(3, -6).toSorted()).toEqual([
      'by-name@4.0.0',
      'dynamic@3.0.0',
      'meta@6.0.0',
      'native@2.0.0',
      'placed@1.2.3',
    ])
    // Beside what is installed, here by the folder above.
    expect(run(out)).toBe('/mine')
  })

  it('installs a package by its own name where it goes by another, and none that only installed ones import', async () => {
    const dir = project({
      'handler.ts': `import 'alias'\nexport default () => 1`,
      'node_modules/alias/package.json': '{"name":"@of/real","version":"1.2.3","main":"index.js"}',
      'node_modules/alias/index.js': `require('bindings'); module.exports = __dirname`,
      ...packageFiles('bindings', '1.5.0', 'module.exports = __filename'),
    })
    const out = join(dir, 'out')
    expect(await build(['handler.ts', '--out', out], { cwd: dir })).toMatchObject({ code: 0 })
    expect(readFileSync(join(out, 'Dockerfile'), 'utf8')).toContain(
      'RUN npm install alias@npm:@of/real@1.2.3 --cache',
    )
    const manifest = JSON.parse(readFileSync(join(out, 'package.json'), 'utf8')) as { dependencies: object }
    expect(manifest.dependencies).toEqual({ alias: 'npm:@of/real@1.2.3' })
  })

  it('gives npm the settings of a registry that is not the public one, and refuses what is from none', async () => {
    const tryOut = (locked: object, wish = '1'): [string, Promise<Built>] => {
      const dir = project({
        'handler.ts': `import 'mine'\nexport default () => 1`,
        'package.json': JSON.stringify({ dependencies: { mine: wish } }),
        'node_modules/.package-lock.json': JSON.stringify({ packages: { 'node_modules/mine': locked } }),
        ...packageFiles('mine', '1.0.0', 'module.exports = __dirname'),
      })
      return [dir, build(['handler.ts', '--out', join(dir, 'out')], { cwd: dir })]
    }
    const [dir, built] = tryOut({ resolved: 'https://npm.mine.example/mine/-/mine-1.0.0.tgz' })
    expect((await built).stdout).toContain('come from npm.mine.example')
    expect(readFileSync(join(dir, 'out/Dockerfile'), 'utf8')).toMatch(
      /^RUN --mount=type=secret,id=npmrc,\S*required=true NPM_CONFIG_USERCONFIG=\S+ npm install mine@1\.0\.0 /m,
    )
    const [, open] = tryOut({ resolved: 'https://registry.npmjs.org/mine/-/mine-1.0.0.tgz' }, '~1.0.0')
    expect((await open).stdout).not.toContain('come from')
    const refused = await Promise.all([
      tryOut({ resolved: 'git+ssh://git@github.com/me/mine.git#0af' })[1],
      tryOut({ resolved: 'file:../mine.tgz' })[1],
      tryOut({ resolved: '../mine', link: true })[1],
      tryOut({}, 'me/mine')[1],
    ])
    for (const { code, stderr } of refused) {
      expect(code).toBe(1)
      expect(stderr).toMatch(/^The package mine cannot be bundled.* it is from .*mine/)
    }
  })

  it('keeps the place of files in folders, and warns of what it cannot follow', async () => {
    const dir = project({
      'handler.ts': `import { read } from './lib/read.ts'
        import { basename } from 'node:path'
        const load = (name: string) => import(name)
        export default async () => [read(), basename(import.meta.filename), (await load('node:os')).EOL]`,
      'lib/read.ts': `import { readFileSync } from 'node:fs'
        import { Worker } from 'node:worker_threads'
        import { basename } from 'node:path'
        export const thread = () => new Worker(new URL('./thread.js', import.meta.url))
        export const read = () => readFileSync(new URL('./a.txt', import.meta.url), 'utf8') + basename(__dirname)`,
      'lib/a.txt': 'text of ',
    })
    const out = join(temporaryDir(), 'out')
    const { stderr } = await build(['handler.ts', '--out', out, '--include', 'lib/a.txt'], { cwd: dir })
    expect(stderr).toMatch(/Warning: a module is imported by a name .* at handler\.ts:3:\d+: /)
    expect(stderr).toMatch(/Warning: a thread is started at lib\/read\.ts:4:1: .* --include/)
    expect(stderr.trim().split('\n')).toHaveLength(2)
    expect(run(out)).toEqual(['text of lib', 'handler.js', '\n'])
  })

  it('warns of threads, processes and files by whatever name they are asked for', async () => {
    const dir = project({
      'handler.ts': `import './lib/threads.ts'
        import './lib/processes.ts'
        import './lib/required.ts'
        import './lib/renamed.ts'
        import './lib/typed.ts'
        import './lib/extended.ts'
        export default () => 1`,
      'lib/threads.ts': `import * as threads from 'node:worker_threads'
        import { Worker as Thread } from 'worker_threads'
        // new Thread('./of-a-comment.js')
        export const all = [() => new threads.Worker('./a.js'), () => 1,
          () => new Thread('./b.js')]`,
      'lib/processes.ts': `import { execFile, fork as start } from 'node:child_process'
        import processes from 'node:child_process'
        export const all = [() => execFile('ls'),
          () => start('./a.js'),
          () => processes.fork('./b.js')]`,
      'lib/required.ts': `import { createRequire } from 'node:module'
        const require = createRequire(import.meta.url)
        const load = createRequire(import.meta.url)
        export const all = [() => require('node:fs'), () => require('./data/a.json'),
          () => load('./addon.node'),
          () => load('../rest/a.json'),
          () => createRequire(import.meta.url)('./c.js')]`,
      'lib/renamed.ts': `import { createRequire as makeRequire } from 'node:module'
        const load = makeRequire(import.meta.url)
        export const all = [() => load('./cfg.json'),
          () => makeRequire(import.meta.url)('./c.js')]`,
      'lib/typed.ts': `import { createRequire } from 'node:module'
        const beside = { name: 1 }
        const load: NodeJS.Require = createRequire(import.meta.url)
        export const all = [beside, () => load('./cfg.json')]`,
      'lib/extended.ts': `import { Worker } from 'node:worker_threads'
        // A class Worker of Node's own.
        export const all = [() => new Worker('./a.js')]`,
      'lib/data/a.json': '{}',
    })
    const words = ['handler.ts', '--out', 'out', '--include', 'lib/data']
    const { code, stderr } = await build(words, { cwd: dir })
    expect(code).toBe(0)
    const told = stderr.trim().split('\n')
    const places = told.map((line) => /^Warning: (.*):1: the bundle .* --include,/.exec(line)?.[1] ?? line)
    expect(places.toSorted()).toEqual([
      ...[3, 4].map((line) => `a file is loaded by createRequire() at lib/renamed.ts:${line}`),
      ...[5, 6, 7].map((line) => `a file is loaded by createRequire() at lib/required.ts:${line}`),
      'a file is loaded by createRequire() at lib/typed.ts:4',
      ...[4, 5].map((line) => `a process is started by fork() at lib/processes.ts:${line}`),
      'a thread is started at lib/extended.ts:3',
      ...[4, 5].map((line) => `a thread is started at lib/threads.ts:${line}`),
    ])
  })

  it('keeps the place of a file whichever way it asks for it', async () => {
    const dir = project({
      'handler.ts': `import { asked } from './lib deep/asked.ts'
        export default () => asked()`,
      'lib deep/asked.ts': `import { relative } from 'node:path'
        import { fileURLToPath } from 'node:url'
        const { dirname, main } = import.meta
        const { url: place } = import.meta
        const meta = import.meta
        const found = (name: string) => relative(process.cwd(), fileURLToPath(meta.resolve(name)))
        export const asked = () => [
          ...[dirname, fileURLToPath(place), meta['filename'], __filename].map((one) => relative(process.cwd(), one)),
          fileURLToPath(import.meta.resolve('./a.txt')) === fileURLToPath(new URL('a.txt', import.meta.url)),
          found('./a.txt'), found('../b.txt'), import.meta.resolve('node:fs'), found('beside'), main]`,
      'package.json': '{"dependencies":{"beside":"1"}}',
      ...packageFiles('beside', '1.0.0', ''),
    })
    const out = join(dir, 'out')
    expect(await build(['handler.ts', '--out', out], { cwd: dir })).toMatchObject({ code: 0, stderr: '' })
    const file = 'lib deep/asked.ts'
    const found = ['lib deep/a.txt', 'b.txt', 'node:fs', '../node_modules/beside/index.js']
    expect(run(out)).toEqual(['lib deep', file, file, file, true, ...found, false])
  })

  it('finds by require.resolve() what lies beside the file, and warns where that does not come along', async () => {
    const dir = project({
      'handler.ts': `import found from './lib/found.cjs'\nexport default () => found()`,
      'lib/found.cjs': `const { relative } = require('node:path')
        module.exports = () => relative(process.cwd(), require.resolve('./a.txt'))`,
      'lib/a.txt': '',
    })
    const lacking = await build(['handler.ts', '--out', 'lacking'], { cwd: dir })
    expect(lacking.stderr).toMatch(
      /^Warning: a file is found by require\.resolve\(\) at lib\/found\.cjs:2:1: /,
    )
    const words = ['handler.ts', '--out', 'out', '--include', 'lib/a.txt']
    expect(await build(words, { cwd: dir })).toMatchObject({ code: 0, stderr: '' })
    expect(run(join(dir, 'out'))).toBe('lib/a.txt')
  })

  it('warns of a package that is in the bundle by its path, and of a pattern that no file fits', async () => {
    const dir = project({
      'handler.ts': `import placed from './node_modules/placed/index.js'
        export default (job) => [placed, import(\`./lib/\${job.id}.js\`)]`,
      'lib/a.txt': '',
      ...packageFiles('placed', '1.2.3', 'module.exports = __dirname'),
    })
    const { code, stderr } = await build(['handler.ts', '--out', 'out'], { cwd: dir })
    expect(code).toBe(0)
    expect(stderr.trim().split('\n')).toEqual([
      expect.stringMatching(/^Warning: no file fits the pattern of the import at handler\.ts:2:\d+: /),
      expect.stringMatching(/^Warning: the package placed is in the bundle, .* Import it by its name/),
    ])
  })

  it('takes files along that are asked for, from the handler’s folder alone', async () => {
    const dir = project({ 'handler.ts': 'export default () => 1', 'prompts/first.txt': 'hello' })
    const out = join(dir, 'out')
    const words = ['handler.ts', '--out', out, '--include']
    expect((await build([...words, '/etc/hosts'], { cwd: dir })).stderr).toContain(
      "not within the handler's folder",
    )
    expect((await build([...words, 'gone.txt'], { cwd: dir })).stderr).toMatch(
      /^There is no .*gone\.txt to include/,
    )
    expect((await build([...words, 'prompts'], { cwd: dir })).code).toBe(0)
    expect(readFileSync(join(out, 'prompts/first.txt'), 'utf8')).toBe('hello')
    expect((await build(['handler.ts', '--out', out], { cwd: dir })).stderr).toMatch(/is not empty/)
  })

  it('takes symbolic links along as they are, where the image has what they lead to', async () => {
    const tryOut = (target: string): [string, Promise<Built>] => {
      const handler = 'export default () => 1'
      const dir = project({ 'handler.ts': handler, 'data/v2/a.txt': 'hello', 'b.txt': '' })
      symlinkSync(target, join(dir, 'data/latest'))
      return [dir, build(['handler.ts', '--include', 'data', '--out', 'out'], { cwd: dir })]
    }
    const [dir, built] = tryOut('v2')
    const elsewhere = fixture('.')
    const wrong = [elsewhere, '../b.txt', 'gone'].map((target) => ({ target, tried: tryOut(target) }))
    expect((await built).code).toBe(0)
    expect(readlinkSync(join(dir, 'out/data/latest'))).toBe('v2')
    for (const { target, tried } of wrong) {
      const { code, stderr } = await tried[1]
      expect([code, stderr]).toEqual([1, expect.stringContaining(`data/latest cannot be included`)])
      expect(stderr).toContain(`a symbolic link to ${target}, which the image would not have`)
      expect(existsSync(join(tried[0], 'out'))).toBe(false)
    }
  })

  it('refuses a symbolic link whose way leaves the handler’s folder, or goes by what the image does not have', async () => {
    const dir = project({ 'handler.ts': 'export default () => 1', 'data/a.txt': 'hello', 'rest/b.txt': '' })
    const link = join(dir, 'data/link')
    for (const target of [`../../${basename(dir)}/data/a.txt`, '../rest/../data/a.txt']) {
      symlinkSync(target, link)
      const { code, stderr } = await build(['handler.ts', '--include', 'data', '--out', 'out'], { cwd: dir })
      expect([code, stderr]).toEqual([1, expect.stringContaining(`a symbolic link to ${target}, which`)])
      rmSync(link)
    }
    symlinkSync('../data/a.txt', link)
    expect((await build(['handler.ts', '--include', 'data', '--out', 'out'], { cwd: dir })).code).toBe(0)
  })

  it('takes along links that go by other links, and what is named within another', async () => {
    const files = { 'handler.ts': 'export default () => 1', 'data/a.txt': 'hello', 'data/deep/b.txt': 'deep' }
    const dir = project({ ...files, 'rest/a.txt': '', 'rest/deep/b.txt': '', 'a.txt': '' })
    symlinkSync('data/deep', join(dir, 'linked'))
    symlinkSync('linked/../a.txt', join(dir, 'second'))
    const words = ['handler.ts', '--out', 'out', '--include', 'linked/b.txt', 'data', 'linked', 'second']
    expect(await build(words, { cwd: dir })).toMatchObject({ code: 0, stderr: '' })
    expect(readlinkSync(join(dir, 'out/second'))).toBe('linked/../a.txt')
    expect(readFileSync(join(dir, 'out/second'), 'utf8')).toBe('hello')
    expect(readFileSync(join(dir, 'out/linked/b.txt'), 'utf8')).toBe('deep')
    // By its words alone the second would lead to a file that is taken along.
    rmSync(join(dir, 'linked'))
    symlinkSync('rest/deep', join(dir, 'linked'))
    rmSync(join(dir, 'second'))
    symlinkSync('linked/../a.txt', join(dir, 'second'))
    const { code, stderr } = await build(
      ['handler.ts', '--out', 'other', '--include', 'rest/deep', 'linked', 'second', 'a.txt'],
      { cwd: dir },
    )
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('second cannot be included: it is a symbolic'),
    ])
    expect(existsSync(join(dir, 'other'))).toBe(false)
  })

  it('refuses to write where a file or a link to nothing stands', async () => {
    const dir = project({ 'handler.ts': 'export default () => 1' })
    symlinkSync('gone', join(dir, 'dangling'))
    for (const out of ['handler.ts', 'handler.ts/x', 'dangling', 'dangling/x']) {
      const { code, stderr } = await build(['handler.ts', '--out', out], { cwd: dir })
      const at = join(dir, out.replace('/x', ''))
      expect([code, stderr]).toEqual([1, expect.stringContaining(`${at} is no folder`)])
    }
  })

  it('does not warn of a thread or a process whose file is included, nor of a class that is called Worker', async () => {
    const dir = project({
      'handler.ts': `import './lib/own.ts'
        import { Worker } from 'node:worker_threads'
        import { fork } from 'node:child_process'
        export default () => [new Worker(new URL('./lib/a.js', import.meta.url)), fork('./lib/a.js'),
          fork('./b.js')]`,
      'lib/own.ts': `class Worker {}\nexport const own = new Worker()`,
      'lib/a.js': '',
    })
    const words = ['handler.ts', '--out', 'out', '--include', 'lib/a.js']
    const { stderr } = await build(words, { cwd: dir })
    expect(stderr).toMatch(/^Warning: a process is started by fork\(\) at handler\.ts:5:1: [^\n]*\n$/)
  })

  it('does not copy what it writes into itself', async () => {
    const dir = project({ 'handler.ts': 'export default () => 1', 'prompts/first.txt': 'hello' })
    symlinkSync('prompts', join(dir, 'linked'))
    const tryOut = async (out: string): Promise<void> => {
      const { code, stderr } = await build(['handler.ts', '--out', out, '--include', 'prompts/'], {
        cwd: dir,
      })
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining(`--out ${out} lies within --include prompts`),
      ])
    }
    await Promise.all(['prompts/deep/out', 'linked/out'].map(tryOut))
    expect(readdirSync(join(dir, 'prompts'))).toEqual(['first.txt'])
  })

  it('refuses a flag without a value', async () => {
    const dir = project({ 'handler.ts': 'export default () => 1' })
    const tryOut = async (flag: string): Promise<void> => {
      const { code, stderr } = await build(['handler.ts', '--out', 'out', flag, ''], { cwd: dir })
      expect([code, stderr]).toEqual([1, expect.stringMatching(`^${flag} has an empty value\\..*${flag} <`)])
    }
    await Promise.all(['--out', '--base', '--tag', '--install', '--include'].map(tryOut))
    expect(readdirSync(dir)).toEqual(['handler.ts'])
  })
})

describe('what longshore build writes', () => {
  it('can be read by the user of the image, whatever the umask and the modes of what goes along', async () => {
    const files = {
      'handler.ts': 'export default () => 1',
      'bin/tool': '#!/bin/sh',
      'bin/data/private.txt': '',
    }
    const dir = project(files)
    chmodSync(join(dir, 'bin/tool'), 0o700)
    chmodSync(join(dir, 'bin/data/private.txt'), 0o600)
    chmodSync(join(dir, 'bin/data'), 0o700)
    const words = [process.execPath, main, 'build', 'handler.ts', '--out', 'out', '--include', 'bin']
    execFileSync('sh', ['-c', 'umask 077; exec "$@"', 'sh', ...words], { cwd: dir })
    const out = join(dir, 'out')
    const modes = readdirSync(out, { recursive: true, encoding: 'utf8' }).map((path) => {
      const { mode } = statSync(join(out, path))
      return `${path} ${(mode & 0o055).toString(8)}`
    })
    expect(modes.toSorted()).toEqual([
      '.dockerignore 44',
      'Dockerfile 44',
      'bin 55',
      'bin/data 55',
      'bin/data/private.txt 44',
      'bin/tool 55',
      'handler.js 44',
      'handler.js.map 44',
      'package.json 44',
    ])
  })
})

describe('longshore build says', () => {
  it('where the mistakes are, all at once', async () => {
    const dir = project({
      'handler.ts': `import './lib/one.ts'\nimport 'not-there'\n`,
      'lib/one.ts': 'const x = ;\n',
    })
    const { code, stderr } = await build(['handler.ts', '--tag', 'x'], { cwd: dir })
    expect(code).toBe(1)
    expect(stderr).toContain(
      'Cannot bundle handler.ts: Unexpected ";" at lib/one.ts:1:11.\n  1 | const x = ;',
    )
    expect(stderr).toContain('at handler.ts:2:8. Install it beside the handler: npm install not-there.')
  })

  it('that native code of one’s own is imported, and how it comes along', async () => {
    const dir = project({
      'handler.ts': `import { addon } from './lib/one.ts'\nexport default () => addon`,
      'lib/one.ts': `\nimport addon from './native/addon.node'\nexport { addon }`,
      'lib/native/addon.node': '\u0000',
    })
    const { code, stderr } = await build(['handler.ts', '--tag', 'x'], { cwd: dir })
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^Cannot bundle handler\.ts: no bundle can hold /),
    ])
    expect(stderr).toContain(
      'native code such as lib/native/addon.node at lib/one.ts:2:19. Load it by createRequire',
    )
    expect(stderr).toContain('--include lib/native/addon.node, or make a package of it.')
  })

  it('that native code of one’s own is imported by another name, or from CommonJS', async () => {
    const dir = project({
      'handler.ts': `import '#addon'\nimport './folder'\nimport './old.cjs'\nimport './required.js'\nimport 'native'
        export default () => 1`,
      'package.json': JSON.stringify({ imports: { '#addon': './addon.node' } }),
      'folder/package.json': '{"main":"b.node"}',
      'old.cjs': `import('./addon.node')`,
      'required.js': `module.exports = require('./addon.node')`,
      'addon.node': '\u0000',
      'folder/b.node': '\u0000',
      ...packageFiles('native', '2.0.0', `require('./native.node')`),
      'node_modules/native/native.node': '\u0000',
    })
    const { code, stderr } = await build(['handler.ts', '--tag', 'x'], { cwd: dir })
    expect(code).toBe(1)
    const told = [...stderr.matchAll(/such as (\S+) at (\S+):\d+\. Load it by createRequire\((\S+)\) and/g)]
    expect(told.map((words) => words.slice(1).join(' ')).toSorted()).toEqual([
      'addon.node handler.ts:1 import.meta.url',
      'addon.node old.cjs:1 __filename',
      'addon.node required.js:1 __filename',
      'folder/b.node handler.ts:2 import.meta.url',
    ])
  })

  it('that native code of one’s own is among what a pattern takes in', async () => {
    const dir = project({
      'handler.ts': `export { load } from './lib/load.cjs'
        export default (job) => import(\`./native/\${job.input}.node\`)`,
      'lib/load.cjs': `exports.load = (name) => require('../more/' + name)`,
      'native/a.node': '\u0000',
      'native/b.node': '\u0000',
      'more/c.node': '\u0000',
      'more/d.js': '',
    })
    const { code, stderr } = await build(['handler.ts', '--out', 'out'], { cwd: dir })
    expect(code).toBe(1)
    expect(existsSync(join(dir, 'out'))).toBe(false)
    const told = stderr.matchAll(
      /such as (\S+) at (\S+):\d+\. Load it by createRequire\(.*\), .* --include (\S+), or make/g,
    )
    expect([...told].map((words) => words.slice(1).join(' ')).toSorted()).toEqual([
      'more/c.node lib/load.cjs:1 more/c.node',
      'native/a.node handler.ts:2 native/a.node',
      'native/b.node handler.ts:2 native/b.node',
    ])
  })

  it('what to do where a linked package has native code, or asks for files, outside the handler’s folder', async () => {
    const dir = project({
      'app/handler.ts': `import 'linked'\nexport default () => 1`,
      'linked/package.json': '{"name":"linked","version":"1.0.0"}',
      'linked/index.js': `require('./addon.node')`,
      'linked/addon.node': '\u0000',
    })
    mkdirSync(join(dir, 'app/node_modules'))
    symlinkSync('../../linked', join(dir, 'app/node_modules/linked'))
    const words = ['handler.ts', '--out', 'out']
    const { code, stderr } = await build(words, { cwd: join(dir, 'app') })
    expect(code).toBe(1)
    expect(stderr).toMatch(
      /native code such as \.\.\/linked\/addon\.node at .*folder.* Move it there, .*, or publish the package/,
    )
    expect(stderr).not.toContain('--include ..')
    writeFileSync(
      join(dir, 'linked/index.js'),
      `const load = require('node:module').createRequire(__filename)\nload('./addon.node')`,
    )
    const warned = await build(words, { cwd: join(dir, 'app') })
    expect(warned.stderr).toMatch(
      /^Warning: a file .* at \.\.\/linked\/index\.js:2:1: .*: move it there with its file, or publish the/,
    )
  })

  it('that there is no handler, no name, or no version of what is to be installed', async () => {
    expect((await build(['gone.ts', '-t', 'x'])).stderr).toContain('[HANDLER_NOT_FOUND]')
    expect((await build([fixture('echo.ts')])).stderr).toMatch(/^The image has no name/)
    const unknown = await build([fixture('echo.ts'), '-t', 'x', '--install', 'not-there'])
    expect(unknown.stderr).toMatch(/^The package not-there is not installed/)
  })

  it('that --install was given no name, and that an import is wrong in upper and lower case', async () => {
    const dir = project({
      'handler.ts': `import './Lib.ts'\nexport default () => 1`,
      'lib.ts': '',
      'package.json': '{"version":"1.0.0"}',
    })
    const wrong = ['..', 'name@1'].map(async (name) => {
      const { code, stderr } = await build(['handler.ts', '--out', 'out', '--install', name], { cwd: dir })
      expect([code, stderr]).toEqual([1, expect.stringContaining(`names of packages, and "${name}" is none`)])
    })
    await Promise.all(wrong)
    const { stderr } = await build(['handler.ts', '--out', 'out'], { cwd: dir })
    expect(stderr).toMatch(
      /^Cannot bundle handler\.ts: [^\n]*\/Lib\.ts at handler\.ts:1:8\.\n {2}1 \| [^\n]*\n$/,
    )
  })

  it('that a file exports no handler', async () => {
    const dir = project({ 'handler.ts': 'export const handle = () => 1' })
    const { code, stderr } = await build(['handler.ts', '-t', 'x'], { cwd: dir })
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^Cannot bundle handler\.ts: it has no default/),
    ])
  })

  it('that there is no docker, and what docker ended with', async () => {
    const hello = join(template('hello'), 'handler.ts')
    const none = await build([hello, '-t', 'x'], { env: { PATH: temporaryDir() } })
    expect(none).toMatchObject({ code: 1, stderr: expect.stringMatching(/^There is no docker command/) })
    const dir = project({ docker: '#!/bin/sh\necho "$@" >>"$SAID"\nexit 3\n' })
    chmodSync(join(dir, 'docker'), 0o755)
    const said = join(dir, 'said')
    const env = { PATH: `${dir}:${process.env['PATH']}`, SAID: said }
    const failed = await build([hello, '-t', 'a b;c', '--', '--network', 'host'], { env })
    expect(failed.stderr).toMatch(/docker build ended with exit code 3.* The Docker engine does not answer/)
    // No shell has read its words, and the folder is gone again.
    const [, folder = ''] = /^build --tag a b;c --network host (\S+)$/m.exec(readFileSync(said, 'utf8')) ?? []
    expect(folder).toContain('longshore-build-')
    expect(() => readdirSync(folder)).toThrow('ENOENT')
  })
})
