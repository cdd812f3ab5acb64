// longshore run with a bucket, and what is left there when it is stopped.

import { describe, expect, inject, it } from 'vitest'
import { makeBucket } from '../support/buckets.ts'
import { fixture, longshore } from '../support/processes.ts'

const gateway = inject('radosgw')

describe.skipIf(!gateway)('longshore run', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)(
    'leaves no parts behind when it is stopped by %s',
    async (signal) => {
      const bucket = await makeBucket(gateway!)
      const job = JSON.stringify({ input: { deed: 'upload without end' }, s3Config: bucket.config })
      const run = longshore(['run', fixture('moves-files.ts'), '--test-input', job])
      await expect.poll(() => bucket.unfinished(), { timeout: 15_000 }).toHaveLength(1)
      expect(await run.kill(signal)).toBe(1)
      expect(await bucket.unfinished()).toEqual([])
    },
  )
})
