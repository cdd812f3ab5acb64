import { describe, expect, it } from 'vitest'
import { KEY } from '../support/service.ts'
import { startRig, type Reply, type Rig } from '../support/interface-rig.ts'

const operations: [method: 'GET' | 'POST', path: string][] = [
  ['POST', '/run'],
  ['POST', '/runsync'],
  ['GET', '/status/ID'],
  ['GET', '/stream/ID'],
  ['POST', '/cancel/ID'],
  ['POST', '/retry/ID'],
  ['POST', '/purge-queue'],
  ['GET', '/health'],
  ['GET', '/requests'],
  ['POST', '/openai/v1/chat/completions'],
]

function ask(
  rig: Rig,
  method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'PATCH' | 'HEAD',
  url: string,
  more: { headers?: Record<string, string>; payload?: string } = {},
): Promise<Reply> {
  const { headers = { authorization: KEY }, payload } = more
  return rig.service.http.inject({ method, url, headers, ...(payload !== undefined && { payload }) })
}

describe('every operation', () => {
  for (const [method, path] of operations) {
    it(`[OPS-1, VER-1] is below /v2/{endpointId}, and nowhere else: ${method} ${path}`, async () => {
      const rig = await startRig()
      // What only a known path is asked about is an endpoint or a job that there is not, or a body.
      const known = await ask(rig, method, `/v2/nowhere${path}`, { payload: '{"input":{}}' })
      expect(known.statusCode).toBe(404)
      expect(known.body).toContain("There is no endpoint 'nowhere'")
      for (const prefix of ['', '/v1/default', '/v3/default', '/default', '/v2']) {
        const reply = await ask(rig, method, `${prefix}${path}`, { payload: '{"input":{}}' })
        expect([prefix, reply.statusCode, reply.json().code]).toEqual([prefix, 404, 'ROUTE_NOT_FOUND'])
      }
    })

    it(`[OPS-3, AUT-1, AUT-5] needs a key: ${method} ${path}`, async () => {
      const rig = await startRig()
      const reply = await ask(rig, method, `/v2/default${path}`, { headers: {}, payload: '{"input":{}}' })
      expect(reply.statusCode).toBe(401)
      expect(reply.headers['www-authenticate']).toBe('Bearer')
    })
  }

  it('[OPS-4] answers JSON, refusals too', async () => {
    const rig = await startRig()
    const id = await rig.failed()
    for (const [method, path] of operations) {
      if (path === '/runsync' || path.startsWith('/openai')) continue
      const body = path === '/run' ? { input: {} } : undefined
      const reply = await rig.service.ask(method, path.replace('ID', id), body)
      expect([path, reply.statusCode]).toEqual([path, 200])
      expect(reply.headers['content-type']).toBe('application/json; charset=utf-8')
      expect(() => void reply.json()).not.toThrow()
      const refused = await ask(rig, method, `/v2/nowhere${path}`, { payload: '{"input":{}}' })
      expect(refused.headers['content-type']).toBe('application/json; charset=utf-8')
    }
  })

  it.each(['application/json', 'text/plain', 'application/x-www-form-urlencoded', 'a/b/c;;', ''])(
    '[OPS-5] reads its body as JSON whatever its label says: %s',
    async (label) => {
      const rig = await startRig()
      const headers = { authorization: KEY, 'content-type': label }
      const reply = await ask(rig, 'POST', '/v2/default/run', { headers, payload: '{"input":{"a":1}}' })
      expect(reply.statusCode).toBe(200)
      expect((await rig.worker.take()).input).toEqual({ a: 1 })
    },
  )

  it('[OPS-5, CAN-1, RTY-1, PRG-1] ignores a body where it needs none', async () => {
    const rig = await startRig()
    const id = await rig.failed()
    for (const path of [`/retry/${id}`, `/cancel/${id}`, '/purge-queue']) {
      for (const body of ['{"broken', Buffer.from([0xff, 0x00]), '[]']) {
        if (path.startsWith('/retry') && body !== '{"broken') continue
        expect((await rig.post(path, body)).statusCode).toBe(200)
      }
    }
  })

  it('[OPS-6] finds a job under its own endpoint only', async () => {
    const rig = await startRig()
    await rig.service.store.endpoints.ensureEndpoint('other')
    const id = await rig.failed()
    for (const [method, path] of operations.filter(([, one]) => one.includes('ID'))) {
      const reply = await ask(rig, method, `/v2/other${path.replace('ID', id)}`)
      expect([path, reply.statusCode, reply.json().code]).toEqual([path, 404, 'JOB_NOT_FOUND'])
    }
    expect((await ask(rig, 'GET', '/v2/other/requests')).json()).toEqual({ requests: [] })
    expect(await rig.statusOf(id)).toBe('FAILED')
  })

  it('[OPS-7] takes one method, and does nothing for another', async () => {
    const rig = await startRig()
    const id = await rig.submit()
    for (const [method, path] of operations) {
      for (const other of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'] as const) {
        if (other === method || (path.startsWith('/openai') && other === 'GET')) continue
        const reply = await ask(rig, other, `/v2/default${path.replace('ID', id)}`, {
          ...(other !== 'GET' && other !== 'HEAD' && { payload: '{"input":{}}' }),
        })
        expect([other, path, reply.statusCode]).toEqual([other, path, 404])
      }
    }
    expect(await rig.statusOf(id)).toBe('IN_QUEUE')
    expect((await rig.health()).jobs['inQueue']).toBe(1)
  })

  it('[OPS-8] tells nothing of the settings of an endpoint, and changes none', async () => {
    const rig = await startRig()
    for (const path of ['', '/', '/config', '/settings', '/workers']) {
      for (const method of ['GET', 'POST'] as const) {
        expect((await ask(rig, method, `/v2/default${path}`)).statusCode).toBe(404)
      }
    }
  })

  it('[VER-2] is served below /compat/v2 as well, in the words of the hosted platform', async () => {
    const rig = await startRig()
    const id = await rig.failed()
    const theirs = await ask(rig, 'GET', `/compat/v2/default/status/${id}`)
    expect(theirs.json()).toMatchObject({ id, status: 'FAILED', error: 'it broke' })
    const stream = await ask(rig, 'POST', `/compat/v2/default/stream/${id}?wait=0`)
    expect(stream.json()).toEqual({ status: 'FAILED', stream: [] })
    const waited = await ask(rig, 'GET', `/compat/v2/default/status-sync/${id}`)
    expect(waited.json()).toMatchObject({ id, status: 'FAILED' })
    for (const [method, path] of operations.filter(([, one]) => !one.includes('ID'))) {
      const reply = await ask(rig, method, `/compat/v2/nowhere${path}`, { payload: '{"input":{}}' })
      expect([path, reply.body]).toEqual([path, expect.stringContaining("no endpoint 'nowhere'")])
    }
  })
})
