// What the environment says of buckets. Light.

import type { S3Config } from '../job/job.ts'

export interface S3Environment {
  /** The variables of a bucket in the shape of a job's s3Config, those that are set; undefined when none of them is. */
  bucket?: Partial<S3Config>
  /** A folder that stands for the bucket when there is none. */
  localBucket?: string
  allowPrivate: boolean
}

/** Where `longshore run` and `longshore dev` tell their handler's process that it may do without a bucket. */
export const LOCAL_BUCKET = 'LONGSHORE_LOCAL_BUCKET'

export function readS3Environment(env: NodeJS.ProcessEnv = process.env): S3Environment {
  const fields = {
    endpointUrl: env['BUCKET_ENDPOINT_URL'],
    accessId: env['BUCKET_ACCESS_KEY_ID'],
    accessSecret: env['BUCKET_SECRET_ACCESS_KEY'],
    bucketName: env['BUCKET_NAME'],
    region: env['BUCKET_REGION'],
  }
  const given = Object.entries(fields).filter((field): field is [string, string] => Boolean(field[1]))
  const localBucket = env[LOCAL_BUCKET]
  return {
    ...(given.length > 0 && { bucket: Object.fromEntries(given) }),
    ...(localBucket && { localBucket }),
    allowPrivate: env['LONGSHORE_ALLOW_PRIVATE_DOWNLOADS'] === 'true',
  }
}
