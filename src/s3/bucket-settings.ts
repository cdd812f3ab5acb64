// How a bucket is to be reached: a config with its address read, and all that it leaves open made definite. Without zod,
// which would cost a job's first call a tenth of a second: its s3Config was checked on its way here.

import type { S3Config } from '../job/job.ts'
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

/** How the bucket of a config that was checked is reached. Throws S3_CONFIG_INVALID when its fields contradict each other. */
export function bucketSettings({
  accessId,
  accessSecret,
  bucketName,
  endpointUrl,
  region,
}: S3Config): BucketSettings {
  const endpoint = URL.parse(endpointUrl)
  if (!endpoint) throw invalidBucket('endpointUrl is not what it may be')
  const known = readHost(endpoint.hostname)
  if (known?.bucket !== undefined && known.bucket !== bucketName.toLowerCase()) {
    throw invalidBucket(
      `endpointUrl names the bucket '${known.bucket}' and bucketName the bucket '${bucketName}'; leave it out of the address`,
    )
  }
  // With Amazon's hosts, more of a path than the bucket is a mistake; elsewhere it may belong to the address.
  const path = segmentsOf(endpoint).map(decoded).join('/')
  if (isAmazon(endpoint.hostname) && path !== '' && path !== bucketName) {
    throw invalidBucket(
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

/** The bucket that an address names: before the host of a well-known provider, or as all of its path. */
export function bucketNamedBy(endpointUrl: string | undefined): string | undefined {
  const url = URL.parse(endpointUrl ?? '')
  if (!url) return undefined
  const segments = segmentsOf(url)
  return readHost(url.hostname)?.bucket ?? (segments.length === 1 ? decoded(segments[0]) : undefined)
}

/** Scheme, host and path without the bucket, which requests put there themselves. */
function addressOf(endpoint: URL, bucketName: string, before: string | undefined): string {
  const host = before === undefined ? endpoint.host : endpoint.host.slice(before.length + 1)
  const segments = segmentsOf(endpoint)
  if (decoded(segments.at(-1)) === bucketName) segments.pop()
  return `${endpoint.protocol}//${[host, ...segments].join('/')}`
}

function segmentsOf({ pathname }: URL): string[] {
  return pathname.split('/').filter((segment) => segment !== '')
}

function decoded(segment: string | undefined): string | undefined {
  try {
    return segment === undefined ? undefined : decodeURIComponent(segment)
  } catch {
    return segment
  }
}

export function invalidBucket(problem: string, cause?: unknown): S3Error {
  return new S3Error(
    'S3_CONFIG_INVALID',
    `The bucket cannot be used: ${problem}. Give accessId, accessSecret, bucketName and endpointUrl, or the BUCKET_ variables.`,
    cause === undefined ? undefined : { cause },
  )
}
