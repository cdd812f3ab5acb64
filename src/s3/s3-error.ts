// What can go wrong with files and objects: a stable code and one sentence. Light, since every worker process imports it.

/** Every code, and what it means. */
export const s3Failures = {
  S3_NOT_CONFIGURED: 'There is no bucket: the job has no s3Config, and the BUCKET_ variables are not set.',
  S3_CONFIG_INVALID: 'The settings of the bucket cannot be used as they are.',
  S3_OPTION_INVALID: 'An argument or option of a helper is not what it may be, such as a key or an expiry.',
  S3_KEY_UNKNOWN: 'The store does not know the access key.',
  S3_SIGNATURE_REFUSED: 'The store refused the signature: the secret is wrong, or on some stores the key.',
  S3_ACCESS_DENIED: 'The credentials are right but may not do this.',
  S3_CLOCK_SKEW: "This machine's clock differs too much from the store's.",
  S3_REGION_WRONG: 'The bucket is in another region than requests were signed for.',
  S3_BUCKET_NOT_FOUND: 'The store has no such bucket.',
  S3_OBJECT_NOT_FOUND: 'The bucket has no such object.',
  S3_UNREACHABLE: 'The store or the server cannot be reached, or stopped answering.',
  S3_OBJECT_CHANGED: 'The object was replaced while it was downloaded.',
  S3_FILE_CHANGED: 'The file was written to while it was uploaded.',
  S3_TOO_LARGE: 'The download is larger than its limit.',
  S3_FILE_UNREADABLE: 'A file to upload or to extract is missing or cannot be read.',
  S3_FILE_UNWRITABLE: 'The place for a download or an extraction cannot be written to.',
  S3_DISK_FULL: 'The disk of the worker is full.',
  S3_URL_REFUSED: 'The address cannot be downloaded from: not https, or a redirect to something that is not.',
  S3_ADDRESS_PRIVATE: 'The address is or leads to a private network, which is not allowed.',
  S3_DOWNLOAD_REFUSED: 'The server of a URL answered with an error.',
  S3_ZIP_REFUSED: 'The archive is damaged, or breaks a limit on count, size or paths.',
  S3_FAILED: 'The store answered with an error of another kind; the cause has it.',
} as const

export type S3FailureCode = keyof typeof s3Failures

/** What the helpers throw. `message` has no secret in it, nor has anything below `cause`. */
export class S3Error extends Error {
  readonly code: S3FailureCode

  constructor(code: S3FailureCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'S3Error'
    this.code = code
  }
}

/** What a `cause` says of itself in one sentence, without its last full stop. */
export function wordsOf(cause: unknown): string {
  const text = cause instanceof Error ? cause.message || cause.name : String(cause)
  return text.replace(/\.\s*$/, '')
}

/** The code of a failed system call or of the network, such as ENOSPC; empty without one. */
export function codeOf(cause: unknown): string {
  const code = typeof cause === 'object' && cause !== null && 'code' in cause ? cause.code : undefined
  return typeof code === 'string' ? code : ''
}
