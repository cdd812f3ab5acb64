// What the helpers need of a place that keeps objects: a bucket of a store, or a folder on a laptop.

import type { Readable } from 'node:stream'
import { S3Error } from './s3-error.ts'

export interface PutRequest {
  key: string
  /** Read to its end, or destroyed when the upload fails. */
  body: Readable | Uint8Array
  contentType: string
  metadata?: Record<string, string>
  /** Known for files and buffers: parts are made large enough for it, and a body of another length is refused. */
  bytes?: number
  partsAtATime: number
  signal: AbortSignal
  /** So many more bytes are stored. */
  onStored: (bytes: number) => void
}

export interface ObjectRef {
  bucket: string
  key: string
}

/** A piece of an object, from the byte `from` on. */
export interface OpenedRange {
  from: number
  /** Size of the whole, where the source tells it. */
  total?: number
  /** Changes when the object is replaced. */
  version?: string
  contentType?: string
  /** Whether it is what was asked for; else it is the whole, whatever was asked for. */
  isPart: boolean
  body: Readable
}

/** Something to download, read in ranges. */
export interface RangeSource {
  /** For messages and progress: no credentials, no query. */
  readonly label: string
  /** Several machines may answer, each with a version of its own for the same bytes. */
  readonly isManyfold?: boolean
  /**
   * Opens the bytes from `from` up to and including `to`, or up to the end; a source without ranges gives all from 0 on.
   * The body is the caller's to destroy.
   */
  open(range: { from: number; to?: number }, signal: AbortSignal): Promise<OpenedRange>
  /** The error to fail with; undefined when it may pass by itself. */
  judge(cause: unknown): Error | undefined
  /** The error when trying again was of no use. */
  unreachable(cause: unknown): Error
}

export interface Bucket {
  readonly name: string
  /**
   * Stores an object wholly or not at all. Throws S3Error, what the body failed of, or the signal's reason; then nothing of
   * it stays, unless its last request was on its way already: such an object may be there, wholly.
   */
  put(request: PutRequest): Promise<{ etag?: string }>
  /** A URL that anybody can read the object with for so long. */
  sign(key: string, expiresInSeconds: number): Promise<string>
  source(ref: ObjectRef): RangeSource
  close(): void
}

/** For a body that came to another length than its file had. */
export function lengthChanged(key: string, expected: number, got: number): S3Error {
  return new S3Error(
    'S3_FILE_CHANGED',
    `Cannot upload ${key}: its file was ${expected} bytes when the upload began, and ${got} came. Upload a file when it is wholly written.`,
  )
}
