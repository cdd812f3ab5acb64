// npm test: runs the handler as a worker would, in this process, with a folder for a bucket.

import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createTestWorker } from 'longshore/testing'
import sharp from 'sharp'
import handler, { type Thumbnail } from './handler.ts'

const worker = createTestWorker(handler)
const localBucket = mkdtempSync(join(tmpdir(), 'thumbnail-test-'))
cpSync(fileURLToPath(new URL('./local-bucket/photo.jpg', import.meta.url)), join(localBucket, 'photo.jpg'))
after(() => rmSync(localBucket, { recursive: true }))

async function thumbnailsOf(input: unknown): Promise<Thumbnail[]> {
  const { output, error } = await worker.run(input, { localBucket })
  assert.equal(error, undefined)
  return (output as { thumbnails: Thumbnail[] }).thumbnails
}

test('makes two sizes by default, upright, and without what the camera wrote', async () => {
  const thumbnails = await thumbnailsOf({ image: 'photo.jpg' })
  assert.deepEqual(
    thumbnails.map(({ width, height }) => [width, height]),
    [
      [85, 128],
      [341, 512],
    ],
  )
  for (const { width, height, key, url } of thumbnails) {
    assert.match(key, /^test-\d+\/photo-(128|512)\.webp$/)
    const picture = await sharp(fileURLToPath(url)).metadata()
    assert.deepEqual(
      [picture.format, picture.width, picture.height, picture.orientation, picture.exif],
      ['webp', width, height, undefined, undefined],
    )
  }
})

test('makes a size that is given twice once, and never enlarges', async () => {
  const thumbnails = await thumbnailsOf({ image: 'photo.jpg', sizes: [64, 4096, 64], format: 'jpeg' })
  assert.deepEqual(
    thumbnails.map(({ height, key }) => [height, key.split('/')[1]]),
    [
      [64, 'photo-64.jpeg'],
      [720, 'photo-4096.jpeg'],
    ],
  )
})

test('takes the first frame of what moves', async () => {
  const frames = Buffer.concat([Buffer.alloc(20 * 20 * 3, 255), Buffer.alloc(20 * 20 * 3, 0)])
  const raw = { width: 20, height: 40, channels: 3, pageHeight: 20 } as const
  await sharp(frames, { raw }).gif().toFile(join(localBucket, 'moves.gif'))
  const [thumbnail] = await thumbnailsOf({ image: 'moves.gif', sizes: [16], format: 'png' })
  const { channels } = await sharp(fileURLToPath(thumbnail?.url ?? '')).stats()
  assert.deepEqual([thumbnail?.height, channels[0]?.min], [16, 255])
})

test('says what is wrong with an image in a sentence, and uploads nothing', async () => {
  const whole = await sharp(join(localBucket, 'photo.jpg')).toBuffer()
  writeFileSync(join(localBucket, 'cut.jpg'), whole.subarray(0, whole.length / 2))
  writeFileSync(join(localBucket, 'notes.txt'), 'no picture')
  writeFileSync(
    join(localBucket, 'drawn.svg'),
    '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
  )
  await sharp({ create: { width: 16_000, height: 8_000, channels: 3, background: 'red' } })
    .png()
    .toFile(join(localBucket, 'vast.png'))
  for (const [image, says] of [
    ['cut.jpg', /^The image cannot be brought to 128 pixels: .*premature end.*\. Check that it is whole\.$/],
    ['notes.txt', /^The image, a file of 10 bytes, is none that can be read\. Give a JPEG, PNG, WebP/],
    ['drawn.svg', /is none that can be read/],
    ['vast.png', /^The image has 16000 x 8000 pixels, more than 100000000\. Give a smaller one\.$/],
  ] as const) {
    const id = `refused-${image}`
    const { status, error } = await worker.run({ image }, { id, localBucket })
    assert.equal(status, 'FAILED')
    assert.match(error?.message ?? '', says)
    assert.ok(!readdirSync(localBucket).includes(id))
  }
})

test('names the image that is not there, and refuses sizes that make no sense', async () => {
  const missing = await worker.run({ image: 'gone.jpg' }, { localBucket })
  assert.equal(missing.error?.code, 'S3_OBJECT_NOT_FOUND')
  for (const sizes of [[], [15], [4097], [1.5], Array.from({ length: 11 }, (_, at) => 100 + at)]) {
    const { error } = await worker.run({ image: 'photo.jpg', sizes }, { localBucket })
    assert.equal(error?.code, 'INVALID_INPUT')
  }
})
