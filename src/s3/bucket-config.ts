// A bucket as authors and environments describe it, checked.

import { s3ConfigSchema, type S3Config } from '../job/job.ts'
import { bucketNamedBy, invalidBucket } from './bucket-settings.ts'
import type { S3Error } from './s3-error.ts'

/** Throws S3_CONFIG_INVALID naming the field and never a value that may be secret. */
export function parseBucketConfig(given: Partial<S3Config>): S3Config {
  const whole = { ...given, bucketName: given.bucketName ?? bucketNamedBy(given.endpointUrl) }
  const parsed = s3ConfigSchema.safeParse(whole)
  if (parsed.success) return parsed.data
  throw problemOf(whole, parsed.error)
}

function problemOf(whole: object, error: { issues: readonly { path: PropertyKey[] }[] }): S3Error {
  const field = error.issues[0]?.path.join('.') || 's3Config'
  const isMissing = Reflect.get(whole, field) === undefined
  return invalidBucket(`${field} ${isMissing ? 'is missing' : 'is not what it may be'}`, error)
}
