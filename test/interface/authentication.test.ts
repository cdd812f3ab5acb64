import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Permission } from '../../src/resource/key.ts'
import { hashKey } from '../../src/resource/key-text.ts'
import { longshore, temporaryDir } from '../support/processes.ts'
import { KEY } from '../support/service.ts'
import { startRig, type Rig } from '../support/interface-rig.ts'

async function addKey(
  rig: Rig,
  name: string,
  permissions: Permission[],
  endpoints?: string[],
): Promise<void> {
  const key = { hash: hashKey(name), id: `key_${name}`, name, permissions, createdAt: 1 }
  await rig.service.store.keys.addKey({ ...key, ...(endpoints && { endpoints }) })
}

async function health(rig: Rig, headers: Record<string, string>, endpoint = 'default'): Promise<number> {
  return (await rig.service.http.inject({ url: `/v2/${endpoint}/health`, headers })).statusCode
}

describe('authentication', () => {
  it('[AUT-1] takes the key in the Authorization header and nowhere else', async () => {
    const rig = await startRig()
    expect(await health(rig, { authorization: `Bearer ${KEY}` })).toBe(200)
    for (const headers of [{ 'x-api-key': KEY }, { cookie: `authorization=${KEY}` }]) {
      expect(await health(rig, headers)).toBe(401)
    }
    const inQuery = await rig.service.http.inject(`/v2/default/health?authorization=${KEY}&api_key=${KEY}`)
    expect(inQuery.statusCode).toBe(401)
  })

  it.each(['authorization', 'Authorization', 'AUTHORIZATION', 'aUtHoRiZaTiOn'])(
    '[AUT-2, AUT-3, AUT-4] takes the header as %s, the key behind Bearer or bare',
    async (name) => {
      const rig = await startRig()
      for (const value of [`Bearer ${KEY}`, KEY]) expect(await health(rig, { [name]: value })).toBe(200)
    },
  )

  it('[AUT-5, AUT-6, ERR-2] answers 401 without a key, and to a wrong one', async () => {
    const rig = await startRig()
    const wrong = [
      '',
      ' ',
      'Bearer',
      'Bearer ',
      'Bearer wrong',
      'wrong',
      KEY.slice(1),
      `${KEY}x`,
      `Basic ${KEY}`,
    ]
    for (const headers of [{}, ...wrong.map((authorization) => ({ authorization }))]) {
      const reply = await rig.service.http.inject({ url: '/v2/default/health', headers })
      expect([headers, reply.statusCode, reply.json().code]).toEqual([headers, 401, 'UNAUTHORIZED'])
      expect(reply.headers['www-authenticate']).toBe('Bearer')
    }
  })

  it('[AUT-7, AUT-8, ERR-2] answers 401 to a key that has not the permission of the operation', async () => {
    const rig = await startRig()
    const id = await rig.failed()
    for (const permission of ['read', 'write', 'worker'] as const) await addKey(rig, permission, [permission])
    const needs: [Permission, 'GET' | 'POST', string][] = [
      ['read', 'GET', `/status/${id}`],
      ['read', 'GET', `/stream/${id}`],
      ['read', 'GET', '/health'],
      ['read', 'GET', '/requests'],
      ['write', 'POST', '/run'],
      ['write', 'POST', `/retry/${id}`],
      ['write', 'POST', `/cancel/${id}`],
      ['write', 'POST', '/purge-queue'],
      ['worker', 'GET', '/ping/w1'],
      ['worker', 'POST', `/job-done/w1/${id}`],
    ]
    for (const [needed, method, path] of needs) {
      for (const permission of ['read', 'write', 'worker'] as const) {
        const body = method === 'POST' ? { input: {} } : undefined
        const reply = await rig.service.ask(method, path, body, { authorization: permission })
        expect([path, permission, reply.statusCode]).toEqual([
          path,
          permission,
          permission === needed ? 200 : 401,
        ])
      }
    }
  })

  it('[AUT-8] opens to a key the endpoints it is bound to, all of them without a bond', async () => {
    const rig = await startRig()
    await rig.service.store.endpoints.ensureEndpoint('other')
    await addKey(rig, 'bound', ['read'], ['other'])
    await addKey(rig, 'free', ['read'])
    const asked = ['bound', 'free'].flatMap((authorization) =>
      ['default', 'other'].map((endpoint) => health(rig, { authorization }, endpoint)),
    )
    expect(await Promise.all(asked)).toEqual([401, 200, 200, 200])
  })

  it('[AUT-9] opens nothing to a key that was revoked', async () => {
    const rig = await startRig()
    await addKey(rig, 'short-lived', ['read'])
    expect(await health(rig, { authorization: 'short-lived' })).toBe(200)
    await rig.service.store.keys.revokeKey('key_short-lived')
    expect(await health(rig, { authorization: 'short-lived' })).toBe(401)
  })

  it('[AUT-10] comes before endpoint, path and body, and repeats no key', async () => {
    const rig = await startRig()
    const authorization = 'Bearer SECRET-OF-SOMEBODY'
    for (const url of [
      '/v2/default/run',
      '/v2/nowhere/run',
      '/v2/default/nothing',
      '/compat/v2/default/run',
    ]) {
      const reply = await rig.service.http.inject({
        method: 'POST',
        url,
        headers: { authorization },
        payload: '{"broken',
      })
      expect([url, reply.statusCode]).toEqual([url, 401])
      expect(reply.body).not.toContain('SECRET')
    }
    expect(rig.service.logged.join('\n')).not.toMatch(/SECRET|test-key/)
  })

  it('[AUT-11] obeys at once the keys that the command line makes and revokes, and stores their hashes', async () => {
    const file = join(temporaryDir(), 'queue.db')
    const rig = await startRig({ file })
    const keys = async (...args: string[]): Promise<string> => {
      const child = longshore(['keys', ...args, '--store', `sqlite:${file}`])
      expect(await child.exit).toBe(0)
      return child.stdout.trim()
    }
    const authorization = await keys('create', '--allow', 'read')
    expect(await health(rig, { authorization })).toBe(200)
    for (const part of ['', '-wal'])
      expect(readFileSync(`${file}${part}`).includes(authorization)).toBe(false)
    const [id = ''] = (await keys('list')).split(' ')
    await keys('revoke', id)
    expect(await health(rig, { authorization })).toBe(401)
  })
})
