import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { temporaryDir } from './processes.ts'

it('counts a failing global setup, which no test tells of, as a failure', async () => {
  const root = temporaryDir()
  const reporter = fileURLToPath(new URL('closing-line.ts', import.meta.url))
  const options = { globals: true, globalSetup: './setup.mjs', reporters: [reporter] }
  writeFileSync(join(root, 'vitest.config.mjs'), `export default ${JSON.stringify({ test: options })}`)
  writeFileSync(join(root, 'setup.mjs'), `export default () => { throw new Error('no server') }`)
  writeFileSync(join(root, 'a.test.mjs'), `it('passes', () => {})`)
  expect(await closingLine(root)).toBe('0 passed, 1 failed, 0 skipped')
})

function closingLine(root: string): Promise<string | undefined> {
  const vitest = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url))
  return new Promise((resolve) => {
    execFile(process.execPath, [vitest, 'run', '--root', root], (_error, stdout) => {
      resolve(stdout.trimEnd().split('\n').at(-1))
    })
  })
}
