// Helpers for a bucket: the one given, that of the environment, or a folder on a laptop. Light: the rest comes at first use.

import type { S3Config } from '../job/job.ts'
import type { Bucket } from './bucket.ts'
import { readS3Environment, type S3Environment } from './config.ts'
import { S3Error } from './s3-error.ts'
import type { S3Options } from './s3.ts'
import { S3Helpers, type OpenBucket } from './s3-helpers.ts'
import type { TransferProgress } from './transfers.ts'

/** Where a job's context takes helpers that are to end with it; the same in every copy of this package. */
export const OWNS = Symbol.for('longshore.owns')

interface Owner {
  [OWNS](helpers: S3Helpers): void
}

/**
 * Helpers for the bucket of `config`, or without it for that of BUCKET_ENDPOINT_URL, BUCKET_ACCESS_KEY_ID and
 * BUCKET_SECRET_ACCESS_KEY (with BUCKET_NAME and BUCKET_REGION where the address does not tell them). A job's own are
 * `context.s3`; in a job without a bucket `s3From(undefined, { job, context })` are those of the worker. Never throws:
 * without any bucket the first call that needs one rejects with S3_NOT_CONFIGURED.
 */
export function s3From(config?: Partial<S3Config>, { job, context, ...options }: S3Options = {}): S3Helpers {
  const environment = readS3Environment()
  const given = config ?? environment.bucket
  const ofJob = context && {
    signal: context.signal,
    folder: () => context.scratchDir,
    onProgress: (progress: TransferProgress) => context.progress({ s3: progress }),
  }
  const made = helpers(
    async () => {
      if (!given) return openLocal(environment)
      const { parseBucketConfig } = await import('./bucket-config.ts')
      return open(parseBucketConfig(given))
    },
    given?.objectPath,
    { ...(job && { jobId: job.id }), ...ofJob, ...options },
  )
  if (context && OWNS in context) (context as Owner)[OWNS](made)
  return made
}

/** The same for the s3Config of a job, which is taken as checked. */
export function s3Of(config: S3Config, options: S3Options): S3Helpers {
  return helpers(() => open(config), config.objectPath, options)
}

function helpers(openBucket: OpenBucket, objectPath: string | undefined, options: S3Options): S3Helpers {
  const { allowPrivate } = readS3Environment()
  return new S3Helpers(openBucket, {
    allowPrivate,
    ...options,
    ...(objectPath !== undefined && { objectPath }),
  })
}

async function open(config: S3Config): Promise<Bucket> {
  const [{ bucketSettings }, { S3Bucket }] = await Promise.all([
    import('./bucket-settings.ts'),
    import('./s3-bucket.ts'),
  ])
  return new S3Bucket(bucketSettings(config))
}

/** Where there is no bucket. */
async function openLocal({ localBucket }: S3Environment): Promise<Bucket> {
  if (localBucket !== undefined) {
    const { LocalBucket } = await import('./local-bucket.ts')
    return new LocalBucket(localBucket, (line) => process.stderr.write(`${line}\n`))
  }
  throw new S3Error(
    'S3_NOT_CONFIGURED',
    'There is no bucket. Submit the job with an s3Config, or set BUCKET_ENDPOINT_URL, BUCKET_ACCESS_KEY_ID and BUCKET_SECRET_ACCESS_KEY for the worker.',
  )
}
