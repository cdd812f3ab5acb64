// Helpers for a bucket: the one given, that of the environment, or a folder on a laptop. Light: the rest comes at first use.

import type { S3Config } from '../job/job.ts'
import type { Bucket } from './bucket.ts'
import { readS3Environment, type S3Environment } from './config.ts'
import { S3Error } from './s3-error.ts'
import type { S3Options } from './s3.ts'
import { S3Helpers } from './s3-helpers.ts'

/**
 * Helpers for the bucket of `config`, or without it for that of BUCKET_ENDPOINT_URL, BUCKET_ACCESS_KEY_ID and
 * BUCKET_SECRET_ACCESS_KEY (with BUCKET_NAME and BUCKET_REGION where the address does not tell them). A job's own are
 * `context.s3`; these are for code outside of a job, and stop with no job unless they are given its signal. Never throws:
 * without any bucket the first call that needs one rejects with S3_NOT_CONFIGURED.
 */
export function s3From(config?: Partial<S3Config>, options: S3Options = {}): S3Helpers {
  const environment = readS3Environment()
  const given = config ?? environment.bucket
  const objectPath = given?.objectPath
  return new S3Helpers(() => openBucket(given, environment), {
    allowPrivate: environment.allowPrivate,
    ...options,
    ...(objectPath !== undefined && { objectPath }),
  })
}

async function openBucket(
  given: Partial<S3Config> | undefined,
  { localBucket }: S3Environment,
): Promise<Bucket> {
  if (given) {
    const [{ readBucketSettings }, { S3Bucket }] = await Promise.all([
      import('./bucket-settings.ts'),
      import('./s3-bucket.ts'),
    ])
    return new S3Bucket(readBucketSettings(given))
  }
  if (localBucket !== undefined) {
    const { LocalBucket } = await import('./local-bucket.ts')
    return new LocalBucket(localBucket, (line) => process.stderr.write(`${line}\n`))
  }
  throw new S3Error(
    'S3_NOT_CONFIGURED',
    'There is no bucket. Submit the job with an s3Config, or set BUCKET_ENDPOINT_URL, BUCKET_ACCESS_KEY_ID and BUCKET_SECRET_ACCESS_KEY for the worker.',
  )
}
