// What the disk said when something was to be written, as one sentence.

import { codeOf, S3Error, wordsOf } from './s3-error.ts'

export function writeTrouble(cause: unknown, path: string): S3Error {
  if (cause instanceof S3Error) return cause
  const code = codeOf(cause)
  if (code === 'ENOSPC' || code === 'EDQUOT')
    return new S3Error(
      'S3_DISK_FULL',
      `The disk is full: ${path} could not be written. Give the worker more disk, or move less at a time.`,
      { cause },
    )
  return new S3Error(
    'S3_FILE_UNWRITABLE',
    `Cannot write ${path}: ${wordsOf(cause)}. Check the path, and that the worker may write there.`,
    { cause },
  )
}
