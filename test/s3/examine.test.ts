import { beforeAll, describe, expect, inject, it } from 'vitest'
import { examineBucket } from '../../src/s3/examine.ts'
import { makeBucket, type TestBucket } from '../support/buckets.ts'

const stores = ['radosgw', 'swift'] as const

for (const name of stores) {
  const store = inject(name)

  describe.skipIf(!store)(`examining a bucket of ${name}`, () => {
    let bucket: TestBucket
    beforeAll(async () => {
      bucket = await makeBucket(store!)
    })

    it('finds nothing where all is well, and leaves nothing there', async () => {
      expect(await examineBucket(bucket.config)).toEqual([])
      expect(await bucket.keys()).toEqual([])
    })

    it('says that the bucket is missing, and that the secret is wrong', async () => {
      expect(await examineBucket({ ...bucket.config, bucketName: 'not-there' })).toEqual([
        { level: 'problem', sentence: expect.stringContaining("has no bucket 'not-there'") },
      ])
      const [finding] = await examineBucket({ ...bucket.config, accessSecret: 'another-one' })
      expect(finding).toMatchObject({
        level: 'problem',
        sentence: expect.stringContaining('refused the signature. Check accessSecret'),
      })
    })
  })
}

it('says which field is missing', async () => {
  expect(await examineBucket({ endpointUrl: 'http://127.0.0.1:9/photos', accessId: 'id' })).toEqual([
    { level: 'problem', sentence: expect.stringContaining('accessSecret is missing') },
  ])
})
