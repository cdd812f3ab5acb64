import { HeadObjectCommand } from '@aws-sdk/client-s3'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, inject, it, onTestFinished } from 'vitest'
import { makeBucket, temporaryFolder, type TestBucket } from '../support/buckets.ts'
import { startRadosgw } from '../support/radosgw.ts'

const MOST_MB = 150
const radosgw = inject('radosgw')

describe.skipIf(!radosgw)('an upload of unknown length', () => {
  it(`of 300 MB takes less than ${MOST_MB} MB of memory`, async () => {
    await uploadMuch(await makeBucket(radosgw!), 300_000_000)
  })

  // On a laptop by `npm run soak:s3` alone: it writes 2 GB to the disk.
  it.runIf(process.env['SOAK'] === 'true' || process.env['CI'] === 'true')(
    `of 2 GB takes less than ${MOST_MB} MB of memory`,
    async () => {
      const store = await startRadosgw({ dir: join(temporaryFolder(), 'ceph'), objectstore: 'bluestore' })
      onTestFinished(() => store.close())
      await uploadMuch(await makeBucket(store), 2_000_000_000)
    },
    300_000,
  )
})

async function uploadMuch(bucket: TestBucket, bytes: number): Promise<void> {
  const program = fileURLToPath(new URL('../support/upload-much.ts', import.meta.url))
  const { config } = bucket
  const { stdout } = await promisify(execFile)(process.execPath, [program, String(bytes)], {
    env: {
      ...process.env,
      BUCKET_ENDPOINT_URL: config.endpointUrl,
      BUCKET_ACCESS_KEY_ID: config.accessId,
      BUCKET_SECRET_ACCESS_KEY: config.accessSecret,
      BUCKET_NAME: bucket.name,
    },
  })
  const { grownMb, ms } = JSON.parse(stdout) as { grownMb: number; ms: number }
  console.log(`${bytes / 1e6} MB in ${ms} ms; memory grew by ${grownMb} MB at most`)
  const head = await bucket.client.send(new HeadObjectCommand({ Bucket: bucket.name, Key: 'much' }))
  expect(head.ContentLength).toBe(bytes)
  expect(grownMb).toBeLessThan(MOST_MB)
}
