// How a bucket is to be reached: a job's s3Config or the environment, read and made definite.

import type { S3Config } from '../job/job.ts'
import { s3ConfigSchema } from '../job/job.ts'
import { isAmazon, readHost } from './region.ts'
import { S3Error } from './s3-error.ts'

export interface BucketSettings {
  bucket: string
  region: string
  /** Undefined for Amazon's own, whose SDK knows them by region. */
  endpoint?: string
  accessKeyId: string
  secretAccessKey: string
}

/** Throws S3_CONFIG_INVALID naming the field and never a value that may be secret. */
export function readBucketSettings(config: Partial<S3Config>): BucketSettings {
  const url = URL.parse(config.endpointUrl ?? '')
  const known = url ? readHost(url.hostname) : undefined
  const segments = url?.pathname.split('/').filter((segment) => segment !== '') ?? []
  // Without a bucketName the address may name it: before the host, or as all of its path.
  const named = known?.bucket ?? (segments.length === 1 ? decoded(segments[0]) : undefined)
  const parsed = s3ConfigSchema.safeParse({ ...config, bucketName: config.bucketName ?? named })
  if (!parsed.success) {
    const issue = parsed.error.issues[0]
    const field = issue?.path.join('.') || 's3Config'
    const isMissing = Reflect.get({ ...config, bucketName: config.bucketName ?? named }, field) === undefined
    throw invalid(`${field} ${isMissing ? 'is missing' : 'is not what it may be'}`, parsed.error)
  }
  const { accessId, accessSecret, bucketName, region } = parsed.data
  const endpoint = new URL(parsed.data.endpointUrl)
  if (known?.bucket !== undefined && known.bucket !== bucketName.toLowerCase()) {
    throw invalid(
      `endpointUrl names the bucket '${known.bucket}' and bucketName the bucket '${bucketName}'; leave it out of the address`,
    )
  }
  // With Amazon's hosts, more of a path than the bucket is a mistake; elsewhere it may belong to the address.
  const path = segments.map(decoded).join('/')
  if (isAmazon(endpoint.hostname) && path !== '' && path !== bucketName) {
    throw invalid(
      `endpointUrl has the path '${path}' and bucketName is '${bucketName}'; leave it out of the address`,
    )
  }
  return {
    bucket: bucketName,
    region: region ?? known?.region ?? 'us-east-1',
    accessKeyId: accessId,
    secretAccessKey: accessSecret,
    ...(!isAmazon(endpoint.hostname) && { endpoint: addressOf(endpoint, bucketName, known?.bucket) }),
  }
}

/** Scheme, host and path without the bucket, which requests put there themselves. */
function addressOf(endpoint: URL, bucketName: string, before: string | undefined): string {
  const host = before === undefined ? endpoint.host : endpoint.host.slice(before.length + 1)
  const segments = endpoint.pathname.split('/').filter((segment) => segment !== '')
  if (decoded(segments.at(-1)) === bucketName) segments.pop()
  return `${endpoint.protocol}//${[host, ...segments].join('/')}`
}

function decoded(segment: string | undefined): string | undefined {
  try {
    return segment === undefined ? undefined : decodeURIComponent(segment)
  } catch {
    return segment
  }
}

function invalid(problem: string, cause?: unknown): S3Error {
  return new S3Error(
    'S3_CONFIG_INVALID',
    `The bucket cannot be used: ${problem}. Give accessId, accessSecret, bucketName and endpointUrl, or the BUCKET_ variables.`,
    cause === undefined ? undefined : { cause },
  )
}
