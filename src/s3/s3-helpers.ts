// The helpers over a bucket. Light: each call loads what it needs when it is first made.

import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../lib/clock.ts'
import type { Bucket, RangeSource } from './bucket.ts'
import type {
  Downloaded,
  DownloadOptions,
  ExtractOptions,
  S3,
  S3Options,
  UploadBody,
  UploadDirectoryOptions,
  Uploaded,
  UploadFileOptions,
  UploadOptions,
} from './s3.ts'
import type { Scope } from './scope.ts'
import type { Web } from './url-source.ts'

/** Makes the bucket at first use. */
export type OpenBucket = () => Promise<Bucket>

export class S3Helpers implements S3 {
  readonly #options: S3Options
  readonly #scope: Scope
  #bucket: Promise<Bucket> | undefined
  #web: Promise<Web> | undefined
  #folder: Promise<string> | undefined
  #uploads = 0

  constructor(openBucket: OpenBucket, options: S3Options & { objectPath?: string }) {
    const { objectPath = '', jobId = '', signal, onProgress, clock = systemClock } = options
    const segments = [...objectPath.split('/'), jobId].filter((segment) => segment !== '')
    this.#options = options
    this.#scope = {
      bucket: () => (this.#bucket ??= openBucket()),
      prefix: segments.map((segment) => `${segment}/`).join(''),
      signal: signal ?? new AbortController().signal,
      clock,
      folder: () => (this.#folder ??= this.#findFolder()),
      tell: onProgress,
      taken: new Set(),
      nextNumber: () => (this.#uploads += 1),
    }
  }

  async uploadFile(path: string, options: UploadFileOptions = {}): Promise<Uploaded> {
    const { uploadFile } = await import('./upload.ts')
    return uploadFile(this.#scope, path, options)
  }

  async upload(body: UploadBody, options: UploadOptions = {}): Promise<Uploaded> {
    const { uploadBody } = await import('./upload.ts')
    return uploadBody(this.#scope, body, options)
  }

  async uploadAll(paths: readonly string[], options: UploadDirectoryOptions = {}): Promise<Uploaded[]> {
    const { uploadAll } = await import('./upload.ts')
    return uploadAll(this.#scope, paths, options)
  }

  async uploadDirectory(folder: string, options: UploadDirectoryOptions = {}): Promise<Uploaded[]> {
    const { uploadDirectory } = await import('./upload.ts')
    return uploadDirectory(this.#scope, folder, options)
  }

  async download(from: string, options: DownloadOptions = {}): Promise<Downloaded> {
    const { download } = await import('./download.ts')
    return download(this.#scope, from, options, this.#findWeb)
  }

  async downloadAll(from: readonly string[], options: DownloadOptions = {}): Promise<Downloaded[]> {
    const { downloadAll } = await import('./download.ts')
    return downloadAll(this.#scope, from, options, this.#findWeb)
  }

  async extractZip(path: string, options: ExtractOptions = {}): Promise<string[]> {
    const { extractZip } = await import('./unzip.ts')
    return extractZip(this.#scope, path, options)
  }

  async urlOf(key: string, { expiresInSeconds }: { expiresInSeconds?: number } = {}): Promise<string> {
    const { signedUrl } = await import('./upload.ts')
    return signedUrl(this.#scope, key, expiresInSeconds)
  }

  /** Lets go of connections; the helpers are not to be used any more. */
  async close(): Promise<void> {
    const [bucket, web] = await Promise.allSettled([this.#bucket, this.#web])
    if (bucket.status === 'fulfilled') bucket.value?.close()
    if (web.status === 'fulfilled') await web.value?.close()
  }

  async #findFolder(): Promise<string> {
    const { folder } = this.#options
    if (typeof folder === 'function') return folder()
    return folder ?? (await mkdtemp(join(tmpdir(), 'longshore-s3-')))
  }

  readonly #findWeb = async (address: string): Promise<RangeSource> => {
    const { allowPrivate = false } = this.#options
    this.#web ??= import('./url-source.ts').then(({ Web }) => new Web({ allowPrivate }))
    return (await this.#web).source(address)
  }
}
