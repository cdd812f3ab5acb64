// What the address of a store tells of itself: its region, and a bucket in front of it, for providers that are well known.

/** `bucket` is what may stand before the store's own name; `region` what the provider calls the region. */
interface Provider {
  host: RegExp
  /** Where the name has none. */
  region?: string
  /** Whether names are written large in the region but small in the host. */
  isUpper?: true
}

const BUCKET = String.raw`(?:(?<bucket>[^/]+)\.)?`

/** Host names of buckets as their providers document them. */
const providers: readonly Provider[] = [
  aws(
    String.raw`s3(?:-fips)?[.-](?:dualstack\.)?(?<region>[a-z]{2}(?:-[a-z]+)+-\d+)\.amazonaws\.com(?:\.cn)?`,
  ),
  aws(String.raw`s3\.amazonaws\.com`),
  of(String.raw`(?<region>[a-z]{3}\d)\.digitaloceanspaces\.com`),
  of(String.raw`s3\.(?<region>[a-z0-9-]+)\.backblazeb2\.com`),
  of(String.raw`s3\.(?<region>[a-z0-9-]+)\.wasabisys\.com`),
  of(String.raw`s3\.wasabisys\.com`, 'us-east-1'),
  // The account stands where others have the bucket.
  { host: /^[^.]+\.(?:[a-z]+\.)?r2\.cloudflarestorage\.com$/, region: 'auto' },
  of(String.raw`s3\.(?<region>[a-z]{2}-[a-z]{3})\.scw\.cloud`),
  of(String.raw`s3\.(?<region>[a-z0-9-]+)\.(?:io|perf)\.cloud\.ovh\.(?:net|us)`),
  of(String.raw`(?<region>[a-z]{2}-[a-z]+-\d+)\.linodeobjects\.com`),
  of(String.raw`(?<region>[a-z]{3}\d)\.vultrobjects\.com`),
  of(String.raw`(?<region>[a-z]{3}\d)\.your-objectstorage\.com`),
  of(String.raw`s3[.-](?<region>[a-z]{2}-[a-z]+-\d+)\.ionoscloud\.com`),
  of(String.raw`sos-(?<region>[a-z0-9-]+)\.exo\.io`),
  of(String.raw`cos\.(?<region>[a-z0-9-]+)\.myqcloud\.com`),
  of(String.raw`s3\.(?<region>[a-z0-9-]+)\.cloud-object-storage\.appdomain\.cloud`),
  { host: /^[^.]+\.compat\.objectstorage\.(?<region>[a-z0-9-]+)\.oraclecloud\.com$/ },
  of(String.raw`(?:fly\.storage\.tigris\.dev|t3\.storage\.dev)`, 'auto'),
  { host: /^s3api-(?<region>[a-z0-9-]+)\.runpod\.io$/, isUpper: true },
]

function of(name: string, region?: string): Provider {
  return { host: new RegExp(`^${BUCKET}${name}$`), ...(region !== undefined && { region }) }
}

function aws(name: string): Provider {
  return of(name, 'us-east-1')
}

export interface KnownHost {
  region: string
  /** A bucket that stands before the store's own name. */
  bucket?: string
}

/** What a host name of a well-known provider says; undefined for every other. */
export function readHost(hostname: string): KnownHost | undefined {
  for (const { host, region, isUpper } of providers) {
    const groups = host.exec(hostname.toLowerCase())
    if (!groups) continue
    const named = groups.groups?.['region'] ?? region ?? 'us-east-1'
    const bucket = groups.groups?.['bucket']
    return { region: isUpper ? named.toUpperCase() : named, ...(bucket !== undefined && { bucket }) }
  }
  return undefined
}

/** Amazon's own: their SDK knows them by region, and picks the address of a bucket itself. */
export function isAmazon(hostname: string): boolean {
  return (
    /(?:^|\.)s3[.-](?:[a-z0-9.-]+\.)?amazonaws\.com(?:\.cn)?$/i.test(hostname) &&
    // A gate of its own: the SDK would take the ordinary one.
    !/(?:^|\.)s3-fips\./i.test(hostname) &&
    readHost(hostname) !== undefined
  )
}
