import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { examineKeyFile, secretKey } from '../../src/cli/secret-key.ts'

let dir: string
let file: string
let warnings: string[]
const warn = (sentence: string): void => void warnings.push(sentence)
const modeOf = (path: string): number => statSync(path).mode & 0o777

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'longshore-test-'))
  file = join(dir, 'queue.db')
  warnings = []
})
afterEach(() => rmSync(dir, { recursive: true, force: true }))

describe('the key file beside a store', () => {
  it('is made once, with 256 random bits and mode 600, and read from then on', () => {
    const secret = secretKey(undefined, file, warn)
    expect(Buffer.from(secret, 'base64url')).toHaveLength(32)
    expect(readFileSync(`${file}.key`, 'utf8')).toBe(`${secret}\n`)
    expect(modeOf(`${file}.key`)).toBe(0o600)
    expect(readdirSync(dir)).toEqual(['queue.db.key'])
    expect(secretKey('', file, warn)).toBe(secret)
    expect(warnings).toEqual([])
  })

  it("is nobody else's at any moment, whatever the umask is", () => {
    const script = `
      import { syncBuiltinESMExports } from 'node:module'
      import fs from 'node:fs'
      const modes = []
      const { writeFileSync, renameSync } = fs
      const look = () => fs.readdirSync(${JSON.stringify(dir)}).map((name) => modes.push(fs.statSync(${JSON.stringify(dir)} + '/' + name).mode & 0o777))
      fs.writeFileSync = (path, text, options) => { fs.closeSync(fs.openSync(path, options.flag, options.mode)); look(); writeFileSync(path, text, { ...options, flag: 'w' }); look() }
      fs.renameSync = (...args) => { renameSync(...args); look() }
      syncBuiltinESMExports()
      process.umask(0)
      const { secretKey } = await import(${JSON.stringify(join(import.meta.dirname, '../../src/cli/secret-key.ts'))})
      secretKey(undefined, ${JSON.stringify(file)}, () => undefined)
      console.log(JSON.stringify(modes))`
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
    })
    expect([JSON.parse(stdout || 'null'), stderr]).toEqual([[0o600, 0o600, 0o600], ''])
  })

  it.each([
    ['file', (draft: string) => writeFileSync(draft, 'half', { mode: 0o666 })],
    ['link', (draft: string) => symlinkSync(join(dir, 'elsewhere'), draft)],
  ])('takes nothing over from a %s that a process by the same number has left', (_, leave) => {
    leave(`${file}.key.${process.pid}`)
    const secret = secretKey(undefined, file, warn)
    expect([readFileSync(`${file}.key`, 'utf8').trim(), modeOf(`${file}.key`)]).toEqual([secret, 0o600])
    expect(readdirSync(dir)).toEqual(['queue.db.key'])
  })

  it.each([0o644, 0o640, 0o604])(
    'is taken with mode %o, with a warning that names it and not the secret',
    (mode) => {
      writeFileSync(`${file}.key`, 'the-secret-of-that-time\n')
      chmodSync(`${file}.key`, mode)
      expect(secretKey(undefined, file, warn)).toBe('the-secret-of-that-time')
      expect(warnings).toHaveLength(1)
      expect(warnings[0]).toContain(`queue.db.key has mode ${mode.toString(8)}`)
      expect(warnings[0]).not.toContain('of-that-time')
      expect(modeOf(`${file}.key`)).toBe(mode)
    },
  )

  it('is refused when it is empty: another secret could not open what is sealed', () => {
    writeFileSync(`${file}.key`, '\n', { mode: 0o600 })
    expect(() => secretKey(undefined, file, warn)).toThrow(/queue\.db\.key is empty/)
  })

  // Only the root user may give a file to any group.
  it.skipIf(process.getuid?.() !== 0)('is not taken from a group that it was given to', () => {
    const path = `${file}.key`
    writeFileSync(path, 'the-secret-of-that-time\n')
    chmodSync(path, 0o640)
    expect(examineKeyFile(file)).toMatchObject([{ level: 'problem', fix: { done: expect.anything() } }])
    chownSync(path, 0, 65_534)
    const [finding] = examineKeyFile(file)
    expect(finding).toEqual({ level: 'problem', sentence: expect.stringContaining('when its group 65534') })
    chmodSync(path, 0o644)
    expect(examineKeyFile(file)).toMatchObject([{ fix: { done: expect.anything() } }])
  })

  it('is not made for a store in memory, nor beside a given secret', () => {
    expect(secretKey(undefined, undefined, warn)).not.toBe(secretKey(undefined, undefined, warn))
    expect(secretKey('sixteen-characters', file, warn)).toBe('sixteen-characters')
    expect([readdirSync(dir), warnings]).toEqual([[], []])
  })
})

describe('LONGSHORE_SECRET_KEY', () => {
  it('is taken when it is shorter than 16 characters, with a warning that does not tell it', () => {
    expect(secretKey('hush-hush-hush1', file, warn)).toBe('hush-hush-hush1')
    expect(warnings).toEqual([
      expect.stringMatching(/^LONGSHORE_SECRET_KEY has 15 characters and can be guessed\./),
    ])
    expect(warnings[0]).not.toContain('hush')
    warnings = []
    secretKey('hush-hush-hush12', file, warn)
    expect(warnings).toEqual([])
  })
})
