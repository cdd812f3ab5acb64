import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { bundleHandler } from '../../src/cli/bundle/bundle.ts'
import { outputOf } from '../support/bundled.ts'
import { packageFiles, project } from '../support/project.ts'

describe('packages', () => {
  it('that load others by names made as they run are installed', async () => {
    const dir = project({
      'handler.ts': `import 'moments'\nimport 'importing'\nexport default () => 1`,
      ...packageFiles('moments', '1.0.0', `const aliased = require; aliased('./locale/' + name)`),
      ...packageFiles('importing', '2.0.0', 'module.exports = (name) => import(name)'),
    })
    const { installs } = await bundleHandler(join(dir, 'handler.ts'))
    expect(Object.fromEntries(installs)).toEqual({ moments: '1.0.0', importing: '2.0.0' })
  })

  it('that an included script or an installed package needs too are installed, so that there is one copy', async () => {
    const dir = project({
      'handler.ts': `import 'core'\nimport './by-path.ts'\nimport 'alone'\nimport 'placed'\nexport default () => 1`,
      'worker.ts': `import { of } from 'of-worker/deep.js'\nimport './lib/rest.ts'\nimport 'gone'
        import 'longshore'\nimport { readFile } from 'node:fs/promises'\nexport { of, readFile }`,
      'lib/rest.ts': '',
      'worker.js': `import './page/data.json' with { type: 'json' }\nimport './page/a.wasm'`,
      'page/data.json': 'wrong',
      'page/a.wasm': '',
      'page/a.test.ts': `import 'alone'`,
      'page/template.js': 'no {{ script',
      'by-path.ts': `import './node_modules/core/index.js'`,
      ...packageFiles('core', '1.0.0', ''),
      ...packageFiles('alone', '2.0.0', ''),
      ...packageFiles('placed', '3.0.0', 'module.exports = __dirname'),
      'node_modules/placed/package.json':
        '{"name":"placed","version":"3.0.0","main":"index.js","peerDependencies":{"core":"1"}}',
      ...packageFiles('of-worker', '4.0.0', ''),
    })
    const include = ['worker.ts', 'worker.js', 'page']
    const { installs, warnings } = await bundleHandler(join(dir, 'handler.ts'), { include })
    expect(Object.fromEntries(installs)).toEqual({ core: '1.0.0', placed: '3.0.0', 'of-worker': '4.0.0' })
    expect(warnings).toEqual([
      expect.stringMatching(/worker\.ts imports .*lib\/rest\.ts, which .* --include lib\/rest\.ts\.$/),
      expect.stringMatching(/^an included file imports gone, which/),
    ])
  })

  it('whose places a file asks for are installed, though they are imported too', async () => {
    const dir = project({
      'handler.ts': `import 'one'\nimport 'two'\nimport 'three'\nconst got = Promise.resolve('three')
        console.log('three', got)\nimport { createRequire } from 'node:module'
        const load = createRequire(import.meta.url)
        export default async () => [load('one/package.json').version, import.meta.resolve('two'), await import('three')]`,
      'package.json': '{"dependencies":{"one":"1","two":"2","three":"3"}}',
      ...packageFiles('one', '1.0.0', ''),
      ...packageFiles('two', '2.0.0', ''),
      ...packageFiles('three', '3.0.0', ''),
    })
    const { installs } = await bundleHandler(join(dir, 'handler.ts'))
    expect(Object.fromEntries(installs)).toEqual({ one: '1.0.0', two: '2.0.0' })
  })

  it('with code that was generated into node_modules are installed, and that is taken along', async () => {
    const dir = project({
      'handler.ts': `import 'generates'\nexport default () => 1`,
      ...packageFiles('generates', '1.0.0', `module.exports = require('.generated/client/index.js')`),
      'node_modules/.generated/client/index.js': 'exports.place = __dirname',
    })
    const file = join(dir, 'handler.ts')
    await expect(bundleHandler(file)).rejects.toThrow(
      /^generates imports what was generated into .*\.generated, .* --install generates --include node_modules\/\.generated\.$/,
    )
    const lacking = await bundleHandler(file, { install: ['generates'] })
    expect(lacking.warnings).toEqual([
      expect.stringMatching(/npm does not bring .* --include node_modules\/\.generated/),
    ])
    const whole = { install: ['generates'], include: ['node_modules/.generated'] }
    const { installs, warnings } = await bundleHandler(file, whole)
    expect([Object.fromEntries(installs), warnings]).toEqual([{ generates: '1.0.0' }, []])
  })

  it('with code that was generated above the handler’s folder are told of with what can be done', async () => {
    const dir = project({
      'src/handler.ts': `import 'generates'\nexport default () => 1`,
      ...packageFiles('generates', '1.0.0', `module.exports = require('.generated/client/index.js')`),
      'node_modules/generates/dangling.js/x': '',
      'node_modules/.generated/client/index.js': 'exports.place = __dirname',
    })
    const file = join(dir, 'src/handler.ts')
    await expect(bundleHandler(file)).rejects.toThrow(/have it generated into the handler’s folder/)
    const { warnings } = await bundleHandler(file, { install: ['generates'] })
    expect(warnings).toEqual([expect.stringMatching(/have it generated into the handler’s folder/)])
  })

  it('are told of by an included script as far as it can be followed', async () => {
    const dir = project({
      'handler.ts': 'export default () => 1',
      'page/app.js': 'export default () => <b/>',
      'page/main.js': `import app, { other } from './app.js'\nimport 'needed'\nimport { none } from './part.js'`,
      'page/part.js': 'export const some = 1',
      ...packageFiles('needed', '1.0.0', ''),
    })
    const { installs, warnings } = await bundleHandler(join(dir, 'handler.ts'), { include: ['page'] })
    expect(Object.fromEntries(installs)).toEqual({ needed: '1.0.0' })
    expect(warnings).toEqual([
      expect.stringMatching(/page\/main\.js:3 cannot be followed: No matching export .* Mend it/),
    ])
  })

  it('that are linked are bundled, also where they are dependencies', async () => {
    const dir = project({
      'app/handler.ts': `import { greet } from '@acme/kit'
        import { log } from '@acme/kit/log.js'
        import type { T } from '@acme/types'
        export default (): T => [greet, log]`,
      'app/package.json': '{"dependencies":{"@acme/kit":"workspace:*","@acme/types":"1"}}',
      'kit/package.json': '{"name":"@acme/kit","version":"1.0.0","main":"index.js"}',
      'kit/index.js': 'exports.greet = 1',
      'kit/log.js': 'exports.log = 1',
      'types/package.json': '{"name":"@acme/types","version":"1.0.0"}',
    })
    mkdirSync(join(dir, 'app/node_modules/@acme'), { recursive: true })
    symlinkSync('../../../kit', join(dir, 'app/node_modules/@acme/kit'))
    symlinkSync('../../../types', join(dir, 'app/node_modules/@acme/types'))
    const { installs, warnings } = await bundleHandler(join(dir, 'app/handler.ts'))
    expect([[...installs], warnings]).toEqual([[], []])
    const refused = bundleHandler(join(dir, 'app/handler.ts'), { install: ['@acme/types'] })
    await expect(refused).rejects.toThrow(/@acme\/types cannot be bundled.* it is from/)
  })
})

describe('the bundle', () => {
  it('keeps names, and runs all files of one’s own', async () => {
    const dir = project({
      'handler.ts': `import './register.ts'
        import { Wrong as A } from './a.ts'
        import { Wrong as B } from './b.ts'
        class Registry { static all = [Registry] }
        export default () => [A.name, B.name, Registry.name, (globalThis as any).registered]`,
      'package.json': '{"type":"module","sideEffects":false}',
      'register.ts': '(globalThis as any).registered = true',
      'a.ts': 'export class Wrong extends Error {}',
      'b.ts': 'export class Wrong extends Error {}',
    })
    expect(await outputOf(join(dir, 'handler.ts'))).toEqual(['Wrong', 'Wrong', 'Registry', true])
  })
})

describe('warnings', () => {
  it('tell of files by whatever way they are named, once, and no more when they are included', async () => {
    const dir = project({
      'handler.ts': `import { Worker } from 'node:worker_threads'
        import { createRequire } from 'node:module'
        import path, { join } from 'node:path'
        import './pool.ts'
        import './old.cjs'
        const load = createRequire(import.meta.url)
        const named = 'plain'
        export const all = [
          () => new Worker(
            path.join(__dirname, 'lib', 'a.js')),
          () => new Worker(new URL('lib/a.js', import.meta.url)),
          () => ({ filename: new URL('./lib/a.js', import.meta.url).href }),
          () => new URL('./lib/to-be-written.js', import.meta.url),
          () => load(\`./lib/\${Math.random()}.cjs\`),
          () => load('./lib/' + Math.random()),
          () => load(process.title),
          () => load(named),
          () => new Worker('code', { eval: true }),
          (page: any) => page.evaluate(() => document.title),
          (page: any) =>
            page.evaluate(() => {
              const title = () => document.title
              return title()
            }),
        ]
        export default () => 1`,
      'old.cjs': `const load = require\nmodule.exports = [load('./lib/a.js'), require.main === module]`,
      'lib/a.js': '',
      'pool.ts': `import { parentPort } from 'node:worker_threads'
        import { Worker } from './own.ts'
        export const own = [parentPort, new Worker(3)]`,
      'own.ts': 'export class Worker {}',
    })
    const tell = async (include: string[]): Promise<string[]> => {
      const { warnings } = await bundleHandler(join(dir, 'handler.ts'), { include })
      return warnings.map((one) => one.replace(/ at .*\/([\w.]+:\d+):.*/, ' at $1')).toSorted()
    }
    const always = [
      'a file is loaded by createRequire() at handler.ts:16',
      'a function goes to a browser as its text at handler.ts:21',
      'require goes by another name at old.cjs:1',
    ]
    expect(await tell(['lib'])).toEqual(always)
    expect(await tell([])).toEqual(
      [
        ...always,
        ...[14, 15].map((line) => `a file is loaded by createRequire() at handler.ts:${line}`),
        'a file is named by its place at handler.ts:12',
        ...[9, 11].map((line) => `a thread is started at handler.ts:${line}`),
      ].toSorted(),
    )
  })
})

describe('CommonJS', () => {
  it('is strict in the files that say so beside it, and in no other', async () => {
    const said = `const place = __dirname
        module.exports = () => { try { undeclared = place; return 'loose' } catch { return 'strict' } }`
    const comments = '/** Of ours. */\n'.repeat(60)
    const dir = project({
      'handler.cjs': `'use strict'\nconst parts = [require('./strict.cjs'), require('./loose.cjs')]
        module.exports = () => parts.map((part) => part())`,
      'strict.cjs': `${comments}'use strict'\n${said}`,
      'loose.cjs': `${comments}${said}`,
    })
    expect(await outputOf(join(dir, 'handler.cjs'))).toEqual(['strict', 'loose'])
  })

  it('stays as loose as it is, with the scripts beside it', async () => {
    const dir = project({
      'handler.js': `const { place } = require('./lib/place.mjs')
        const { fork } = require('node:child_process')
        module.exports = () => new Promise((resolve) => {
          found = place(require('node:path').basename(__dirname))
          fork(require('node:path').join(__dirname, 'lib/child.js')).on('message', (said) => resolve([said, ...found]))
        })`,
      'lib/place.mjs': `import { relative } from 'node:path'
        const { dirname, resolve } = import.meta
        export const place = (name) => [name, relative(process.cwd(), dirname), resolve('node:fs')]`,
      'lib/child.js': `const { send } = process\nmodule.exports = send.call(process, typeof require)`,
    })
    expect(await outputOf(join(dir, 'handler.js'), ['lib/child.js'])).toEqual([
      'function',
      'out',
      'lib',
      'node:fs',
    ])
  })

  it('is a module where it imports what awaits at its top level, which is told', async () => {
    const dir = project({
      'handler.cjs': `module.exports = async () => (await import('./late.mjs')).late`,
      'late.mjs': 'export const late = await Promise.resolve(5)',
    })
    const file = join(dir, 'handler.cjs')
    expect((await bundleHandler(file)).warnings).toEqual([
      expect.stringMatching(/handler\.cjs is CommonJS, and is a/),
    ])
    expect(await outputOf(file)).toBe(5)
  })

  it('is taken as Node takes it: its default import, and scripts that a module starts', async () => {
    const dir = project({
      'handler.ts': `import wrong, { other } from 'transpiled'
        import { fork } from 'node:child_process'
        import { join } from 'node:path'
        export default async () => {
          const child = fork(join(import.meta.dirname, 'child.js'))
          const said = await new Promise((resolve) => child.once('message', resolve))
          return [typeof wrong, Object.keys(wrong), other, (await import('transpiled')).default === wrong, said]
        }`,
      'package.json': '{"name":"without-a-type"}',
      'child.js': `const { type } = require('node:os')\nprocess.send(typeof type)`,
      ...packageFiles(
        'transpiled',
        '1.0.0',
        `Object.defineProperty(exports, '__esModule', { value: true }); exports.default = () => 1; exports.other = 2`,
      ),
    })
    expect(await outputOf(join(dir, 'handler.ts'), ['child.js'])).toEqual([
      'object',
      ['default', 'other'],
      2,
      true,
      'function',
    ])
  })
})
