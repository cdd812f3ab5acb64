import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { MockAgent } from 'undici'
import { describe, expect, it, onTestFinished } from 'vitest'
import { s3From } from '../../src/s3/s3-from.ts'
import type { S3Options } from '../../src/s3/s3.ts'
import { Web } from '../../src/s3/url-source.ts'
import { noise, DOWNLOAD_PART, temporaryFolder } from '../support/buckets.ts'
import { FakeClock } from '../support/fake-clock.ts'

type Answer = (request: IncomingMessage, response: ServerResponse, number: number) => void

describe('a download of a URL', () => {
  const body = noise(2 * DOWNLOAD_PART + 999)

  it('resumes at a server with ranges, and begins anew at one without', async () => {
    for (const hasRanges of [true, false]) {
      const ranges: (string | undefined)[] = []
      const { url } = await serve((request, response, number) => {
        ranges.push(request.headers.range)
        const from = hasRanges ? Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0) : 0
        const head = hasRanges ? { 'content-range': `bytes ${from}-${body.length - 1}/${body.length}` } : {}
        response.writeHead(hasRanges ? 206 : 200, { 'content-length': body.length - from, ...head })
        if (number > 2) response.end(body.subarray(from))
        else response.write(body.subarray(from, from + 300_000), () => response.socket?.resetAndDestroy())
      })
      const { get } = scene()
      expect((await get(url)).equals(body)).toBe(true)
      expect(ranges.length).toBeGreaterThan(2)
    }
  })

  it('is whole from a server that does not tell the length', async () => {
    const { url } = await serve((_, response) => void response.writeHead(200).end(body))
    expect((await scene().get(url)).equals(body)).toBe(true)
  })

  it('is whole from a server that gives parts of nobody knows how much', async () => {
    // Seen to end after the first part, as if that were all.
    const { url } = await serve((request, response) => {
      const head = { 'content-range': `bytes 0-${DOWNLOAD_PART - 1}/*`, 'content-length': DOWNLOAD_PART }
      if (request.headers.range === undefined) response.writeHead(200).end(body)
      else response.writeHead(206, head).end(body.subarray(0, DOWNLOAD_PART))
    })
    expect((await scene().get(url)).equals(body)).toBe(true)
  })

  it('is whole from machines that each call the same bytes another version', async () => {
    const { url } = await serve((request, response, number) => {
      const range = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? '')
      const [from, to] = [Number(range?.[1] ?? 0), Number(range?.[2] || body.length - 1)]
      const end = Math.min(to, body.length - 1)
      const head = { etag: `"of-${number}"`, 'content-length': end + 1 - from }
      if (range) response.writeHead(206, { ...head, 'content-range': `bytes ${from}-${end}/${body.length}` })
      else response.writeHead(200, head)
      response.end(body.subarray(from, end + 1))
    })
    expect((await scene().get(url)).equals(body)).toBe(true)
  })

  it('is what its server compresses without being asked', async () => {
    const { url } = await serve((_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(body))
    })
    expect((await scene().get(url)).equals(body)).toBe(true)
    const other = await serve((_, response) => {
      response.writeHead(200, { 'content-encoding': 'of-my-own' }).end(body)
    })
    await expect(scene().get(other.url)).rejects.toMatchObject({ code: 'S3_DOWNLOAD_REFUSED' })
  })

  it('is asked for whole where its server compresses parts too', async () => {
    const { url } = await serve((request, response) => {
      const isPart = request.headers.range !== undefined
      const head = isPart ? { 'content-range': `bytes 0-9/100` } : {}
      response.writeHead(isPart ? 206 : 200, { 'content-encoding': 'gzip', ...head })
      response.end(isPart ? gzipSync(body).subarray(0, 10) : gzipSync(body))
    })
    expect((await scene().get(url)).equals(body)).toBe(true)
  })

  it('is never half of one file and half of another after a compressed answer broke off', async () => {
    const later = noise(body.length)
    const { url } = await serve((request, response, number) => {
      const packed = gzipSync(body)
      if (number === 1) {
        response.writeHead(200, { 'content-encoding': 'gzip', etag: '"one"' })
        response.write(packed.subarray(0, packed.length / 2), () => response.socket?.resetAndDestroy())
        return
      }
      const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0)
      const head = { etag: '"two"', 'content-range': `bytes ${from}-${later.length - 1}/${later.length}` }
      response.writeHead(from > 0 ? 206 : 200, head).end(later.subarray(from))
    })
    const got = await scene().get(url)
    expect(got.equals(later)).toBe(true)
  })

  it('says so when what its server compressed is damaged', async () => {
    const { url } = await serve((_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(Buffer.from('no gzip at all'))
    })
    await expect(scene().get(url)).rejects.toMatchObject({ code: 'S3_DOWNLOAD_REFUSED' })
  })

  it('refuses credentials that are not written as a URL has them, at once', async () => {
    const { url, asked } = await serve((_, response) => void response.end())
    await expect(scene().get(url.replace('//', '//a%zz:b@'))).rejects.toMatchObject({
      code: 'S3_URL_REFUSED',
    })
    expect(asked()).toBe(0)
  })

  it('takes no more than it asked for', async () => {
    const { url } = await serve((request, response) => {
      const [, from = 0, to = 0] = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? '') ?? []
      response.writeHead(206, { 'content-range': `bytes ${from}-${to}/${body.length}` })
      response.on('error', () => undefined)
      // Without end.
      const more = (): void =>
        void (response.destroyed || response.write(noise(100_000), () => setImmediate(more)))
      response.write(body.subarray(Number(from), Number(to) + 1), more)
    })
    expect((await scene().get(url)).equals(body)).toBe(true)
  })

  const failing: [what: string, code: string, answer: Answer, options?: { maxBytes?: number }][] = [
    ['404', 'S3_DOWNLOAD_REFUSED', (_, response) => void response.writeHead(404).end('none')],
    ['403', 'S3_DOWNLOAD_REFUSED', (_, response) => void response.writeHead(403).end('expired')],
    [
      'a redirect to itself',
      'S3_URL_REFUSED',
      (_, response) => void response.writeHead(302, { location: '/again' }).end(),
    ],
    [
      'a redirect to no URL',
      'S3_URL_REFUSED',
      (_, response) => void response.writeHead(302, { location: 'http://[' }).end(),
    ],
    [
      'a redirect to a file',
      'S3_URL_REFUSED',
      (_, response) => void response.writeHead(302, { location: 'file:///etc/passwd' }).end(),
    ],
    [
      'more than its limit',
      'S3_TOO_LARGE',
      (_, response) => void response.writeHead(200, { 'content-length': 11 }).end('x'.repeat(11)),
      { maxBytes: 10 },
    ],
    [
      'more than its limit, without a length',
      'S3_TOO_LARGE',
      (_, response) => void response.writeHead(200).end('x'.repeat(11)),
      { maxBytes: 10 },
    ],
    [
      'less than its length',
      'S3_UNREACHABLE',
      (_, response) =>
        void response.writeHead(200, { 'content-length': 99 }).write('short', () => response.destroy()),
    ],
    [
      'another version each time',
      'S3_OBJECT_CHANGED',
      (_, response, number) => {
        const head = { etag: `"${number}"`, 'content-length': 100_000 }
        response.writeHead(200, head).write(noise(100), () => response.destroy())
      },
    ],
  ]
  for (const [what, code, answer, options] of failing) {
    it(`that is answered with ${what} fails with ${code}, and leaves nothing`, async () => {
      const { url } = await serve(answer)
      const { s3, folder } = scene()
      await expect(s3.download(url, options)).rejects.toMatchObject({ code })
      expect(readdirSync(folder)).toEqual([])
    })
  }

  it('is tried again after 500, 503 and 429', async () => {
    const { url } = await serve((_, response, number) => {
      const status = [500, 503, 429][number - 1]
      response.writeHead(status ?? 200).end('now')
    })
    expect((await scene().get(url)).toString()).toBe('now')
  })

  it('on which nothing comes any more is asked for again', async () => {
    const stalled = Promise.withResolvers<void>()
    const { url } = await serve((_, response, number) => {
      response.writeHead(200, { 'content-length': 6 })
      if (number > 1) response.end('at all')
      else response.write('at ', () => setTimeout(stalled.resolve, 100))
    })
    const clock = new FakeClock()
    const getting = scene({ clock }).get(url)
    await stalled.promise
    const moving = setInterval(() => clock.advance(10_000), 20)
    expect((await getting.finally(() => clearInterval(moving))).toString()).toBe('at all')
    expect(clock.pending).toBe(0)
  })

  it('sends the credentials of its URL, but not to another origin, and shows none', async () => {
    const asked: (string | undefined)[] = []
    const other = await serve((request, response) => {
      asked.push(request.headers.authorization)
      response.writeHead(404).end()
    })
    const { url } = await serve((request, response, number) => {
      asked.push(request.headers.authorization)
      response.writeHead(302, { location: number === 1 ? '/b' : `${other.url}/c` }).end()
    })
    const own = url.replace('//', '//user:p%40ss@')
    const error = await scene()
      .s3.download(`${own}/a?token=tok`)
      .catch((cause: Error) => cause)
    const basic = `Basic ${Buffer.from('user:p@ss').toString('base64')}`
    expect(asked.slice(0, 3)).toEqual([basic, basic, undefined])
    expect((error as Error).message).not.toMatch(/p@ss|p%40ss|tok/)
  })

  it('has a name that a folder can take', async () => {
    const { url } = await serve((_, response) => void response.end('x'))
    const { s3, folder } = scene()
    const long = encodeURIComponent(`${'é'.repeat(150)}.${'語'.repeat(30)}`)
    for (const path of ['', '/..%2F..%2Fout', '/%00', `/${long}`, '/%', '/a%20b.txt?x=1#y'])
      expect(await s3.download(url + path)).toMatchObject({ bytes: 1 })
    for (const file of ['download', '.._.._out', '_', '%', 'a b.txt'])
      expect(readdirSync(folder)).toContain(file)
  })
})

describe('without leave for private addresses', () => {
  for (const host of ['127.0.0.1', '[::1]', '10.0.0.1', '169.254.169.254', 'localhost', '2130706433']) {
    it(`refuses ${host}`, async () => {
      const s3 = scene({ allowPrivate: false }).s3
      await expect(s3.download(`https://${host}:1/`)).rejects.toMatchObject({ code: 'S3_ADDRESS_PRIVATE' })
      await expect(s3.download(`http://${host}:1/`)).rejects.toMatchObject({ code: 'S3_URL_REFUSED' })
    })
  }

  it('refuses a name that leads to this machine, where the socket connects', async () => {
    // A name of this machine that does not look it.
    const { hostname } = await import('node:os')
    const s3 = scene({ allowPrivate: false }).s3
    const code = await s3.download(`https://${hostname()}:1/`).catch((cause: { code: string }) => cause.code)
    expect(['S3_ADDRESS_PRIVATE', 'S3_UNREACHABLE']).toContain(code)
  })

  for (const [location, code] of [
    ['https://127.0.0.1/inside', 'S3_ADDRESS_PRIVATE'],
    ['https://[::ffff:127.0.0.1]/inside', 'S3_ADDRESS_PRIVATE'],
    ['https://localhost./inside', 'S3_ADDRESS_PRIVATE'],
    ['http://public.example/plain', 'S3_URL_REFUSED'],
  ] as const) {
    it(`refuses a redirect to ${location}`, async () => {
      // The first hop has to be somebody public, and there is nobody.
      const dispatcher = new MockAgent()
      dispatcher.disableNetConnect()
      dispatcher
        .get('https://public.example')
        .intercept({ path: '/a' })
        .reply(302, '', { headers: { location } })
      const source = new Web({ allowPrivate: false, dispatcher }).source('https://public.example/a')
      await expect(source.open({ from: 0 }, AbortSignal.timeout(5_000))).rejects.toMatchObject({ code })
    })
  }
})

function scene(options: S3Options = {}) {
  const folder = temporaryFolder()
  const s3 = s3From({}, { folder, allowPrivate: true, ...options })
  onTestFinished(() => s3.close())
  const get = async (url: string): Promise<Buffer> => {
    const { path } = await s3.download(url)
    expect(path).toBe(join(folder, readdirSync(folder)[0] ?? ''))
    return readFileSync(path)
  }
  return { s3, folder, get }
}

async function serve(answer: Answer): Promise<{ url: string; asked: () => number }> {
  let number = 0
  const server = createServer((request, response) => answer(request, response, (number += 1)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked: () => number }
}
