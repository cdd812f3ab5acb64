// Makes thumbnails: an image from a bucket or the web, in the sizes that the job asks for, back into the bucket.

import { join, parse } from 'node:path'
import { defineHandler, s3From, type Downloaded, type JobContext, type S3 } from 'longshore'
import sharp from 'sharp'
import { z } from 'zod'

const MAX_BYTES = 100_000_000
/** A small file can hold a picture that fills the memory: a PNG in one colour takes a thousandth of its pixels. */
const MAX_PIXELS = 100_000_000

// Pictures only: what else sharp reads, SVG above all, are documents that a stranger may have made for its reader.
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({
  operation: ['Jpeg', 'Png', 'Webp', 'Heif', 'Nsgif', 'Tiff'].map((kind) => `VipsForeignLoad${kind}File`),
})
// Jobs run side by side, so that each is to have one thread; and no picture comes twice.
sharp.concurrency(1)
sharp.cache(false)

const inputSchema = z.object({
  /** A key of the bucket, s3://bucket/key, or a public https URL. */
  image: z.string().min(1),
  /** Pixels of the longer side. One that is given twice is made once. */
  sizes: z
    .array(z.int().min(16).max(4096))
    .min(1)
    .max(10)
    .default([128, 512])
    .transform((sizes) => [...new Set(sizes)]),
  format: z.enum(['webp', 'jpeg', 'png', 'avif']).default('webp'),
})

export interface Thumbnail {
  width: number
  height: number
  bytes: number
  key: string
  /** Signed: whoever has it can read the thumbnail, for 7 days. */
  url: string
}

export default defineHandler({
  input: inputSchema,
  async handler(job, context): Promise<{ thumbnails: Thumbnail[] }> {
    // A job that names no bucket gets the worker's own, of the BUCKET_ variables.
    const s3 = context.s3 ?? s3From(undefined, { job, context })
    return { thumbnails: await makeThumbnails(job.input, s3, context) }
  },
})

async function makeThumbnails(
  { image, sizes, format }: z.output<typeof inputSchema>,
  s3: S3,
  { signal, scratchDir }: JobContext,
): Promise<Thumbnail[]> {
  const original = await s3.download(image, { maxBytes: MAX_BYTES })
  await check(original)
  const made: { path: string; width: number; height: number }[] = []
  for (const size of sizes) {
    // sharp itself cannot be stopped.
    signal.throwIfAborted()
    const path = join(scratchDir, `${parse(original.path).name}-${size}.${format}`)
    made.push({ path, ...(await shrink(original.path, path, size, format)) })
  }
  // Only now: a picture that turns out to be damaged leaves nothing in the bucket.
  const uploaded = await s3.uploadAll(made.map(({ path }) => path))
  return uploaded.map(({ bytes, key, url }, at) => {
    const { width, height } = made[at]!
    return { width, height, bytes, key, url }
  })
}

/** Reads no more than the head of the file. */
async function check({ path, bytes }: Downloaded): Promise<void> {
  const head = await sharp(path, { limitInputPixels: false })
    .metadata()
    .catch((cause: unknown) => {
      throw new Error(
        `The image, a file of ${bytes} bytes, is none that can be read. Give a JPEG, PNG, WebP, AVIF, GIF or TIFF.`,
        { cause },
      )
    })
  if (head.width * head.height > MAX_PIXELS)
    throw new Error(
      `The image has ${head.width} x ${head.height} pixels, more than ${MAX_PIXELS}. Give a smaller one.`,
    )
}

/** The first frame, upright, as large as fits. What a camera writes beside the picture, the place above all, is left out. */
async function shrink(
  from: string,
  to: string,
  size: number,
  format: z.output<typeof inputSchema>['format'],
): Promise<{ width: number; height: number }> {
  const picture = sharp(from, { limitInputPixels: MAX_PIXELS, failOn: 'error' })
    .autoOrient()
    .resize({ width: size, height: size, fit: 'inside', withoutEnlargement: true })
  // Without it JPEG would show black where nothing is.
  if (format === 'jpeg') picture.flatten({ background: '#fff' })
  try {
    const { width, height } = await picture.toFormat(format).toFile(to)
    return { width, height }
  } catch (cause) {
    const words = cause instanceof Error ? cause.message.split('\n', 1)[0] : String(cause)
    throw new Error(`The image cannot be brought to ${size} pixels: ${words}. Check that it is whole.`, {
      cause,
    })
  }
}
