// Whether a bucket can be used, by one small request that changes nothing.

import { randomUUID } from 'node:crypto'
import type { S3Config } from '../job/job.ts'
import { problem, warning, type Finding } from '../lib/finding.ts'
import { parseBucketConfig } from './bucket-config.ts'
import { bucketSettings } from './bucket-settings.ts'
import { S3Bucket } from './s3-bucket.ts'
import { S3Error } from './s3-error.ts'

const PATIENCE = { idleMs: 5_000, tries: 2 }
const MOST_MS = 15_000

const UNUSABLE = 'The bucket cannot be used:'

/** Asks for an object that is not there: the store says so only to who may look. */
export async function examineBucket(given: Partial<S3Config>): Promise<Finding[]> {
  let bucket: S3Bucket | undefined
  try {
    bucket = new S3Bucket(bucketSettings(parseBucketConfig(given)), PATIENCE)
    await ask(bucket)
    // Some servers answer anything.
    const odd = 'its address answers with an object that nobody can have put there, as no store of files does'
    return [problem(`${UNUSABLE} ${odd}. Check endpointUrl.`)]
  } catch (cause) {
    if (!(cause instanceof S3Error)) throw cause
    if (cause.code === 'S3_OBJECT_NOT_FOUND') return []
    // Who may not list a bucket is told this of every object that is not there.
    if (cause.code === 'S3_ACCESS_DENIED')
      return [
        warning(`The bucket may not be of use: ${cause.message} A key that may only write is told the same.`),
      ]
    const { message } = cause
    return [problem(message.startsWith(UNUSABLE) ? message : `${UNUSABLE} ${message}`)]
  } finally {
    bucket?.close()
  }
}

async function ask(bucket: S3Bucket): Promise<void> {
  const source = bucket.source({ bucket: bucket.name, key: `longshore-doctor-${randomUUID()}` })
  try {
    const { body } = await source.open({ from: 0, to: 0 }, AbortSignal.timeout(MOST_MS))
    body.destroy()
  } catch (cause) {
    throw source.judge(cause) ?? source.unreachable(cause)
  }
}
