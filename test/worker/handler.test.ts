import { mkdirSync, writeFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../src/lib/clock.ts'
import { findHandlerFile } from '../../src/worker/handler.ts'
import { HandlerProcess, UnreadyError } from '../../src/worker/handler-process.ts'
import { HandlerLoadError } from '../../src/worker/load-failure.ts'
import { childrenLeft } from '../support/children.ts'
import { fixture, temporaryDir } from '../support/processes.ts'
import { packageFiles, project } from '../support/project.ts'
import { startExecutor } from '../support/test-executor.ts'

describe('findHandlerFile', () => {
  function notFound(path: string): string {
    try {
      findHandlerFile(path)
    } catch (error) {
      expect(error).toBeInstanceOf(HandlerLoadError)
      expect((error as HandlerLoadError).code).toBe('HANDLER_NOT_FOUND')
      return (error as HandlerLoadError).message
    }
    throw new Error('A handler was found.')
  }

  it('finds the file that the path names', () => {
    expect(findHandlerFile(fixture('echo.ts'))).toBe(fixture('echo.ts'))
    expect(findHandlerFile('test/fixtures/handlers/echo.ts')).toBe(fixture('echo.ts'))
  })

  it('finds a file whose extension was left out', () => {
    expect(findHandlerFile(fixture('echo'))).toBe(fixture('echo.ts'))
  })

  it.each(['.ts', '.mts', '.cts', '.tsx', '.js', '.mjs', '.cjs'])('knows the extension %s', (extension) => {
    const file = join(temporaryDir(), `handler${extension}`)
    writeFileSync(file, '')
    expect(findHandlerFile(file.slice(0, -extension.length))).toBe(file)
  })

  it('prefers the file as it was named over one with an extension, and TypeScript over JavaScript', () => {
    const dir = temporaryDir()
    for (const name of ['job', 'job.js', 'job.ts', 'other.js', 'other.ts']) writeFileSync(join(dir, name), '')
    expect(findHandlerFile(join(dir, 'job'))).toBe(join(dir, 'job'))
    expect(findHandlerFile(join(dir, 'other'))).toBe(join(dir, 'other.ts'))
  })

  it('finds the handler of a folder, else its index', () => {
    expect(findHandlerFile(fixture('folder'))).toBe(fixture('folder/handler.ts'))
    expect(findHandlerFile(fixture('folder-with-index'))).toBe(fixture('folder-with-index/index.js'))
  })

  it('takes no folder for a file', () => {
    const dir = temporaryDir()
    mkdirSync(join(dir, 'handler.ts'))
    writeFileSync(join(dir, 'handler.js'), '')
    expect(findHandlerFile(join(dir, 'handler'))).toBe(join(dir, 'handler.js'))
    expect(findHandlerFile(dir)).toBe(join(dir, 'handler.js'))
  })

  it('says where it looked, and how to mend it', () => {
    const missing = notFound('no-such/handler')
    expect(missing).toContain('There is no handler at no-such/handler')
    expect(missing).toContain('.ts, .mts, .cts, .tsx, .js, .mjs, .cjs')
    expect(missing).toContain('"longshore init"')
    expect(notFound(fixture('parts'))).toContain(
      'looked for a handler.ts, handler.js, index.ts or index.js in it',
    )
  })
})

describe('loading a handler', () => {
  it.each([
    ['formats/plain.js', 'js'],
    ['formats/plain.mjs', 'mjs'],
    ['formats/plain.cjs', 'cjs'],
    ['formats/compiled.cjs', 'compiled cjs'],
    ['formats/typed.ts', 'ts'],
    ['formats/typed.mts', 'mts'],
    ['formats/typed.cts', 'cts'],
  ])('takes the default export of %s', async (name, from) => {
    const executor = await startExecutor(name)
    expect(await executor.outputOf({ name: 'you' })).toEqual({ hello: 'you', from })
  })

  it('takes a definition: its setup runs once, its schema checks each input', async () => {
    const executor = await startExecutor('with-definition.ts')
    const greeting = { greeting: 'hello you', preparations: 1 }
    expect(await executor.outputOf({ name: 'you' })).toEqual(greeting)
    expect(await executor.outputOf({ name: 'you', times: 1, dropped: true })).toEqual(greeting)
  })

  it.each([
    ['named-export.ts', 'from a named export'],
    ['has-an-enum.ts', ['up', 'down']],
    ['imports-an-enum.ts', 'blue'],
    ['has-a-decorator.ts', ['first', 1]],
    ['imports-a-decorator.ts', ['imported', 1]],
    ['imports-without-extension.ts', 'from a part'],
    ['awaits-at-top-level.ts', 'awaited'],
    ['folder', 'the handler of a folder'],
    ['folder-with-index', 'the index of a folder'],
    ['echo', {}],
  ])('takes %s', async (name, output) => {
    const executor = await startExecutor(name)
    expect(await executor.outputOf({})).toEqual(output)
  })
})

describe('a handler that cannot be loaded', () => {
  /** Why the process of this handler does not become ready, once it is gone. */
  async function failureOf(
    path: string,
    bounds: { importTimeoutMs?: number; setupTimeoutMs?: number } = {},
  ): Promise<UnreadyError> {
    const options = {
      handlerPath: path,
      env: process.env,
      clock: systemClock,
      output: 'lines' as const,
      importTimeoutMs: 5_000,
      setupTimeoutMs: 5_000,
      reportsMemory: false,
      mask: (text: string) => text,
      ...bounds,
    }
    const child = new HandlerProcess(options)
    const failure: unknown = await child.load().then(
      () => child.leave(1000),
      (error: unknown) => error,
    )
    expect((await child.died).exitCode).not.toBe(0)
    expect(childrenLeft(), 'processes left behind').toEqual([])
    expect(failure).toBeInstanceOf(UnreadyError)
    const { message } = failure as UnreadyError
    expect(message).toMatch(/[.?]$|Its last words: /)
    expect(message).not.toMatch(/undefined|please|\[object/i)
    // Nobody can mend what lies in our own folders or in those of the tools we use.
    expect(message).not.toMatch(/node_modules|src\/worker|node:internal/)
    return failure as UnreadyError
  }

  const broken = (name: string): Promise<UnreadyError> => failureOf(fixture(`broken/${name}`))

  it('never ends its import, waiting or not: it is given up, and names the setting', async () => {
    for (const name of ['import-never-settles.ts', 'import-blocks.js']) {
      const { code, message } = await failureOf(fixture(`broken/${name}`), { importTimeoutMs: 400 })
      expect(code).toBe('IMPORT_TIMED_OUT')
      expect(message).toContain('did not end within 400 ms')
      expect(message).toContain('--import-timeout-ms')
    }
  })

  it('never ends its setup: it is given up, and names the setting', async () => {
    const { code, message } = await failureOf(fixture('never-ready.ts'), { setupTimeoutMs: 100 })
    expect(code).toBe('SETUP_TIMED_OUT')
    expect(message).toContain('--setup-timeout-ms')
  })

  it('is missing', async () => {
    const { code, message } = await failureOf('no-such/handler.ts')
    expect(code).toBe('HANDLER_NOT_FOUND')
    expect(message).toContain('There is no handler at no-such/handler.ts')
  })

  // Seen: refresh: '1' ended as EXECUTOR_DIED, with a word about frames.
  it.each([
    ['refresh', "'1'", '\'refresh\' of its definition must be true or false, got the string "1"'],
    ['refresh', 'null', "'refresh' of its definition must be true or false, got null"],
    ['aggregateStream', '1', "'aggregateStream' of its definition must be true or false, got the number 1"],
    [
      'concurrency',
      "'4'",
      '\'concurrency\' of its definition must be a number or a function, got the string "4"',
    ],
    ['setup', '{}', "'setup' of its definition must be a function, got an object"],
    ['input', '{ name: String }', "'input' of its definition must be a schema"],
    ['handler', 'class {}', "'handler' of its definition must be a function, got a class"],
    ['handler', 'undefined', "'handler' of its definition must be a function, got nothing"],
  ])('says which field of its definition is of the wrong type: %s: %s', async (field, value, said) => {
    const file = join(temporaryDir(), 'handler.mjs')
    writeFileSync(file, `export default { handler: () => 1, ${field}: ${value} }\n`)
    const { code, message } = await failureOf(file)
    expect(code).toBe('DEFINITION_INVALID')
    expect(message).toContain(said)
  })

  it.each([
    ['', 'it is empty. Add "export default'],
    ['const run = () => 1\n', 'it exports nothing. Add "export default'],
  ])('has nothing in it that could be called: %j', async (source, said) => {
    const file = join(temporaryDir(), 'handler.ts')
    writeFileSync(file, source)
    const { code, message } = await failureOf(file)
    expect(code).toBe('HANDLER_NOT_EXPORTED')
    expect(message).toContain(said)
  })

  it.each([
    [
      "import { nope } from './part.mjs'",
      'Mend the name, or export it there; a type is imported with "import type".',
    ],
    ["import { nope } from 'old'", "where 'old' is CommonJS, import its default and take nope from that"],
    ["import part from './part.mjs'", "Import what './part.mjs' exports by its name, in braces."],
  ])('imports a name that is not exported: %s', async (line, said) => {
    const dir = project({
      'handler.mjs': `${line}\nexport default () => 1\n`,
      'part.mjs': 'export const part = 1',
      ...packageFiles('old', '1.0.0', "module.exports = Object.fromEntries([['nope', 1]])"),
    })
    const { code, message } = await failureOf(join(dir, 'handler.mjs'))
    expect(code).toBe('HANDLER_IMPORT_FAILED')
    expect(message).toContain('handler.mjs:1. ')
    expect(message).toContain(said)
  })

  it('loads with decorators, whatever its package.json says of modules', async () => {
    const decorated = `import { basename } from 'node:path'
function kept(value: any, _context: any) { return value }
@kept
class Paths { last(path: string): string { return basename(path) } }
export { Paths }
`
    for (const manifest of ['{"type":"commonjs"}', '{"type":"module"}', '{}']) {
      const dir = project({
        'package.json': manifest,
        'paths.ts': decorated,
        'handler.ts': `import { Paths } from './paths.ts'\nexport default () => new Paths().last('/a/b')\n`,
      })
      expect(await (await startExecutor(join(dir, 'handler.ts'))).outputOf({})).toBe('b')
    }
  })

  it('exports nothing: the message has the line to add', async () => {
    const { code, message } = await broken('exports-nothing.ts')
    expect(code).toBe('HANDLER_NOT_EXPORTED')
    expect(message).toContain('broken/exports-nothing.ts: it has no default export.')
    expect(message).toContain('Add "export default async function handler(job) { … }".')
  })

  it('exports a function of another name: the message asks whether that is it', async () => {
    const { code, message } = await broken('exports-another-name.ts')
    expect(code).toBe('HANDLER_NOT_EXPORTED')
    expect(message).toContain('it exports run, version')
    expect(message).toContain('Did you mean "export default run"?')
  })

  it.each([
    ['exports-a-number.ts', 'its default export is a number, not a function or a definition'],
    [
      'exports-an-object-without-handler.ts',
      'its default export is an object, not a function or a definition',
    ],
    ['exports-a-class.ts', 'its default export is a class, not a function or a definition'],
    ['exports-null.js', 'its default export is null, not a function or a definition'],
  ])('exports what is no handler: %s', async (name, words) => {
    const { code, message } = await broken(name)
    expect(code).toBe('HANDLER_NOT_EXPORTED')
    expect(message).toContain(`${name}: ${words}`)
  })

  it.each(['imports-a-missing-file.ts', 'imports-a-missing-file.js'])(
    '%s: the message names the file',
    async (name) => {
      const { code, message } = await broken(name)
      expect(code).toBe('HANDLER_IMPORT_FAILED')
      expect(message).toContain(`broken/${name}`)
      expect(message).toContain('there-is-no-such-file')
      expect(message).toContain('Check the path of that import.')
    },
  )

  it('imports a missing package: the message has the command that installs it', async () => {
    const { code, message } = await broken('imports-a-missing-package.ts')
    expect(code).toBe('HANDLER_IMPORT_FAILED')
    expect(message).toContain('broken/imports-a-missing-package.ts')
    expect(message).toContain('npm install @nowhere/left-pad')
  })

  const part = "// import './gone.ts'\nimport { join } from 'node:path'\n"
  const others = 'export const x = join'
  it.each([
    [
      'missing file',
      'part.ts',
      `${part}import { b } from './gone.ts'\n${others}(b)\n`,
      'gone.ts',
      ':3. Check the path',
    ],
    [
      'missing file',
      'part.mjs',
      `${part}import { b } from './gone.mjs'\n${others}(b)\n`,
      'gone.mjs',
      ':3. Check the path',
    ],
    [
      'missing package',
      'part.ts',
      `${part}import b from '@nowhere/x/y'\n${others}(b)\n`,
      '@nowhere/x',
      ':3. Install it',
    ],
    [
      'name that it makes',
      'part.mjs',
      "await import('./go' + 'ne.mjs')\nexport const x = 1\n",
      'gone.mjs',
      ' imports. C',
    ],
    [
      'broken JSON file',
      'part.ts',
      `import x from './x.json' with { type: 'json' }\nexport { x }\n`,
      'x.json',
      ':2. Mend the JSON',
    ],
  ])(
    'imports a file whose import fails, of a %s: the message has that line',
    async (_what, name, source, word, end) => {
      const dir = temporaryDir()
      writeFileSync(join(dir, 'x.json'), '{\n  bad\n}\n')
      writeFileSync(join(dir, name), source)
      const file = join(dir, `handler${extname(name)}`)
      writeFileSync(file, `import { x } from './${name}'\nexport default () => x\n`)
      const { message, place } = await failureOf(file)
      const blamed = word === 'x.json' ? 'x.json' : name
      expect(message).toContain(word)
      expect(message).toContain(`${blamed}${end}`)
      const line = /^:(\d)/.exec(end)?.[1]
      expect(place).toEqual(line === undefined ? undefined : { file: join(dir, blamed), line: Number(line) })
    },
  )

  it('imports a name that is not exported: the message names it', async () => {
    const { code, message } = await broken('imports-a-missing-name.ts')
    expect(code).toBe('HANDLER_IMPORT_FAILED')
    expect(message).toContain("'absent'")
    expect(message).toContain('broken/imports-a-missing-name.ts:1')
  })

  it.each([
    ['syntax-error.js', 'broken/syntax-error.js:4'],
    ['syntax-error.ts', 'broken/syntax-error.ts:3'],
  ])('has a syntax error: the message names file and line of %s', async (name, place) => {
    const { code, message } = await broken(name)
    expect(code).toBe('HANDLER_IMPORT_FAILED')
    expect(message).toContain('SyntaxError')
    expect(message).toContain(place)
    expect(message).toContain('Mend the syntax there.')
  })

  it.each(['cjs', 'cts'])(
    'is a module called .%s: the message has the name it should have',
    async (extension) => {
      const file = join(temporaryDir(), `handler.${extension}`)
      writeFileSync(file, "\nimport { join } from 'node:path'\nexport default () => join('a')\n")
      const { message, place } = await failureOf(file)
      expect(message).toContain(`handler.${extension}:2. Its extension says CommonJS: name it handler.m`)
      expect(place).toEqual({ file, line: 2 })
    },
  )

  // Seen: the message named the handler's file only, which has no fault, and told to mend it "there".
  it('imports a file with a syntax error: the message names that file', async () => {
    const { code, message } = await broken('imports-a-syntax-error.ts')
    expect(code).toBe('HANDLER_IMPORT_FAILED')
    expect(message).toContain('broken/syntax-error.js')
  })

  // Seen: the importer was blamed for a name that is not exported.
  it('imports a CommonJS file with a syntax error: the message has the line that is broken', async () => {
    const dir = temporaryDir()
    writeFileSync(join(dir, 'other.cjs'), 'exports.one = 1\nexports.other = (2\n')
    writeFileSync(
      join(dir, 'handler.ts'),
      "import { other } from './other.cjs'\nexport default () => other\n",
    )
    const { message, place } = await failureOf(join(dir, 'handler.ts'))
    expect(message).toMatch(/: SyntaxError: .* at \S*other\.cjs:2\. Mend the syntax there\.$/)
    expect(place).toEqual({ file: join(dir, 'other.cjs'), line: 2 })
    writeFileSync(join(dir, 'fine.cjs'), 'exports.one = 1\nif (exports.one) return\n')
    writeFileSync(join(dir, 'misses.ts'), "import { other } from './fine.cjs'\nexport default () => other\n")
    expect((await failureOf(join(dir, 'misses.ts'))).place).toEqual({ file: join(dir, 'misses.ts'), line: 1 })
  })

  // Seen: the message was cut in the middle of the JSON, and had no place.
  it('imports broken JSON that the engine shows whole, over several lines: the message has the line', async () => {
    const dir = temporaryDir()
    writeFileSync(join(dir, 'data.json'), '{"a":1,\n "b": }')
    const source = "import x from './data.json' with { type: 'json' }\nexport default () => x\n"
    writeFileSync(join(dir, 'handler.ts'), source)
    const { message, place } = await failureOf(join(dir, 'handler.ts'))
    expect(message).toMatch(/"b": \}" is not valid JSON at \S*data\.json:2\. Mend the JSON there\.$/)
    expect(place).toEqual({ file: join(dir, 'data.json'), line: 2 })
  })

  it('imports JSON without its attribute: the message has the line and the attribute', async () => {
    const dir = temporaryDir()
    writeFileSync(join(dir, 'data.json'), '{}')
    writeFileSync(join(dir, 'part.ts'), "\nimport x from './data.json'\nexport { x }\n")
    writeFileSync(join(dir, 'handler.ts'), "import { x } from './part.ts'\nexport default () => x\n")
    const { message, place } = await failureOf(join(dir, 'handler.ts'))
    expect(message).toMatch(/part\.ts:2\. Write with \{ type: 'json' \} behind that import\.$/)
    expect(place).toEqual({ file: join(dir, 'part.ts'), line: 2 })
  })

  it('parses bad JSON of several lines at its top level: the message has it to its end', async () => {
    const file = join(temporaryDir(), 'handler.mjs')
    writeFileSync(file, '\nexport default JSON.parse(\'{"a":\\n oops}\')\n')
    const { message } = await failureOf(file)
    expect(message).toMatch(/oops\}" is not valid JSON at \S*handler\.mjs:2\. Mend what its top level/)
  })

  it('throws at its top level: the message names file and line', async () => {
    const { code, message } = await broken('throws-on-import.ts')
    expect(code).toBe('HANDLER_IMPORT_FAILED')
    expect(message).toContain('Error: The base model is missing')
    expect(message).toContain('broken/throws-on-import.ts:4')
    expect(message).toContain('Mend what its top level does')
  })

  it('throws a string at its top level', async () => {
    const { code, message } = await broken('throws-a-string-on-import.ts')
    expect(code).toBe('HANDLER_IMPORT_FAILED')
    expect(message).toContain('broken/throws-a-string-on-import.ts: a string at the top level.')
  })

  // Seen: a SyntaxError that JSON.parse threw at run time was told to be one of the file's own syntax.
  it('reads bad JSON at its top level: the message does not blame its syntax', async () => {
    const { code, message } = await broken('parses-json-on-import.ts')
    expect(code).toBe('HANDLER_IMPORT_FAILED')
    expect(message).toContain('broken/parses-json-on-import.ts:1')
    expect(message).not.toContain('Mend the syntax there.')
  })

  it('ends its process while it loads: the message has the exit code and the last words', async () => {
    const { code, message } = await broken('exits-on-import.ts')
    expect(code).toBe('EXECUTOR_DIED')
    expect(message).toContain('exit code 7')
    expect(message).toContain('the licence has run out')
  })

  it('throws in its setup: the message names file and line', async () => {
    const { code, message } = await broken('setup-throws.ts')
    expect(code).toBe('SETUP_FAILED')
    expect(message).toContain('the model file is too short')
    expect(message).toMatch(/ at \S*broken\/setup-throws\.ts:4\. Mend it/)
  })

  it('throws a string in its setup', async () => {
    const { code, message } = await broken('setup-throws-a-string.ts')
    expect(code).toBe('SETUP_FAILED')
    expect(message).toContain('broken/setup-throws-a-string.ts failed: no model here.')
  })
})
