import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { template, temporaryDir } from '../support/processes.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

describe("a template's own test", () => {
  it.each(readdirSync(template('.')))('passes beside an installed longshore: %s', (name) => {
    const dir = join(temporaryDir(), name)
    cpSync(template(name), dir, { recursive: true })
    // As npm install would have it.
    for (const [from, as] of [
      [root, 'longshore'],
      ...['zod', 'tesseract.js', '@tesseract.js-data/eng', 'sharp'].map((one) => [
        join(root, 'node_modules', one),
        one,
      ]),
    ] as [string, string][]) {
      const to = join(dir, 'node_modules', as)
      mkdirSync(dirname(to), { recursive: true })
      symlinkSync(from, to)
    }
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--test'], { cwd: dir, encoding: 'utf8' })
    expect(`${stdout}${stderr}`).toMatch(/pass [1-9]/)
    expect(status).toBe(0)
  })
})
