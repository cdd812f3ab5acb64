import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { s3From } from '../../src/s3/s3-from.ts'
import type { S3 } from '../../src/s3/s3.ts'
import { temporaryFolder } from '../support/buckets.ts'

// Plain JavaScript gives anything, a missing field of an input above all. None of these gets as far as a store.
type Loose = Record<keyof S3, (...args: unknown[]) => Promise<unknown>>
const calls: Record<string, (s3: Loose) => Promise<unknown>> = {
  'uploadFile of nothing': (s3) => s3.uploadFile(undefined),
  'uploadFile of a URL': (s3) => s3.uploadFile(new URL('file:///x')),
  'uploadAll of a text': (s3) => s3.uploadAll('x'),
  'uploadAll with nothing in it': (s3) => s3.uploadAll([undefined]),
  'uploadDirectory of nothing': (s3) => s3.uploadDirectory(undefined),
  'extractZip of nothing': (s3) => s3.extractZip(undefined),
  'urlOf nothing': (s3) => s3.urlOf(undefined),
  'download of nothing': (s3) => s3.download(undefined),
  'download of half a character': (s3) => s3.download('\ud800'),
  'downloadAll of a text': (s3) => s3.downloadAll('x'),
  'options that are null': (s3) => s3.upload('x', null),
  'a key that is a number': (s3) => s3.upload('x', { key: 5 }),
  'metadata that is null': (s3) => s3.upload('x', { metadata: null }),
  'metadata in large letters': (s3) => s3.upload('x', { metadata: { A: '1' } }),
  'metadata with an underscore': (s3) => s3.upload('x', { metadata: { a_b: '1' } }),
  'metadata with spaces around it': (s3) => s3.upload('x', { metadata: { a: ' x ' } }),
  'a signal that is none': (s3) => s3.upload('x', { signal: {} }),
  'a place that is a number': (s3) => s3.download('x', { to: 5 }),
  'a web stream that is locked': (s3) => s3.upload(locked()),
  'a stream that was destroyed': (s3) => s3.upload(Readable.from('x').destroy()),
  'options of urlOf that are null': (s3) => s3.urlOf('k', null),
  'metadata that is an array': (s3) => s3.upload('x', { metadata: [] }),
  'a stream that was read to its end': async (s3) => s3.upload(await spent()),
}

describe('the helpers', () => {
  it.each(Object.keys(calls))('refuse %s with S3_OPTION_INVALID and one sentence', async (what) => {
    const s3 = s3From(
      { endpointUrl: 'http://127.0.0.1:9', accessId: 'id', accessSecret: 'secret', bucketName: 'b' },
      { folder: temporaryFolder() },
    )
    const thrown: unknown = await calls[what]!(s3 as unknown as Loose).catch((cause: unknown) => cause)
    expect(thrown).toMatchObject({ name: 'S3Error', code: 'S3_OPTION_INVALID' })
    expect((thrown as Error).message).toMatch(/^[A-Za-z][^\n]+\.$/)
  })

  it('refuse a stream that another upload was given', async () => {
    const s3 = s3From({
      endpointUrl: 'http://127.0.0.1:9',
      accessId: 'id',
      accessSecret: 's',
      bucketName: 'b',
    })
    const stream = Readable.from(['x'])
    const [first, second] = await Promise.allSettled([s3.upload(stream), s3.upload(stream)])
    expect(first).toMatchObject({ reason: { code: 'S3_UNREACHABLE' } })
    expect(second).toMatchObject({ reason: { code: 'S3_OPTION_INVALID' } })
  })

  it('refuse every call once they are closed', async () => {
    const s3 = s3From({
      endpointUrl: 'http://127.0.0.1:9',
      accessId: 'id',
      accessSecret: 's',
      bucketName: 'b',
    })
    await s3.close()
    await expect(s3.upload('x')).rejects.toMatchObject({ name: 'AbortError' })
  })
})

function locked(): ReadableStream {
  const stream = new Blob(['x']).stream()
  stream.getReader()
  return stream
}

async function spent(): Promise<Readable> {
  const stream = Readable.from(['x'])
  for await (const _ of stream) continue
  return stream
}
