// What a handler calls to move files: the helpers' interface. Types alone.

import type { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import type { Clock } from '../lib/clock.ts'
import type { TransferProgress } from './transfers.ts'

/** Anything with bytes in it, of whatever length. A string is stored as UTF-8. */
export type UploadBody =
  string | Uint8Array | Readable | ReadableStream | Blob | AsyncIterable<Uint8Array | string>

interface CallOptions {
  /** Stops this call, beside the job's own signal. */
  signal?: AbortSignal
}

export interface UploadFileOptions extends CallOptions {
  /** In place of `objectPath/{jobId}/{file name}`; up to 1,024 bytes. */
  key?: string
  /** Told from the key's extension by default, else application/octet-stream. */
  contentType?: string
  /** Kept beside the object: names of letters, digits, - and _, values of printable ASCII, up to 2,048 bytes. */
  metadata?: Record<string, string>
  /** How long `url` works: from 1 to 604,800, which is 7 days and the default. */
  expiresInSeconds?: number
}

export interface UploadOptions extends UploadFileOptions {
  /** The file name in the default key; `upload-{n}` with an extension for the content type when left out. */
  name?: string
}

export interface UploadDirectoryOptions extends Omit<UploadFileOptions, 'key'> {
  /** In front of each file's name in place of `objectPath/{jobId}/`, for a folder with the folder's name behind it. */
  prefix?: string
}

export interface Uploaded {
  key: string
  /** Anybody who has it can read the object until it expires. */
  url: string
  bytes: number
  /** Where the store gives one. */
  etag?: string
}

export interface DownloadOptions extends CallOptions {
  /** A file, or a folder (one that is there, or a path that ends with a slash); the job's scratchDir by default. */
  to?: string
  /** A larger one is refused; default 5,000,000,000. */
  maxBytes?: number
}

export interface Downloaded {
  path: string
  bytes: number
  contentType?: string
}

export interface ExtractOptions extends CallOptions {
  /** The folder; a new one in the job's scratchDir, named like the archive, by default. */
  to?: string
  /** Entries, folders included; default 10,000. */
  maxFiles?: number
  /** Of all files once extracted; default 5,000,000,000. */
  maxBytes?: number
}

/**
 * Files in and out of a bucket. Every call rejects with an S3Error, or with the signal's reason once the job is stopped;
 * then nothing is left half-done: no parts in the bucket, no file on the disk.
 */
export interface S3 {
  uploadFile(path: string, options?: UploadFileOptions): Promise<Uploaded>
  upload(body: UploadBody, options?: UploadOptions): Promise<Uploaded>
  /** Four at a time; results in the order of the paths. The first failure ends the others; what was uploaded before stays. */
  uploadAll(paths: readonly string[], options?: UploadDirectoryOptions): Promise<Uploaded[]>
  /** Every file in it and below; links are left out. */
  uploadDirectory(folder: string, options?: UploadDirectoryOptions): Promise<Uploaded[]>
  /** From a key of the bucket, `s3://bucket/key`, or an https address that is public. */
  download(from: string, options?: DownloadOptions): Promise<Downloaded>
  downloadAll(from: readonly string[], options?: DownloadOptions): Promise<Downloaded[]>
  /** Gives the paths of the files. Links, encrypted entries and paths that lead out of the folder are refused. */
  extractZip(path: string, options?: ExtractOptions): Promise<string[]>
  /** A URL to read an object with: `expiresInSeconds` from 1 to 604,800, which is the default. */
  urlOf(key: string, options?: { expiresInSeconds?: number }): Promise<string>
}

/** What helpers of one's own making may know beside the bucket. */
export interface S3Options {
  /** The job that they work for: gives `jobId`. */
  job?: { readonly id: string }
  /** Its context: gives `signal`, `folder` and `onProgress`. */
  context?: { readonly signal: AbortSignal; readonly scratchDir: string; progress(value: unknown): void }
  /** Aborts every call. */
  signal?: AbortSignal
  /** The part of default keys behind objectPath. */
  jobId?: string
  /** Where downloads go; a new temporary folder by default, which is the caller's to remove. */
  folder?: string | (() => string)
  onProgress?: (progress: TransferProgress) => void
  /** Downloads from private addresses, and by http, are allowed; default LONGSHORE_ALLOW_PRIVATE_DOWNLOADS=true, else not. */
  allowPrivate?: boolean
  clock?: Clock
}
