// Who may do what: every route under every permission, and the forms a key comes in.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { permissions, type Permission } from '../../src/resource/key.ts'
import { hashKey } from '../../src/resource/key-text.ts'
import { KEY, startTestService, type TestService } from '../support/service.ts'

let service: TestService
let jobId: string
beforeAll(async () => {
  service = await startTestService()
  await service.store.endpoints.ensureEndpoint('other')
  jobId = (await service.ask('POST', '/run', { input: {} })).json<{ id: string }>().id
  for (const permission of permissions) await addKey(permission, { permissions: [permission] })
  await addKey('narrow', { permissions: [...permissions], endpoints: ['other'] })
})
afterAll(() => service.close())

function addKey(name: string, may: { permissions: Permission[]; endpoints?: string[] }): Promise<void> {
  return service.store.keys.addKey({ hash: hashKey(name), id: `key_${name}`, name, createdAt: 1, ...may })
}

const withKey = async (
  key: string,
  [method, path]: readonly [method: 'GET' | 'POST', path: string],
): Promise<number> => {
  const body = path.startsWith('/run') ? { input: {}, policy: { ttl: 10_000 } } : undefined
  const reply = await service.ask(method, path.replace('{id}', jobId), body, { authorization: key })
  return reply.statusCode
}

const routes: [permission: Permission, route: readonly ['GET' | 'POST', string]][] = [
  ['write', ['POST', '/run']],
  ['write', ['POST', '/runsync?wait=1000']],
  ['read', ['GET', '/status/{id}']],
  ['read', ['GET', '/stream/{id}?wait=0']],
  ['write', ['POST', '/cancel/{id}']],
  ['write', ['POST', '/retry/{id}']],
  ['write', ['POST', '/purge-queue']],
  ['read', ['GET', '/health']],
  ['worker', ['POST', '/exchange/w1']],
  ['worker', ['POST', '/job-done/w1/{id}']],
  ['worker', ['POST', '/job-stream/w1/{id}']],
  ['worker', ['GET', '/ping/w1']],
]

describe('a key', () => {
  for (const [needed, route] of routes) {
    it(`opens ${route.join(' ')} when it has '${needed}', and else answers 401`, async () => {
      for (const permission of permissions.filter((other) => other !== needed)) {
        expect(await withKey(permission, route)).toBe(401)
      }
      expect(await withKey(needed, route)).not.toBe(401)
      expect(await withKey('narrow', route)).toBe(401)
    })
  }

  it('opens only the endpoints it is for', async () => {
    const ask = (endpoint: string): Promise<{ statusCode: number }> =>
      service.http.inject({ url: `/v2/${endpoint}/health`, headers: { authorization: 'narrow' } })
    expect([(await ask('other')).statusCode, (await ask('default')).statusCode]).toEqual([200, 401])
  })

  it('needs write to move a ttl with a look at the status', async () => {
    expect(await withKey('read', ['GET', '/status/{id}?ttl=60000'])).toBe(401)
    expect(await withKey('write', ['GET', '/status/{id}?ttl=60000'])).toBe(401)
    expect(await withKey(KEY, ['GET', '/status/{id}?ttl=60000'])).toBe(200)
  })

  it('comes bare or as a bearer, its header in any case, and opens nothing once it is revoked', async () => {
    await addKey('short-lived', { permissions: ['read'] })
    const ask = async (headers: Record<string, string>): Promise<number> =>
      (await service.http.inject({ url: '/v2/default/health', headers })).statusCode
    for (const name of ['authorization', 'Authorization', 'AUTHORIZATION']) {
      for (const value of ['short-lived', 'Bearer short-lived', 'bearer short-lived']) {
        expect(await ask({ [name]: value })).toBe(200)
      }
    }
    expect(await service.store.keys.revokeKey('key_short-lived')).toBe(true)
    expect([await ask({ authorization: 'short-lived' }), await ask({})]).toEqual([401, 401])
  })

  it('is told what it lacks, and never repeated', async () => {
    const reply = await service.ask('POST', '/run', { input: {} }, { authorization: 'Bearer read' })
    expect(reply.headers['www-authenticate']).toBe('Bearer')
    expect(reply.json()).toEqual({
      error:
        'This key has no \'write\' permission. Send "Authorization: Bearer <key>" with a key that may do this.',
      code: 'UNAUTHORIZED',
    })
  })
})
