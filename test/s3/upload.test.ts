import { createHash } from 'node:crypto'
import {
  appendFileSync,
  createReadStream,
  mkdirSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { beforeAll, describe, expect, inject, it } from 'vitest'
import type { UploadBody } from '../../src/s3/s3.ts'
import { makeBucket, noise, PART, temporaryFolder, type TestBucket } from '../support/buckets.ts'
import { storeLink } from '../support/store-link.ts'

for (const name of ['radosgw', 'swift'] as const) {
  const store = inject(name)

  describe.skipIf(!store)(`uploads to ${name}`, () => {
    let bucket: TestBucket
    beforeAll(async () => {
      bucket = await makeBucket(store!)
    })

    describe('of a body', () => {
      const text = 'Grüße, 世界'
      const bytes = Buffer.from(text)
      const [one, two] = [bytes.subarray(0, 4), bytes.subarray(4)]
      const kinds: Record<string, () => UploadBody> = {
        'a Buffer': () => bytes,
        'a Uint8Array': () => new Uint8Array(bytes),
        'a string': () => text,
        'a Blob': () => new Blob([text]),
        'a Node stream of bytes': () => Readable.from([one, two], { objectMode: false }),
        'a Node stream of strings': () => Readable.from(['Grüße, ', '世界']),
        'a web stream': () => ReadableStream.from([one, two]),
        'a web stream of strings': () => ReadableStream.from(['Grüße, ', '世界']),
        'an async iterable of strings and bytes': async function* () {
          yield 'Grüße, '
          yield new Uint8Array()
          yield Buffer.from('世界')
        },
      }
      for (const [kind, make] of Object.entries(kinds)) {
        it(`takes ${kind}`, async () => {
          const key = `kinds/${kind}.txt`
          expect(await bucket.helpers().upload(make(), { key })).toMatchObject({ key, bytes: bytes.length })
          expect((await bucket.get(key))?.bytes.toString()).toBe(text)
        })
      }

      const empty: Record<string, () => UploadBody> = {
        'an empty string': () => '',
        'an empty stream': () => Readable.from([], { objectMode: false }),
        'an empty Blob': () => new Blob([]),
      }
      for (const [kind, make] of Object.entries(empty)) {
        it(`makes an empty object of ${kind}`, async () => {
          const key = kind
          expect(await bucket.helpers().upload(make(), { key })).toMatchObject({ bytes: 0 })
          expect((await bucket.get(key))?.bytes).toHaveLength(0)
        })
      }

      for (const size of [PART - 1, PART, PART + 1, 2 * PART, 3 * PART + 12_345]) {
        it(`stores ${size} bytes whole, be their number known or not`, async () => {
          const body = noise(size)
          const s3 = bucket.helpers()
          await s3.upload(body, { key: `known-${size}` })
          const uneven = Readable.from(slices(body, 100_003), { objectMode: false })
          expect(await s3.upload(uneven, { key: `unknown-${size}` })).toMatchObject({ bytes: size })
          for (const key of [`known-${size}`, `unknown-${size}`])
            expect(digest((await bucket.get(key))!.bytes)).toBe(digest(body))
          expect(await bucket.unfinished()).toEqual([])
        })
      }

      for (const body of [null, undefined, 7, {}, new ArrayBuffer(4), ['a']]) {
        it(`refuses ${body === null ? 'null' : Object.prototype.toString.call(body)}`, async () => {
          await expect(bucket.helpers().upload(body as never)).rejects.toMatchObject({
            code: 'S3_OPTION_INVALID',
          })
        })
      }

      it('stores what a generator gave, not what it filled its buffer with later', async () => {
        const buffer = Buffer.alloc(1_000_000)
        const { key } = await bucket.helpers().upload(
          (async function* () {
            for (let n = 1; n <= 3; n += 1) yield buffer.fill(n)
          })(),
        )
        const stored = (await bucket.get(key))!.bytes
        expect([0, 1, 2].map((n) => stored[n * 1_000_000])).toEqual([1, 2, 3])
      })

      it('refuses a stream of things that are neither text nor bytes, and leaves no object', async () => {
        const body = Readable.from(['a', { b: 1 }])
        const refused = bucket.helpers().upload(body as never, { key: 'things' })
        await expect(refused).rejects.toMatchObject({ code: 'S3_OPTION_INVALID' })
        expect(await bucket.get('things')).toBeUndefined()
      })

      for (const before of [10, 2 * PART + 10]) {
        it(`rejects with the error of a stream that fails after ${before} bytes, and leaves nothing`, async () => {
          const own = new Error('the author’s own')
          const key = `fails-${before}`
          const bodies: UploadBody[] = [
            Readable.from(failing(before, own), { objectMode: false }),
            failing(before, own),
            ReadableStream.from(failing(before, own)),
          ]
          for (const body of bodies) await expect(bucket.helpers().upload(body, { key })).rejects.toBe(own)
          expect(await bucket.get(key)).toBeUndefined()
          expect(await bucket.unfinished()).toEqual([])
        })
      }

      it('rejects with what a body throws, even when that is no error', async () => {
        // oxlint-disable-next-line typescript/only-throw-error -- authors do
        const body = (async function* () {
          yield 'a'
          throw 'a word'
        })()
        await expect(bucket.helpers().upload(body, { key: 'word' })).rejects.toBe('a word')
      })

      it('rejects with the error of a stream that failed before anybody listened', async () => {
        // Its error may come while the SDK is loaded, before the bucket listens.
        const body = createReadStream('/nowhere/at/all')
        await expect(bucket.helpers().upload(body, { key: 'early' })).rejects.toMatchObject({
          code: 'ENOENT',
        })
      })

      it('refuses a stream that was destroyed before', async () => {
        const body = Readable.from(['a'])
        body.destroy()
        await expect(bucket.helpers().upload(body, { key: 'destroyed' })).rejects.toThrow()
        expect(await bucket.get('destroyed')).toBeUndefined()
      })

      it('destroys the stream that it could not upload', async () => {
        const bodies = [Readable.from(['a']), Readable.from(['a']), Readable.from(['a'])] as const
        const stopped = bucket.helpers({ signal: AbortSignal.abort() })
        await expect(stopped.upload(bodies[0])).rejects.toThrow()
        await expect(bucket.helpers().upload(bodies[1], { key: '/rooted' })).rejects.toThrow()
        const nowhere = bucket.helpers({ config: { bucketName: '' } })
        await expect(nowhere.upload(bodies[2])).rejects.toThrow()
        expect(bodies.map(({ destroyed }) => destroyed)).toEqual([true, true, true])
      })
    })

    describe('name the object', () => {
      it('objectPath, job and file name by default', async () => {
        const path = join(temporaryFolder(), 'a b.png')
        writeFileSync(path, 'x')
        const s3 = bucket.helpers({ jobId: 'job-1', config: { objectPath: '/out/deep/' } })
        expect(await s3.uploadFile(path)).toMatchObject({ key: 'out/deep/job-1/a b.png', bytes: 1 })
        expect(await s3.upload('x', { name: 'n.txt' })).toMatchObject({ key: 'out/deep/job-1/n.txt' })
        expect(await s3.upload('x')).toMatchObject({ key: 'out/deep/job-1/upload-1.bin' })
        const json = await s3.upload('{}', { contentType: 'application/json' })
        expect(json.key).toBe('out/deep/job-1/upload-2.json')
        expect((await bucket.get(json.key))?.contentType).toBe('application/json')
      })

      it('with the content type of its extension, else as bytes', async () => {
        const s3 = bucket.helpers()
        for (const [key, type] of [
          ['a.PNG', 'image/png'],
          ['b.tar.gz', 'application/gzip'],
          ['c', 'application/octet-stream'],
        ] as const) {
          await s3.upload('x', { key })
          expect((await bucket.get(key))?.contentType).toBe(type)
        }
      })

      it('with its metadata, in one piece or in parts', async () => {
        const metadata = { 'made-by': 'longshore 1.0', empty: '' }
        for (const size of [1, PART + 1]) {
          await bucket.helpers().upload(noise(size), { key: 'with-metadata', metadata })
          expect((await bucket.get('with-metadata'))?.metadata).toMatchObject({ 'made-by': 'longshore 1.0' })
        }
      })

      const odd = [
        'ünï/코드 🚢.txt',
        'a+b&c=d?e#f.txt',
        '%2F%20.txt',
        'quote\'"<>.txt',
        'double//slash',
        'x'.repeat(200),
      ]
      for (const key of odd) {
        it(`takes the key ${key.slice(0, 30)}, which its url leads to`, async () => {
          const { url } = await bucket.helpers().upload(key, { key })
          expect(await (await fetch(url)).text()).toBe(key)
          expect((await bucket.get(key))?.bytes.toString()).toBe(key)
        })
      }

      const refused = [
        '',
        '/a',
        'a/../b',
        '..',
        './a',
        'é'.repeat(513),
        'lone \ud800 surrogate',
        'a\0b',
        'a\nb',
      ]
      for (const key of refused) {
        it(`refuses the key ${JSON.stringify(key.slice(0, 20))}`, async () => {
          await expect(bucket.helpers().upload('x', { key })).rejects.toMatchObject({
            code: 'S3_OPTION_INVALID',
          })
        })
      }

      const metadatas = [
        { 'a b': 'x' },
        { a: 'ü' },
        { a: 'line\nbreak' },
        { a: 'x'.repeat(3000) },
        { a: 7 as never },
      ]
      for (const metadata of metadatas) {
        it(`refuses the metadata ${JSON.stringify(metadata).slice(0, 30)}`, async () => {
          const upload = bucket.helpers().upload('x', { key: 'k', metadata })
          await expect(upload).rejects.toMatchObject({ code: 'S3_OPTION_INVALID' })
        })
      }

      it('refuses a content type that no header can have', async () => {
        const upload = bucket.helpers().upload('x', { key: 'k', contentType: 'text/plain\nx: y' })
        await expect(upload).rejects.toMatchObject({ code: 'S3_OPTION_INVALID' })
      })
    })

    describe('give a url', () => {
      it('that anybody can read with, until it expires', async () => {
        const { url, key } = await bucket.helpers().upload('read me', { key: 'r.txt', expiresInSeconds: 1 })
        expect(await (await fetch(url)).text()).toBe('read me')
        const longer = await bucket.helpers().urlOf(key)
        expect(new URL(longer).searchParams.get('X-Amz-Expires')).toBe('604800')
        await expect.poll(async () => (await fetch(url)).status, { timeout: 8_000 }).toBe(403)
        expect((await fetch(longer)).status).toBe(200)
      })

      for (const expiresInSeconds of [0, -1, 1.5, 604_801, NaN, '60' as never]) {
        it(`refuses to let it expire in ${expiresInSeconds}`, async () => {
          const expected = { code: 'S3_OPTION_INVALID' }
          const s3 = bucket.helpers()
          await expect(s3.upload('x', { key: 'never', expiresInSeconds })).rejects.toMatchObject(expected)
          await expect(s3.urlOf('never', { expiresInSeconds })).rejects.toMatchObject(expected)
          expect(await bucket.get('never')).toBeUndefined()
        })
      }

      it('refuses one of no key', async () => {
        await expect(bucket.helpers().urlOf('')).rejects.toMatchObject({ code: 'S3_OPTION_INVALID' })
      })
    })

    describe('of files', () => {
      it('refuses a path that is missing or a folder, by name', async () => {
        const s3 = bucket.helpers()
        const folder = temporaryFolder()
        await expect(s3.uploadFile(join(folder, 'none.txt'))).rejects.toMatchObject({
          code: 'S3_FILE_UNREADABLE',
          message: expect.stringContaining('none.txt'),
        })
        await expect(s3.uploadFile(folder)).rejects.toMatchObject({ code: 'S3_FILE_UNREADABLE' })
      })

      it('keeps the order of the paths, and tells files of one name apart', async () => {
        const folder = temporaryFolder()
        const paths = ['1/a.txt', '2/a.txt', '3/b.txt', '4/a-2.txt', '5/c', '6/c'].map((path) => {
          mkdirSync(join(folder, path, '..'), { recursive: true })
          writeFileSync(join(folder, path), path)
          return join(folder, path)
        })
        const uploaded = await bucket.helpers().uploadAll(paths, { prefix: 'all' })
        expect(uploaded.map(({ key }) => key)).toEqual(
          ['a.txt', 'a-2.txt', 'b.txt', 'a-2-2.txt', 'c', 'c-2'].map((file) => `all/${file}`),
        )
        const stored = await Promise.all(
          uploaded.map(async ({ key }) => (await bucket.get(key))?.bytes.toString()),
        )
        expect(stored).toEqual(['1/a.txt', '2/a.txt', '3/b.txt', '4/a-2.txt', '5/c', '6/c'])
        expect(await bucket.helpers().uploadAll([])).toEqual([])
      })

      it('ends them all at the first that fails, and names that one', async () => {
        const folder = temporaryFolder()
        const large = ['1', '2'].map((file) => join(folder, file))
        for (const path of large) writeFileSync(path, noise(3 * PART))
        const all = bucket
          .helpers()
          .uploadAll([large[0]!, join(folder, 'missing.bin'), large[1]!], { prefix: 'ends' })
        await expect(all).rejects.toMatchObject({
          code: 'S3_FILE_UNREADABLE',
          message: expect.stringContaining('missing.bin'),
        })
        expect((await bucket.keys()).filter((key) => key.startsWith('ends/'))).toEqual([])
        expect(await bucket.unfinished()).toEqual([])
      })

      it('takes a folder with all below it, but no links', async () => {
        const folder = join(temporaryFolder(), 'made')
        mkdirSync(join(folder, 'sub', 'deeper'), { recursive: true })
        mkdirSync(join(folder, 'empty'))
        writeFileSync(join(folder, 'a.txt'), 'a')
        writeFileSync(join(folder, 'sub', 'deeper', 'b.txt'), 'b')
        writeFileSync(join(folder, '.hidden'), 'h')
        symlinkSync('/etc/passwd', join(folder, 'link'))
        symlinkSync('/etc', join(folder, 'sub', 'link'))
        const uploaded = await bucket.helpers({ jobId: 'j' }).uploadDirectory(folder)
        expect(uploaded.map(({ key }) => key)).toEqual([
          'j/made/.hidden',
          'j/made/a.txt',
          'j/made/sub/deeper/b.txt',
        ])
        const slashed = await bucket.helpers().uploadDirectory(`${folder}/`, { prefix: 'p/q/' })
        expect(slashed.map(({ key }) => key)).toContain('p/q/sub/deeper/b.txt')
        expect(await bucket.helpers().uploadDirectory(join(folder, 'empty'))).toEqual([])
        await expect(bucket.helpers().uploadDirectory(join(folder, 'a.txt'))).rejects.toMatchObject({
          code: 'S3_FILE_UNREADABLE',
        })
        await expect(bucket.helpers().uploadDirectory(join(folder, 'gone'))).rejects.toMatchObject({
          code: 'S3_FILE_UNREADABLE',
        })
      })

      it('refuses one that shrinks meanwhile, and leaves no object', async () => {
        const path = join(temporaryFolder(), 'shrinks')
        writeFileSync(path, noise(8 * PART))
        // By the first part at most five are read.
        const link = await storeLink(store!.endpoint, ({ path: asked }) => {
          if (asked.includes('partNumber')) truncateSync(path, 6 * PART + 1)
          return {}
        })
        const s3 = bucket.helpers({ config: { endpointUrl: link.endpoint } })
        await expect(s3.uploadFile(path, { key: 'shrinks' })).rejects.toMatchObject({
          code: 'S3_FILE_CHANGED',
        })
        expect(await bucket.get('shrinks')).toBeUndefined()
        expect(await bucket.unfinished()).toEqual([])
      })

      it('refuses one with more in it than its size says, and leaves no object', async () => {
        const uploading = bucket.helpers().uploadFile('/proc/self/status', { key: 'more' })
        await expect(uploading).rejects.toMatchObject({ code: 'S3_FILE_CHANGED' })
        expect(await bucket.get('more')).toBeUndefined()
      })

      it('refuses one that grows meanwhile, and leaves no object', async () => {
        const path = join(temporaryFolder(), 'grows')
        writeFileSync(path, noise(4 * PART))
        const uploading = bucket.helpers().uploadFile(path, { key: 'grows' })
        const growing = setInterval(() => appendFileSync(path, noise(10_000)), 5)
        await expect(uploading.finally(() => clearInterval(growing))).rejects.toMatchObject({
          code: 'S3_FILE_CHANGED',
        })
        expect(await bucket.get('grows')).toBeUndefined()
        expect(await bucket.unfinished()).toEqual([])
      })
    })

    it('tells how far it is, and that it ended, whatever its listener throws', async () => {
      const told: unknown[] = []
      const onProgress = (progress: unknown): void => {
        told.push(progress)
        throw new Error('a listener that fails')
      }
      const s3 = bucket.helpers({ onProgress })
      await s3.upload(noise(PART + 1), { key: 'told' })
      expect(told.at(-1)).toEqual({
        direction: 'upload',
        name: 'told',
        bytes: PART + 1,
        totalBytes: PART + 1,
      })
    })
  })
}

function* slices(body: Buffer, bytes: number): Generator<Buffer> {
  for (let at = 0; at < body.length; at += bytes) yield body.subarray(at, at + bytes)
}

async function* failing(after: number, own: Error): AsyncGenerator<Buffer> {
  for (let left = after; left > 0; left -= 1_000_000) yield noise(Math.min(left, 1_000_000))
  throw own
}

function digest(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
