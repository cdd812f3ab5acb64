// The thumbnail starter, whole: a submission over REST, a service and a worker that are processes, and a real store.

import { CreateBucketCommand, GetObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import sharp from 'sharp'
import { describe, expect, inject, it, onTestFinished } from 'vitest'
import type { ObjectStore } from '../support/daemons.ts'
import { KEY, serve, startWorker, template, type Process, type Serving } from '../support/processes.ts'

const store = inject('radosgw')
const photo = readFileSync(join(template('thumbnail'), 'local-bucket', 'photo.jpg'))
const ALLOWED = { LONGSHORE_ALLOW_PRIVATE_DOWNLOADS: 'true' }

interface Thumbnail {
  width: number
  height: number
  bytes: number
  key: string
  url: string
}

interface JobRecord {
  id: string
  status: string
  output?: { thumbnails: Thumbnail[] }
  error?: { code: string; message: string; stack?: string }
}

/** A bucket of the test's own with the photo in it. */
class TestBucket {
  readonly name = randomUUID()
  readonly #store: ObjectStore
  readonly #client: S3Client

  constructor(given: ObjectStore) {
    this.#store = given
    this.#client = new S3Client({
      endpoint: given.endpoint,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: { accessKeyId: given.accessId, secretAccessKey: given.accessSecret },
    })
    onTestFinished(() => this.#client.destroy())
  }

  async open(): Promise<this> {
    await this.#client.send(new CreateBucketCommand({ Bucket: this.name }))
    await this.put('uploads/photo.jpg', photo)
    return this
  }

  get s3Config(): Record<string, string> {
    const { endpoint, accessId, accessSecret } = this.#store
    return { endpointUrl: endpoint, accessId, accessSecret, bucketName: this.name, objectPath: 'thumbs' }
  }

  async put(key: string, body: Buffer): Promise<void> {
    await new Upload({
      client: this.#client,
      params: { Bucket: this.name, Key: key, Body: body },
    }).done()
  }

  async urlOf(key: string): Promise<string> {
    return getSignedUrl(this.#client, new GetObjectCommand({ Bucket: this.name, Key: key }))
  }

  async keys(): Promise<string[]> {
    const { Contents = [] } = await this.#client.send(new ListObjectsV2Command({ Bucket: this.name }))
    return Contents.map(({ Key = '' }) => Key)
  }
}

/** A service with one worker, of which everything is kept that it says. */
class Scene {
  readonly replies: string[] = []
  readonly #server: Serving
  readonly #worker: Process

  private constructor(server: Serving, worker: Process) {
    this.#server = server
    this.#worker = worker
  }

  static async open(env: Record<string, string> = {}): Promise<Scene> {
    const server = await serve({ env: { LONGSHORE_LOG_LEVEL: 'debug' } })
    return new Scene(server, await startWorker(server.endpointUrl, template('thumbnail'), [], env))
  }

  /** The record of a job that has ended, and all else that a client could read of it. */
  async run(submission: object): Promise<JobRecord> {
    const record = JSON.parse(
      await this.#ask('/runsync?wait=60000', { method: 'POST', body: JSON.stringify(submission) }),
    ) as JobRecord
    for (const path of [`/status/${record.id}`, `/stream/${record.id}`, '/requests', '/health'])
      await this.#ask(path)
    return record
  }

  async #ask(path: string, init: RequestInit = {}): Promise<string> {
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }
    const text = await (await fetch(`${this.#server.endpointUrl}${path}`, { ...init, headers })).text()
    this.replies.push(text)
    return text
  }

  /** Nobody has said these, and nothing holds them any more; of the id, presigned URLs are made. */
  async expectSilence(secret: string, accessId?: string): Promise<void> {
    await this.#worker.kill('SIGTERM')
    await this.#server.kill('SIGTERM')
    const logs = [this.#server, this.#worker].map(({ stdout, stderr }) => `${stdout}${stderr}`)
    const replies = this.replies.join('\n')
    const bytes = Buffer.from(secret)
    for (const form of [secret, bytes.toString('base64'), bytes.toString('base64url'), bytes.toString('hex')])
      for (const text of [...logs, replies, readFileSync(this.#server.file, 'latin1')])
        expect(text).not.toContain(form)
    if (accessId === undefined) return
    for (const text of [...logs, replies.replaceAll(/"url":"[^"]*"/g, '')])
      expect(text).not.toContain(accessId)
  }
}

async function expectThumbnails(
  record: JobRecord,
  heights: number[],
  mediaType: string,
): Promise<Thumbnail[]> {
  expect(record).toMatchObject({ status: 'COMPLETED' })
  const thumbnails = record.output?.thumbnails ?? []
  expect(thumbnails.map(({ height }) => height)).toEqual(heights)
  for (const { width, height, bytes, url } of thumbnails) {
    const answer = await fetch(url)
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, mediaType])
    const body = Buffer.from(await answer.arrayBuffer())
    expect(body).toHaveLength(bytes)
    expect(await sharp(body).metadata()).toMatchObject({ width, height, mediaType })
    expect(Math.round((height * 480) / 720)).toBe(width)
  }
  return thumbnails
}

describe.skipIf(!store)('templates/thumbnail', () => {
  it('makes thumbnails of an image by its key, in every format, which anybody with their URLs can read', async () => {
    const bucket = await new TestBucket(store!).open()
    const scene = await Scene.open()
    const { s3Config } = bucket
    const image = 'uploads/photo.jpg'
    const first = await scene.run({ input: { image }, s3Config })
    const thumbnails = await expectThumbnails(first, [128, 512], 'image/webp')
    expect(thumbnails.map(({ key }) => key)).toEqual(
      [128, 512].map((size) => `thumbs/${first.id}/photo-${size}.webp`),
    )
    expect(await bucket.keys()).toEqual([...thumbnails.map(({ key }) => key), image])
    for (const format of ['jpeg', 'png', 'avif'])
      await expectThumbnails(
        await scene.run({ input: { image, sizes: [300, 64], format }, s3Config }),
        [300, 64],
        `image/${format}`,
      )
    const byAddress = { image: `s3://${bucket.name}/${image}`, sizes: [64] }
    await expectThumbnails(await scene.run({ input: byAddress, s3Config }), [64], 'image/webp')
    await scene.expectSilence(store!.accessSecret, store!.accessId)
  })

  it('makes them of an image by its URL, from a private address only where the worker allows it', async () => {
    const bucket = await new TestBucket(store!).open()
    const { s3Config } = bucket
    const image = await bucket.urlOf('uploads/photo.jpg')
    const allowed = await Scene.open(ALLOWED)
    await expectThumbnails(await allowed.run({ input: { image, sizes: [64] }, s3Config }), [64], 'image/webp')
    await allowed.expectSilence(store!.accessSecret)

    const scene = await Scene.open()
    const refused = [
      ['S3_URL_REFUSED', image],
      ['S3_ADDRESS_PRIVATE', image.replace('http:', 'https:')],
    ] as const
    for (const [code, url] of refused) {
      const record = await scene.run({ input: { image: url }, s3Config })
      expect(record).toMatchObject({ status: 'FAILED', error: { code } })
      // What signs the URL opens the object.
      expect(JSON.stringify(record)).not.toContain('X-Amz-Signature')
    }
    await scene.expectSilence(store!.accessSecret, store!.accessId)
  })

  it('fails for a wrong secret, an image that is not there and one that is none, and leaves no object', async () => {
    const bucket = await new TestBucket(store!).open()
    await bucket.put('notes.txt', Buffer.from('no picture'))
    const before = await bucket.keys()
    const scene = await Scene.open()
    const { s3Config } = bucket
    const image = 'uploads/photo.jpg'
    const accessSecret = 'never-the-right-one'
    const wrong = await scene.run({ input: { image }, s3Config: { ...s3Config, accessSecret } })
    expect(wrong).toMatchObject({ status: 'FAILED', error: { code: 'S3_SIGNATURE_REFUSED' } })
    const missing = await scene.run({ input: { image: 'gone.jpg' }, s3Config })
    expect(missing).toMatchObject({ status: 'FAILED', error: { code: 'S3_OBJECT_NOT_FOUND' } })
    const none = await scene.run({ input: { image: 'notes.txt' }, s3Config })
    expect(none.error?.message).toBe(
      'The image, a file of 10 bytes, is none that can be read. Give a JPEG, PNG, WebP, AVIF, GIF or TIFF.',
    )
    expect(none.error?.stack).not.toContain('node_modules/sharp')
    expect(await bucket.keys()).toEqual(before)
    await scene.expectSilence(accessSecret)
    await scene.expectSilence(store!.accessSecret, store!.accessId)
  })

  it("uses the worker's own bucket for a job that names none", async () => {
    const bucket = await new TestBucket(store!).open()
    const scene = await Scene.open({
      BUCKET_ENDPOINT_URL: store!.endpoint,
      BUCKET_ACCESS_KEY_ID: store!.accessId,
      BUCKET_SECRET_ACCESS_KEY: store!.accessSecret,
      BUCKET_NAME: bucket.name,
    })
    const record = await scene.run({ input: { image: 'uploads/photo.jpg', sizes: [64] } })
    const [thumbnail] = await expectThumbnails(record, [64], 'image/webp')
    expect(thumbnail?.key).toBe(`${record.id}/photo-64.webp`)
    await scene.expectSilence(store!.accessSecret, store!.accessId)
  })
})
