// What the other tests here rest on: both servers are real ones, and look at who asks.

import { CreateBucketCommand, GetObjectCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { randomUUID } from 'node:crypto'
import { describe, expect, inject, it, onTestFinished } from 'vitest'
import type { ObjectStore } from '../support/daemons.ts'

for (const name of ['radosgw', 'swift'] as const) {
  const store = inject(name)

  describe.skipIf(!store)(name, () => {
    it('takes a bucket and an object, and gives the object back', async () => {
      const client = connect(store!)
      const object = { Bucket: randomUUID(), Key: 'a/b c.txt' }
      await client.send(new CreateBucketCommand({ Bucket: object.Bucket }))
      await client.send(new PutObjectCommand({ ...object, Body: 'as it was' }))
      const { Body } = await client.send(new GetObjectCommand(object))
      expect(await Body?.transformToString()).toBe('as it was')
    })

    it('refuses a wrong secret', async () => {
      const client = connect({ ...store!, accessSecret: 'another' })
      await expect(client.send(new CreateBucketCommand({ Bucket: 'not-ours' }))).rejects.toMatchObject({
        name: 'SignatureDoesNotMatch',
        $metadata: { httpStatusCode: 403 },
      })
    })
  })
}

function connect({ endpoint, accessId, accessSecret }: ObjectStore): S3Client {
  const client = new S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId: accessId, secretAccessKey: accessSecret },
  })
  onTestFinished(() => client.destroy())
  return client
}
