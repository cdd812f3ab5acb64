// What a store or the network said, as one sentence that tells what to check.

import type { BucketSettings } from './bucket-settings.ts'
import { codeOf, S3Error, wordsOf, type S3FailureCode } from './s3-error.ts'

/** What was tried, for the sentence: "upload a/b.png", "download a/b.png". */
export type Deed = `${'upload' | 'download' | 'sign'} ${string}`

interface Place {
  settings: BucketSettings
  bucket: string
  deed: Deed
}

interface Words {
  code: S3FailureCode
  text: (place: Place, cause: unknown) => string
}

const keyUnknown: Words = {
  code: 'S3_KEY_UNKNOWN',
  text: ({ settings }) =>
    `${storeOf(settings)} does not know the access key. Check accessId, and that endpointUrl is the store it belongs to.`,
}
const denied: Words = {
  code: 'S3_ACCESS_DENIED',
  text: ({ settings, bucket, deed }) =>
    `${storeOf(settings)} does not let this access key ${deed} in the bucket '${bucket}'. Check the permissions of the key and of the bucket.`,
}
const otherRegion: Words = {
  code: 'S3_REGION_WRONG',
  text: ({ settings, bucket }, cause) => {
    const region = regionIn(cause)
    const where = region === undefined ? 'another region' : `the region '${region}'`
    return `The bucket '${bucket}' is in ${where}, and requests were signed for '${settings.region}'. Set s3Config.region${region === undefined ? '' : ` to '${region}'`}, or the endpointUrl of that region.`
  },
}
const noObject: Words = {
  code: 'S3_OBJECT_NOT_FOUND',
  text: ({ bucket, deed }) =>
    `The bucket '${bucket}' has no such object: cannot ${deed}. Check the key, large and small letters too.`,
}

/** By the code that the store gave. */
const byName: Record<string, Words> = {
  InvalidAccessKeyId: keyUnknown,
  InvalidAccessKey: keyUnknown,
  SignatureDoesNotMatch: {
    code: 'S3_SIGNATURE_REFUSED',
    text: ({ settings }) =>
      `${storeOf(settings)} refused the signature. Check accessSecret, and accessId where the store does not tell the two apart.`,
  },
  AccessDenied: denied,
  AllAccessDisabled: denied,
  AccountProblem: denied,
  RequestTimeTooSkewed: {
    code: 'S3_CLOCK_SKEW',
    text: ({ settings }) =>
      `The clock of this machine differs too much from that of ${storeOf(settings)}. Set the clock, by NTP for example.`,
  },
  AuthorizationHeaderMalformed: otherRegion,
  PermanentRedirect: otherRegion,
  TemporaryRedirect: otherRegion,
  IllegalLocationConstraintException: otherRegion,
  NoSuchBucket: {
    code: 'S3_BUCKET_NOT_FOUND',
    text: ({ settings, bucket }) =>
      `${storeOf(settings)} has no bucket '${bucket}'. Check bucketName and endpointUrl, or make the bucket first.`,
  },
  InvalidBucketName: {
    code: 'S3_BUCKET_NOT_FOUND',
    text: ({ settings, bucket }) =>
      `${storeOf(settings)} can have no bucket of the name '${bucket}'. Check bucketName.`,
  },
  NoSuchKey: noObject,
  NotFound: noObject,
  PreconditionFailed: {
    code: 'S3_OBJECT_CHANGED',
    text: ({ deed }) => `The object was replaced meanwhile: cannot ${deed}. Try again.`,
  },
}

/** The network's codes, with what to look at. */
const byCode: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there. Check the host and port of endpointUrl, and that the store runs',
  ENOTFOUND: 'its name is not known. Check endpointUrl',
  EAI_AGAIN: 'its name cannot be looked up now. Check the network of the worker',
  EHOSTUNREACH: 'there is no way to it. Check the network of the worker',
  ENETUNREACH: 'there is no way to it. Check the network of the worker',
  ETIMEDOUT: 'it did not answer in time. Check the network of the worker, and firewalls',
  EPROTO: 'it does not speak TLS there. Check http or https in endpointUrl',
}

/** An S3Error for whatever the SDK threw, its cause cleaned of credentials. */
export function storeTrouble(cause: unknown, place: Place): S3Error {
  if (cause instanceof S3Error) return cause
  const clean = withoutSecrets(cause, place.settings)
  const words =
    byName[nameOf(cause)] ??
    (statusOf(cause) === 301 ? otherRegion : statusOf(cause) === 403 ? denied : undefined)
  if (words) return new S3Error(words.code, words.text(place, clean), { cause: clean })
  if (isPassing(cause)) return unreachable(clean, place)
  const { settings, deed } = place
  if (isNoStore(cause)) {
    const message = `Cannot ${deed}: ${storeOf(settings)} does not answer as a store that speaks S3. Check endpointUrl, its port above all.`
    return new S3Error('S3_UNREACHABLE', message, { cause: clean })
  }
  return new S3Error('S3_FAILED', `${storeOf(settings)} could not ${deed}: ${said(clean)}.`, { cause: clean })
}

/** Something answered, but not with what a store says. */
function isNoStore(cause: unknown): boolean {
  return /Deserialization error|XML parse error/.test(wordsOf(cause))
}

/** Whether the same request may succeed later: the network's errors and the store's own. */
export function isPassing(cause: unknown): boolean {
  const status = statusOf(cause)
  if (status !== undefined && status >= 400) return status >= 500 || status === 429 || status === 408
  return !(cause instanceof S3Error) && !(cause instanceof TypeError) && !isNoStore(cause)
}

function unreachable(clean: unknown, { settings, deed }: Place): S3Error {
  const status = statusOf(clean)
  const why =
    byCode[codeOf(clean)] ??
    (status === undefined
      ? networkWords(clean)
      : `it answered ${status} each time (${said(clean)}). Try again later`)
  return new S3Error('S3_UNREACHABLE', `Cannot ${deed}: ${storeOf(settings)} cannot be reached: ${why}.`, {
    cause: clean,
  })
}

function networkWords(clean: unknown): string {
  const isTls = /certificate|self.signed|SSL|TLS/i.test(`${codeOf(clean)} ${wordsOf(clean)}`)
  return `${wordsOf(clean)}. Check ${isTls ? "the store's certificate, or NODE_EXTRA_CA_CERTS for one of your own" : 'endpointUrl and the network of the worker'}`
}

function storeOf({ endpoint, region }: BucketSettings): string {
  return endpoint === undefined ? `Amazon S3 in ${region}` : `The store at ${endpoint}`
}

function said(cause: unknown): string {
  const words = wordsOf(cause)
  const name = nameOf(cause)
  // Stores that say no more than a code come as this word.
  return words === 'UnknownError' || words === ''
    ? name
    : name === 'Error' || words.startsWith(name)
      ? words
      : `${name}, ${words}`
}

function nameOf(cause: unknown): string {
  return cause instanceof Error ? cause.name : ''
}

/** The HTTP status that the store answered. */
export function statusOf(cause: unknown): number | undefined {
  const metadata =
    typeof cause === 'object' && cause !== null && '$metadata' in cause ? cause.$metadata : undefined
  const status =
    typeof metadata === 'object' && metadata !== null && 'httpStatusCode' in metadata
      ? metadata.httpStatusCode
      : undefined
  return typeof status === 'number' ? status : undefined
}

function regionIn(cause: unknown): string | undefined {
  const region = typeof cause === 'object' && cause !== null && 'Region' in cause ? cause.Region : undefined
  if (typeof region === 'string' && region !== '') return region
  return /expecting '([^']+)'/.exec(wordsOf(cause))?.[1]
}

type Credentials = Pick<BucketSettings, 'accessKeyId' | 'secretAccessKey'>

/** How far causes of causes are followed. */
const CAUSES = 5

/**
 * A copy of an error without what was signed and by which key: stores repeat it, and the SDK hangs the whole request on its
 * errors in a property that cannot be deleted.
 */
function withoutSecrets(cause: unknown, credentials: Credentials, depth = CAUSES): unknown {
  if (!(cause instanceof Error)) return cause
  const mask = (text: string): string =>
    secretsOf(credentials).reduce((masked, secret) => masked.replaceAll(secret, '[masked]'), text)
  const copy = new Error(mask(cause.message))
  Object.setPrototypeOf(copy, Object.getPrototypeOf(cause) as object)
  for (const name of Object.getOwnPropertyNames(cause)) {
    if (/^(?:StringToSign|CanonicalRequest|Signature|AWSAccessKeyId)/.test(name)) continue
    const value: unknown = Reflect.get(cause, name)
    if (name === '$metadata') define(copy, name, value)
    else if (typeof value === 'string') define(copy, name, mask(value))
    else if (typeof value !== 'object' && typeof value !== 'function') define(copy, name, value)
  }
  if (depth === 0) return copy
  const further = (one: unknown): unknown => withoutSecrets(one, credentials, depth - 1)
  if (cause.cause instanceof Error) define(copy, 'cause', further(cause.cause))
  if (cause instanceof AggregateError) define(copy, 'errors', cause.errors.map(further))
  return copy
}

function secretsOf({ accessKeyId, secretAccessKey }: Credentials): string[] {
  return [secretAccessKey, accessKeyId].flatMap((secret) => [secret, encodeURIComponent(secret)])
}

function define(error: Error, name: string, value: unknown): void {
  Object.defineProperty(error, name, {
    value,
    configurable: true,
    writable: true,
    enumerable: name !== 'stack' && name !== 'message',
  })
}
