// The keys of a store from the command line, with and without a service on it.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { longshore, serve, temporaryDir } from '../support/processes.ts'

async function keys(store: string, ...args: string[]): Promise<{ code: unknown; out: string; err: string }> {
  const child = longshore(['keys', ...args, '--store', store])
  const code = await child.exit
  return { code, out: child.stdout, err: child.stderr }
}

describe('longshore keys', () => {
  it('makes, lists and revokes keys that a running service obeys at once', async () => {
    const server = await serve({ args: ['--endpoint', 'ocr'] })
    const store = `sqlite:${server.file}`
    const ask = async (path: string, key: string): Promise<number> => {
      const url = new URL(path, server.endpointUrl.replace('/v2/ocr', ''))
      return (await fetch(url, { headers: { authorization: `Bearer ${key}` } })).status
    }
    const made = await keys(store, 'create', '--name', 'looks', '--endpoint', 'ocr', '--allow', 'read')
    expect([made.code, made.out]).toEqual([0, expect.stringMatching(/^ls_[\w-]{32}\n$/)])
    const key = made.out.trim()
    expect([await ask('/v2/ocr/health', key), await ask('/v2/default/health', key)]).toEqual([200, 401])
    expect(readFileSync(server.file).includes(key)).toBe(false)

    const listed = await keys(store, 'list')
    expect(listed.out).toMatch(/^key_\w{16} {2}\S+Z {2}'looks', read on endpoint ocr\n$/)
    expect(listed.out).not.toContain(key)

    expect(await keys(store, 'revoke', listed.out.split(' ')[0] ?? '')).toMatchObject({ code: 0 })
    expect(await ask('/v2/ocr/health', key)).toBe(401)
    expect((await keys(store, 'list')).out).toBe('')
  })

  it('says what is wrong, and makes no file', async () => {
    const missing = `sqlite:${join(temporaryDir(), 'missing.db')}`
    expect(await keys(missing, 'list')).toMatchObject({
      code: 1,
      err: expect.stringContaining('There is no queue file'),
    })
    const server = await serve()
    await server.kill('SIGTERM')
    const store = `sqlite:${server.file}`
    const wrong: [args: string[], says: string][] = [
      [['create', '--allow', 'all'], '--allow takes read, write, worker, fleet.'],
      [['create', '--endpoint', 'no such name'], "--endpoint 'no such name'"],
      [['create', '--name', ''], '--name must be'],
      [['create', '--name', 'two\nlines'], '--name must be'],
      [['revoke', 'key_0'], "There is no key 'key_0'"],
    ]
    for (const [args, says] of wrong) {
      expect(await keys(store, ...args)).toMatchObject({ code: 1, err: expect.stringContaining(says) })
    }
    expect((await keys(store, 'create')).out).toMatch(/^ls_/)
  })
})
