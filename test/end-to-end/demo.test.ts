import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { template, temporaryDir } from '../support/processes.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

async function demo(args: string[] = [], dir = temporaryDir()): Promise<{ code: unknown; out: string }> {
  const child = spawn('npm', ['run', 'demo', '--', ...args], {
    cwd: root,
    env: { ...process.env, TMPDIR: dir },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  const [code] = await once(child, 'close')
  return { code, out }
}

describe('npm run demo', () => {
  it('reads the scanned page, shows progress, text, the share of words and the record, and leaves nothing', async () => {
    const dir = temporaryDir()
    const { code, out } = await demo([], dir)
    expect(code).toBe(0)
    expect(out).toMatch(/Reading: \d+ %/)
    expect(out).toContain('Call me Ishmael')
    expect(Number(/Words read right: ([\d.]+) %/.exec(out)?.[1])).toBeGreaterThan(95)
    expect(out).toMatch(/"status": "COMPLETED",\n {2}"delayTime": \d+,\n {2}"executionTime": \d+/)
    expect(readdirSync(dir).filter((name) => name.startsWith('longshore-demo-'))).toEqual([])
  })

  it("reads the user's own picture, and says so when it cannot", { timeout: 90_000 }, async () => {
    const own = await demo([`${template('ocr')}/page.png`])
    expect([own.code, own.out.includes('Call me Ishmael'), own.out.includes('Words read right')]).toEqual([
      0,
      true,
      false,
    ])
    const text = await demo([`${template('ocr')}/page.txt`])
    expect([text.code, text.out]).toEqual([1, expect.stringContaining('not a PNG or JPEG image')])
    const missing = await demo(['nowhere.png'])
    expect([missing.code, missing.out]).toEqual([1, expect.stringContaining('The picture cannot be read')])
  })
})
