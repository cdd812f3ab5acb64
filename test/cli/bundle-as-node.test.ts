// What a bundle does as Node does it: what is asked for as it runs, directives, resolution, and the places of mistakes.

import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { bundleHandler } from '../../src/cli/bundle/bundle.ts'
import { prologueOf } from '../../src/cli/bundle/prologue.ts'
import { outputOf } from '../support/bundled.ts'
import { packageFiles, project } from '../support/project.ts'

describe('a package that is asked for as it runs', () => {
  const MODULE = `import { createRequire } from 'node:module'\n`
  it.each([
    [
      'by no variable',
      `${MODULE}export default () => createRequire(import.meta.url).resolve('one/package.json')`,
    ],
    [
      'over two lines',
      `${MODULE}const load: NodeJS.Require =\n  createRequire(import.meta.url)\nexport default () => load('one')`,
    ],
    [
      'of a nested call',
      `import module from 'node:module'\nimport { fileURLToPath } from 'node:url'
      export default () => module.createRequire(fileURLToPath(import.meta.url))('one')`,
    ],
    [
      'by what another file makes',
      `import { require } from './made.ts'\nexport default () => require('one')`,
    ],
    [
      'by what it is renamed to',
      `import { require as load } from './made.ts'\nexport default () => load<string>('one')`,
    ],
    ['by its place', `export default () => import.meta.resolve('one/deep.js')`],
  ])('is installed: %s', async (_how, handler) => {
    const dir = project({
      'app/handler.ts': `import 'one'\n${handler}`,
      'app/made.ts': `${MODULE}export const require = createRequire(import.meta.url)`,
      // The dependencies are those of a folder above.
      'app/package.json': '{"type":"module"}',
      'package.json': '{"dependencies":{"one":"1"}}',
      ...packageFiles('one', '1.0.0', ''),
    })
    const { installs, warnings } = await bundleHandler(join(dir, 'app/handler.ts'))
    expect([Object.fromEntries(installs), warnings]).toEqual([{ one: '1.0.0' }, []])
  })

  it('is installed beside the copies that others have of their own, which stay in the bundle', async () => {
    const dir = project({
      'handler.mjs': `import { createRequire } from 'node:module'
        import other from 'other'
        const load = createRequire(import.meta.url)
        export default () => [load('one').version, other.version]`,
      ...packageFiles('one', '1.0.0', 'exports.version = 1'),
      ...packageFiles('other', '1.0.0', `module.exports = require('one')`),
      ...Object.fromEntries(
        Object.entries(packageFiles('one', '2.0.0', 'exports.version = 2')).map(([path, text]) => [
          `node_modules/other/${path}`,
          text,
        ]),
      ),
    })
    const { installs } = await bundleHandler(join(dir, 'handler.mjs'))
    expect(Object.fromEntries(installs)).toEqual({ one: '1.0.0' })
    expect(await outputOf(join(dir, 'handler.mjs'))).toEqual([1, 2])
  })

  it('is installed once where several have copies of one version, and never for who has another', async () => {
    const inside = (name: string, version: string): Record<string, string> => ({
      ...packageFiles(name, '1.0.0', `module.exports = require('placed')`),
      ...Object.fromEntries(
        Object.entries(
          packageFiles('placed', version, `exports.version = [__dirname.length > 0, '${version}']`),
        ).map(([path, text]) => [`node_modules/${name}/${path}`, text]),
      ),
    })
    const dir = project({
      'handler.mjs': `import one from 'one'\nimport two from 'two'\nimport 'zod'\nimport 'with-zod'\nexport default () => [one, two]`,
      ...inside('one', '3.0.0'),
      ...inside('two', '3.0.0'),
      ...packageFiles('zod', '4.0.0', ''),
      ...packageFiles('with-zod', '1.0.0', `require('zod')`),
    })
    const { installs, warnings } = await bundleHandler(join(dir, 'handler.mjs'), { install: ['zod'] })
    expect([Object.fromEntries(installs), warnings]).toEqual([{ placed: '3.0.0', zod: '4.0.0' }, []])
    const own = project({
      'handler.mjs': `import placed from 'placed'\nimport one from 'one'\nexport default () => [placed.version, one.version]`,
      ...inside('one', '3.0.0'),
      ...packageFiles('placed', '2.0.0', `exports.version = 'own'`),
    })
    const bundle = await bundleHandler(join(own, 'handler.mjs'))
    expect(Object.fromEntries(bundle.installs)).toEqual({ placed: '3.0.0' })
    expect(String(Buffer.from(bundle.code))).toContain('"own"')
  })

  it('is none that another call has the name of, or a comment', async () => {
    const dir = project({
      'handler.mjs': `import { createRequire } from 'node:module'
        import { t, load } from './words.mjs'
        // const said = createRequire(import.meta.url)('one')
        const read = createRequire(import.meta.url)
        export default () => [t('one'), load('one'), t.read('one'), new Map().get('one'), read('node:fs') && 'ok', t('x'.repeat(9))]
        export const long = () => Buffer.from('${'ab'.repeat(200)}', 'hex')`,
      'words.mjs': 'export const t = (word) => word\nt.read = t\nexport const load = t',
      'node_modules/file': '',
      ...packageFiles('one', '1.0.0', ''),
    })
    const { installs, warnings } = await bundleHandler(join(dir, 'handler.mjs'))
    expect([[...installs], warnings]).toEqual([[], []])
  })

  it('is told of where it is linked, and installed where a linked one asks', async () => {
    const dir = project({
      'app/handler.js': `const { of } = require('lib')\nmodule.exports = () => [of, require.resolve('lib/model.json')]`,
      'lib/package.json': '{"name":"lib","version":"1.0.0"}',
      'lib/index.js': `exports.of = require('module').createRequire(__filename)('needed')`,
      ...Object.fromEntries(
        Object.entries(packageFiles('needed', '2.0.0', '')).map(([path, text]) => [`lib/${path}`, text]),
      ),
    })
    mkdirSync(join(dir, 'app/node_modules'))
    symlinkSync('../../lib', join(dir, 'app/node_modules/lib'))
    const { installs, warnings } = await bundleHandler(join(dir, 'app/handler.js'))
    expect(Object.fromEntries(installs)).toEqual({ needed: '2.0.0' })
    expect(warnings).toEqual([
      expect.stringMatching(/^lib is asked for as it runs at .*handler\.js:2: it is linked/),
    ])
  })
})

describe('the beginning of a file', () => {
  it.each([
    ['', '|'],
    ['const a = 1', '|const a = 1'],
    ['#!/usr/bin/env node\r\nlet a', '#!/usr/bin/env node\r\n|let a'],
    [`// of ours\r\n'use strict';\r\nlet a`, `// of ours\r\n'use strict'|;\r\nlet a`],
    [`'use strict' // note\nlet a`, `'use strict'| // note\nlet a`],
    [`/* a */ "use strict" /* b\n */ let a`, `/* a */ "use strict"| /* b\n */ let a`],
    [`'use asm'; 'use strict'; let a`, `'use asm'; 'use strict'|; let a`],
    [`'it\\'s'\n'use strict'\n`, `'it\\'s'\n'use strict'|\n`],
    [`'use strict'\n.length`, `|'use strict'\n.length`],
    [`'use strict'\ninstanceof Object`, `|'use strict'\ninstanceof Object`],
    [`'use strict'\ninside()`, `'use strict'|\ninside()`],
    [`'use strict' + 1`, `|'use strict' + 1`],
    [`'use strict'\n+ 1`, `|'use strict'\n+ 1`],
    [`'use strict'\n++a`, `'use strict'|\n++a`],
    [`// a\u2028'use strict'\u2029let a`, `// a\u2028'use strict'|\u2029let a`],
    ["#! a\r'use strict'\rlet a", "#! a\r'use strict'|\rlet a"],
    [`'not closed\n`, `|'not closed\n`],
    ['/* not closed', '|/* not closed'],
  ])('%j', (text, expected) => {
    const { end } = prologueOf(text)
    expect(`${text.slice(0, end)}|${text.slice(end)}`).toBe(expected)
  })

  it('is found soon, whatever its length', () => {
    const word = `'${'a'.repeat(12_000_000)}'\n`
    expect(prologueOf(word).isDirective).toBe(true)
    const long = `/*${'* '.repeat(5_000_000)}*/\n${' '.repeat(5_000_000)}\n'use strict'\n`
    expect(prologueOf(long)).toEqual({ end: long.length - 1, isDirective: true })
  })
})

describe('the bundle', () => {
  it('finds of a package what Node finds', async () => {
    const which = (name: string): Record<string, string> => ({
      [`node_modules/two/${name}.js`]: `export default '${name}'`,
      [`node_modules/two/${name}.cjs`]: `module.exports = '${name}'`,
    })
    const dir = project({
      'handler.mjs': `import two from 'two'\nimport field from 'field'\nexport default () => [two, field]`,
      'node_modules/two/package.json': `{"name":"two","version":"1.0.0","type":"module","exports":{
        "module":"./bundlers.js","node-addons":{"import":"./node.js"},"module-sync":"./other.js","default":"./other.js"}}`,
      ...which('bundlers'),
      ...which('node'),
      ...which('other'),
      'node_modules/field/package.json': '{"name":"field","version":"1.0.0","module":"module.js"}',
      'node_modules/field/module.js': `export default 'module'`,
      'node_modules/field/index.js': `module.exports = 'index'`,
    })
    expect(await outputOf(join(dir, 'handler.mjs'))).toEqual(['node', 'index'])
  })

  it('lets files know that they are no program', async () => {
    const dir = project({
      'handler.js': `const tool = require('./tool')\nconst { of } = require('./module.mjs')
        module.exports = () => [...tool, of, !module.parent]`,
      'tool.js': `module.exports = [!module.parent, require.main === module, require('path').basename(module.parent.filename)]`,
      'module.mjs': `// Unlike !module.parent\nexport const of = 'loads'`,
    })
    expect(await outputOf(join(dir, 'handler.js'))).toEqual([false, false, 'handler.js', 'loads', true])
  })

  it('has no tests that a pattern of an import fits, but those that are imported by name', async () => {
    const dir = project({
      'handler.mjs': `import { of } from './deep.mjs'
        export default async () => {
          const steps = ['one.mjs', 'one.test.mjs', 'pets.spec.mjs'].map((name) => import(\`./steps/\${name}\`))
          return [of, ...(await Promise.allSettled(steps)).map(({ value, reason }) => value?.of ?? reason.message)]
        }`,
      'steps/one.mjs': 'export const of = 1',
      'steps/one.test.mjs': `import { it } from 'vitest-that-is-not-there'\nit('is', () => {})`,
      'steps/pets.spec.mjs': 'export const of = 3',
      // Read before the import that names it is.
      'deep.mjs': `export * from './deeper.mjs'`,
      'deeper.mjs': `export * from './steps/named.test.mjs'`,
      'steps/named.test.mjs': 'const test = () => 2; export const of = test()',
    })
    const told =
      'steps/one.test.mjs is a test, and not in the bundle. Import it by its name where it is to be.'
    expect(await outputOf(join(dir, 'handler.mjs'))).toEqual([2, 1, told, 3])
  })

  it('warns of no thread of the handler’s own file, and of that of another', async () => {
    const dir = project({
      'handler.ts': `import { Worker } from 'node:worker_threads'
        import './other.ts'
        export const all = () => [new Worker(new URL(import.meta.url)), new Worker(import.meta.filename, {})]
        export default () => 1`,
      'other.ts': `import { Worker } from 'node:worker_threads'\nexport const one = () => new Worker(new URL(import.meta.url))`,
    })
    const { warnings } = await bundleHandler(join(dir, 'handler.ts'))
    expect(warnings).toEqual([expect.stringMatching(/^a thread is started at .*other\.ts:2:/)])
  })

  it('tells mistakes at the author’s place, in the author’s words', async () => {
    const dir = project({
      'handler.ts': `import { x } from 'not-there'\nexport default () => [x, import.meta.dirname]`,
      'pattern.ts': `'use strict'; const at = __dirname; const b = import('./none/' + at + '.js')\nexport default () => b`,
    })
    await expect(bundleHandler(join(dir, 'handler.ts'))).rejects.toThrow(
      /not-there" at \S*handler\.ts:1:19\. .*\n {2}1 \| import \{ x \} from 'not-there'$/,
    )
    await expect(bundleHandler(join(dir, 'pattern.ts'))).rejects.toThrow(
      /pattern\.ts:1:54\.\n {2}1 \| 'use strict'; const at/,
    )
  })
})
