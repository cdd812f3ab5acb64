import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import { HandlerProcess, UnreadyError } from '../../src/worker/handler-process.ts'
import { temporaryDir } from '../support/processes.ts'
import { startExecutor } from '../support/test-executor.ts'

/** A folder with these files beside the package.json that `npm init -y` writes, as far as it matters. */
function folderOf(files: Record<string, string>): string {
  const dir = temporaryDir()
  const all = { 'package.json': '{ "name": "x", "main": "index.js", "type": "commonjs" }', ...files }
  for (const [name, text] of Object.entries(all)) {
    mkdirSync(dirname(join(dir, name)), { recursive: true })
    writeFileSync(join(dir, name), text)
  }
  return dir
}

async function outputOf(files: Record<string, string>, name: string): Promise<unknown> {
  const executor = await startExecutor(join(folderOf(files), name))
  return executor.outputOf({})
}

async function messageOf(files: Record<string, string>, name: string): Promise<string> {
  const handlerProcess = new HandlerProcess({
    handlerPath: join(folderOf(files), name),
    env: process.env,
    clock: systemClock,
    output: 'lines',
    importTimeoutMs: 30_000,
    setupTimeoutMs: 30_000,
    reportsMemory: false,
    mask: (text) => text,
  })
  const thrown = await handlerProcess.load().catch((cause: unknown) => cause)
  await handlerProcess.kill()
  expect(thrown).toBeInstanceOf(UnreadyError)
  return (thrown as UnreadyError).message
}

const counted = "globalThis.loads = (globalThis.loads ?? 0) + 1\nexport const part = 'part'\n"

// Seen: the README's handler did not load in a folder that was made by `npm init -y`.
describe('a package.json that says "commonjs"', () => {
  it.each(['handler.ts', 'handler.js'])('lets %s be an ES module, with all that it imports', async (name) => {
    const handler = [
      "import { join } from 'node:path'",
      "import { part } from './parts/part.js'",
      "import { typed } from './typed.ts'",
      "const later = await Promise.resolve('later')",
      'export default () => [join(part, typed), later, typeof import.meta.url]',
    ]
    const typed = "import type { X } from './none.ts'\nexport const typed: string = 'typed'\n"
    const files = { [name]: handler.join('\n'), 'parts/part.js': counted, 'typed.ts': typed }
    expect(await outputOf(files, name)).toEqual(['part/typed', 'later', 'string'])
  })

  it('lets a file be imported by one and required by another: it is run once', async () => {
    const handler = [
      "import { part } from './part.js'",
      "import { typed } from './typed.ts'",
      "import other from './other.cjs'",
      'export default () => [part, typed, other, globalThis.loads]',
    ]
    const files = {
      'handler.js': handler.join('\n'),
      'part.js': counted,
      'typed.ts': "export const typed: string = 'typed'\n",
      'other.cjs': "module.exports = [require('./part.js').part, require('./typed').typed]\n",
      'typed/index.js': "exports.typed = 'of the folder'\n",
    }
    expect(await outputOf(files, 'handler.js')).toEqual(['part', 'typed', ['part', 'of the folder'], 1])
    files['other.cjs'] = "module.exports = [require('./part.js').part, require('./typed.ts').typed]\n"
    expect(await outputOf(files, 'handler.js')).toEqual(['part', 'typed', ['part', 'typed'], 1])
  })

  it('leaves CommonJS what it is, whatever it speaks of', async () => {
    const files = {
      'handler.ts':
        "import type { X } from './none.ts'\nconst part: string = require('./part')\nmodule.exports = () => part",
      'part.js':
        'const text = `\nimport x from "y"\nexport default x`\nmodule.exports = [text.length, __filename.slice(-7)].join()',
    }
    expect(await outputOf(files, 'handler.ts')).toBe('35,part.js')
  })

  it.each([
    'for await (const x of [1]) globalThis.sum = x\nexport default () => globalThis.sum\n',
    'if (!(await Promise.resolve(0))) globalThis.sum = 1\nexport default () => globalThis.sum\n',
    'if (!await Promise.resolve(0)) globalThis.sum = 1\nexport default () => globalThis.sum\n',
  ])('knows a module by what it awaits: %s', async (code) => {
    expect(await outputOf({ 'handler.js': code }, 'handler.js')).toBe(1)
  })

  it('tells what tsx requires, to whoever looks for changes', async () => {
    const files = {
      'handler.ts':
        "import { part } from './part'\nenum Way { up = 'up' }\nexport default () => [part, Way.up]\n",
      'part.ts': "export const part: string = 'part'\n",
    }
    const executor = await startExecutor(join(folderOf(files), 'handler.ts'), {
      settings: { isInDevelopment: true },
    })
    const names = executor.files.all.map(({ path }) => path.split('/').at(-1))
    expect(names).toEqual(expect.arrayContaining(['handler.ts', 'part.ts']))
  })

  it('leaves to tsx what needs it', async () => {
    const files = {
      'handler.ts':
        "import { part } from './part'\nenum Way { up = 'up' }\nexport default () => [part, Way.up]\n",
      'part.ts': "export const part: string = 'part'\n",
    }
    expect(await outputOf(files, 'handler.ts')).toEqual(['part', 'up'])
  })

  it.each([
    [
      'handler.ts',
      "import 'node:fs'\nexport default () => {\n  const a: string = (\n}\n",
      'handler.ts:4. Mend the syntax',
    ],
    [
      'handler.js',
      "import 'node:fs'\nexport default () => {\n  const a = (\n}\n",
      'handler.js:4. Mend the syntax',
    ],
    [
      'handler.ts',
      "import 'node:fs'\n\nthrow new Error('no')\nexport default 1\n",
      'handler.ts:3. Mend what',
    ],
    ['handler.ts', "\nimport './gone.ts'\nexport default 1\n", 'handler.ts:2. Check the path'],
  ])('keeps the place of an error in %s: %j', async (name, source, words) => {
    expect(await messageOf({ [name]: source }, name)).toContain(words)
  })
})
