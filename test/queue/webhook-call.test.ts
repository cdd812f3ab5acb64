import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { MockAgent } from 'undici'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WebhookCall, type WebhookCallOptions } from '../../src/queue/webhook-call.ts'
import { startReceiver } from '../support/receiver.ts'

const BODY = Buffer.from('{"id":"job"}')

function call(options: Partial<WebhookCallOptions> = {}): (url: string) => Promise<void> {
  const webhook = new WebhookCall({ allowPrivate: true, ...options })
  onTestFinished(() => webhook.close())
  return (url) =>
    webhook.send({ url, body: BODY, timestamp: 1_750_000_000, headers: {} }, AbortSignal.timeout(5_000))
}

describe('a webhook call', () => {
  it('posts the body as JSON, with the credentials of the URL', async () => {
    const receiver = await startReceiver()
    await call()(receiver.url.replace('//', '//user:p%40ss@') + '/done?token=1')
    expect(receiver.calls.all).toMatchObject([
      {
        method: 'POST',
        path: '/done?token=1',
        body: BODY.toString(),
        headers: {
          'content-type': 'application/json',
          'content-length': String(BODY.length),
          authorization: `Basic ${Buffer.from('user:p@ss').toString('base64')}`,
        },
      },
    ])
    expect(receiver.calls.all[0]?.headers).not.toHaveProperty('x-longshore-signature')
  })

  it('is signed over time and body when there is a secret', async () => {
    const receiver = await startReceiver()
    await call({ signingSecret: 'whsec' })(receiver.url)
    const mac = createHmac('sha256', 'whsec').update(`1750000000.${BODY.toString()}`).digest('hex')
    expect(receiver.calls.all[0]?.headers['x-longshore-signature']).toBe(`t=1750000000,v1=${mac}`)
  })

  for (const status of [200, 201, 204, 299]) {
    it(`succeeds at ${status}`, async () => {
      const receiver = await startReceiver(() => ({ status }))
      await expect(call()(receiver.url)).resolves.toBeUndefined()
    })
  }
  for (const status of [301, 302, 303, 304, 400, 404, 410, 429, 500, 503]) {
    it(`fails at ${status}`, async () => {
      const receiver = await startReceiver(() => ({ status, headers: { location: '/elsewhere' } }))
      await expect(call()(receiver.url)).rejects.toThrow(`the receiver answered ${status}`)
      expect(receiver.calls.all).toHaveLength(1)
    })
  }

  it('judges by the status alone, however slow the rest of the answer is', async () => {
    const server = createServer((_, response) => {
      response.writeHead(200, { 'content-length': 10 })
      response.flushHeaders()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      server.closeAllConnections()
      server.close()
    })
    const { port } = server.address() as AddressInfo
    await expect(call()(`http://127.0.0.1:${port}/`)).resolves.toBeUndefined()
  })

  it('follows 307 and 308 with the same body, three times', async () => {
    const receiver = await startReceiver(({ path }) => {
      const hops = Number(path.slice(1))
      return hops === 0
        ? { status: 200 }
        : { status: hops % 2 ? 307 : 308, headers: { location: `/${hops - 1}` } }
    })
    await call()(`${receiver.url}/3`)
    expect(receiver.calls.all.map(({ path, method, body }) => [path, method, body])).toEqual(
      ['/3', '/2', '/1', '/0'].map((path) => [path, 'POST', BODY.toString()]),
    )
    await expect(call()(`${receiver.url}/4`)).rejects.toThrow('more than 3 redirects')
  })

  it('follows no redirect to a private address', async () => {
    const receiver = await startReceiver()
    const { port } = new URL(receiver.url)
    for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]']) {
      // The first hop has to be somebody public, and there is nobody.
      const dispatcher = new MockAgent()
      dispatcher.disableNetConnect()
      const location = `http://${host}:${port}/inside`
      dispatcher
        .get('http://public.example')
        .intercept({ path: '/hook', method: 'POST' })
        .reply(307, '', { headers: { location } })
      await expect(call({ allowPrivate: false, dispatcher })('http://public.example/hook')).rejects.toThrow(
        /private address/,
      )
    }
    expect(receiver.calls.all).toEqual([])
  })

  it('goes to no private address, by literal or by name, unless that is allowed', async () => {
    const receiver = await startReceiver()
    const strict = call({ allowPrivate: false })
    const { port } = new URL(receiver.url)
    for (const host of ['127.0.0.1', '[::1]', 'localhost', '2130706433']) {
      await expect(strict(`http://${host}:${port}/`)).rejects.toThrow(/private address/)
    }
    expect(receiver.calls.all).toEqual([])
  })

  it('is refused a redirect to something else than http', async () => {
    const receiver = await startReceiver(() => ({ status: 307, headers: { location: 'file:///etc/passwd' } }))
    await expect(call()(receiver.url)).rejects.toThrow(/no http or https URL/)
  })

  it('ends with its signal when the receiver says nothing', async () => {
    const receiver = await startReceiver(() => undefined)
    const webhook = new WebhookCall({ allowPrivate: true })
    onTestFinished(() => webhook.close())
    const late = new AbortController()
    const sent = webhook.send({ url: receiver.url, body: BODY, timestamp: 1, headers: {} }, late.signal)
    await receiver.calls.first(() => true)
    late.abort()
    await expect(sent).rejects.toThrow()
  })
})
