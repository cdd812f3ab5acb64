import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { longshore, temporaryDir } from '../support/processes.ts'
import { DURABLE, isRedisMissing, startRedis } from '../support/redis.ts'

async function doctor(store: string): Promise<{ code: number | NodeJS.Signals; lines: string[] }> {
  const process = longshore(['doctor', '--store', store])
  const code = await process.exit
  expect(process.stderr).toBe('')
  return { code, lines: process.stdout.split('\n').filter(Boolean) }
}

const well = { code: 0, lines: [] }

describe.skipIf(isRedisMissing)('doctor of a Redis', () => {
  it('is silent where all is well, and says each thing that is not', { timeout: 60_000 }, async () => {
    const server = await startRedis(DURABLE)
    onTestFinished(() => server.stop())
    expect(await doctor(server.url)).toEqual(well)
    await server.cli('config', 'set', 'appendfsync', 'everysec')
    await server.cli('config', 'set', 'maxmemory-policy', 'volatile-lru')
    const { code, lines } = await doctor(server.url)
    expect(code).toBe(1)
    expect(lines).toHaveLength(2)
    expect(lines.join('\n')).toMatch(/a power cut loses the last second.*\n.*'volatile-lru'/)
    await server.cli('config', 'set', 'appendonly', 'no')
    expect((await doctor(server.url)).lines.join('\n')).toContain('appendonly is off')
    await server.kill()
    expect((await doctor(server.url)).lines).toEqual([expect.stringContaining('cannot be reached')])
  })
})

describe('doctor of a queue file', () => {
  it('is silent where all is well, and says what is no queue file', async () => {
    const dir = temporaryDir()
    const file = join(dir, 'queue.db')
    expect((await doctor(`sqlite:${file}`)).lines).toEqual([
      expect.stringContaining('There is no queue file'),
    ])
    const store = openSqliteStore({ file })
    // Also while it is served.
    expect(await doctor(`sqlite:${file}`)).toEqual(well)
    await store.close()
    expect(await doctor(`sqlite:${file}`)).toEqual(well)
    writeFileSync(join(dir, 'other'), 'no database at all, but some text that is long enough to be looked at')
    expect(await doctor(`sqlite:${join(dir, 'other')}`)).toMatchObject({
      code: 1,
      lines: [expect.anything()],
    })
  })
})
