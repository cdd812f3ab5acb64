import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { longshore, main, template, temporaryDir } from '../support/processes.ts'
import { paste, type } from '../support/shell.ts'

/** Of a starter that was written: what is to be typed next. */
async function initialise(args: string[], cwd: string): Promise<string> {
  const init = longshore(['init', ...args], { cwd })
  expect(await init.exit).toBe(0)
  return init.stdout.split('Next:\n\n')[1] ?? ''
}

const DOWN = '\u001B[B'
const command = `'${process.execPath}' --disable-warning=ExperimentalWarning '${main}' init`

describe('longshore init', () => {
  it('takes hello where nobody can be asked, and installs nothing', async () => {
    const cwd = temporaryDir()
    expect(await initialise([], cwd)).toBe('  cd hello && npm install\n  npx longshore run handler.ts\n')
    expect(readdirSync(join(cwd, 'hello'))).toEqual(
      [...readdirSync(template('hello')), '.gitignore'].toSorted(),
    )
    expect(readFileSync(join(cwd, 'hello', '.gitignore'), 'utf8')).toMatch(/^node_modules\n\.env\*\n/)
  })

  it.each([
    ['f', /^f is a file\. Name a folder: longshore init hello <dir>\.\n$/],
    ['', /^A folder must have a name\./],
    ['f/below', /^The folder f\/below cannot be written: .*Name another\.\n$/],
  ])("says that it cannot write to '%s'", async (dir, says) => {
    const cwd = temporaryDir()
    writeFileSync(join(cwd, 'f'), '')
    const child = longshore(['init', 'hello', dir], { cwd })
    expect([await child.exit, child.stderr]).toEqual([1, expect.stringMatching(says)])
  })

  it('says which template was meant', async () => {
    const child = longshore(['init', 'hllo'], { cwd: temporaryDir() })
    expect([await child.exit, child.stderr]).toEqual([1, expect.stringMatching(/ Did you mean hello\?\n$/)])
  })

  it('ends with a cd that a shell takes, whatever the folder is called', async () => {
    const cwd = temporaryDir()
    const [cd = ''] = (await initialise(['hello', '--', '-dash'], cwd)).trim().split(' && ')
    expect(await paste(`${cd} && pwd`, cwd)).toEqual({ code: 0, said: expect.stringContaining('/-dash') })
  })

  it('asks which template on a terminal', async () => {
    const cwd = temporaryDir()
    const keys: [string, string][] = [
      ['Checks an input and returns a value.', DOWN],
      ['Reads scanned pages with a model kept warm.', '\r'],
    ]
    const { code, said } = await type(command, keys, cwd)
    expect(said).toContain('cd ocr && npm install')
    expect([code, readdirSync(cwd)]).toEqual([0, ['ocr']])
  })

  it('writes nothing when the answer is Ctrl-C', async () => {
    const cwd = temporaryDir()
    const { code, said } = await type(command, [['Which template?', '\u0003']], cwd)
    expect(said).toContain('No template was chosen: nothing was written.')
    expect([code, readdirSync(cwd)]).toEqual([1, []])
  })

  it('does not ask for what it is told, also on a terminal', async () => {
    const cwd = temporaryDir()
    const { said } = await type(`${command} stream-text mine`, [], cwd)
    expect(said).not.toContain('Which template?')
    expect(existsSync(join(cwd, 'mine', 'handler.ts'))).toBe(true)
  })

  it.each([
    ['hello', 'Hello, Ada!'],
    ['openai-proxy', 'data: [DONE]'],
  ])('ends with two commands that work as pasted: %s', async (name, says) => {
    const cwd = temporaryDir()
    const next = await initialise([name, "it's mine"], cwd)
    expect(next.trim().split('\n')).toHaveLength(2)
    const { code, said } = await paste(next, cwd)
    expect(said).toContain(says)
    expect(code).toBe(0)
    const manifest = readFileSync(join(cwd, "it's mine", 'package.json'), 'utf8')
    expect(manifest).toContain('"description"')
  })
})
