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
import { closedReason } from './closed-reason.ts'
import type { Web } from './url-source.ts'

/** Makes the bucket at first use. */
export type OpenBucket = () => Promise<Bucket>

export class S3Helpers implements S3 {
  readonly #options: S3Options
  readonly #scope: Scope
  readonly #over = new AbortController()
  readonly #underWay = new Set<Promise<unknown>>()
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
      signal: signal ? AbortSignal.any([signal, this.#over.signal]) : this.#over.signal,
      clock,
      folder: () => (this.#folder ??= this.#findFolder()),
      tell: onProgress,
      used: new Set(),
      spent: new WeakSet(),
      taken: new Set(),
      nextNumber: () => (this.#uploads += 1),
    }
  }

  uploadFile(path: string, options: UploadFileOptions = {}): Promise<Uploaded> {
    return this.#during(async () => {
      const { uploadFile } = await import('./upload.ts')
      return uploadFile(this.#scope, path, options)
    })
  }

  upload(body: UploadBody, options: UploadOptions = {}): Promise<Uploaded> {
    return this.#during(async () => {
      const { uploadBody } = await import('./upload.ts')
      return uploadBody(this.#scope, body, options)
    })
  }

  uploadAll(paths: readonly string[], options: UploadDirectoryOptions = {}): Promise<Uploaded[]> {
    return this.#during(async () => {
      const { uploadAll } = await import('./upload.ts')
      return uploadAll(this.#scope, paths, options)
    })
  }

  uploadDirectory(folder: string, options: UploadDirectoryOptions = {}): Promise<Uploaded[]> {
    return this.#during(async () => {
      const { uploadDirectory } = await import('./upload.ts')
      return uploadDirectory(this.#scope, folder, options)
    })
  }

  download(from: string, options: DownloadOptions = {}): Promise<Downloaded> {
    return this.#during(async () => {
      const { download } = await import('./download.ts')
      return download(this.#scope, from, options, this.#findWeb)
    })
  }

  downloadAll(from: readonly string[], options: DownloadOptions = {}): Promise<Downloaded[]> {
    return this.#during(async () => {
      const { downloadAll } = await import('./download.ts')
      return downloadAll(this.#scope, from, options, this.#findWeb)
    })
  }

  extractZip(path: string, options: ExtractOptions = {}): Promise<string[]> {
    return this.#during(async () => {
      const { extractZip } = await import('./unzip.ts')
      return extractZip(this.#scope, path, options)
    })
  }

  urlOf(key: string, options: { expiresInSeconds?: number } = {}): Promise<string> {
    return this.#during(async () => {
      const { signedUrl } = await import('./upload.ts')
      return signedUrl(this.#scope, key, options)
    })
  }

  /** A file name whose default key was not uploaded to: this one, or one with a number behind it. */
  freeName(name: string): string {
    const { prefix, used } = this.#scope
    const [stem = '', ...rest] = name.split('.')
    const extension = rest.length > 0 ? `.${rest.join('.')}` : ''
    for (let number = 1; ; number += 1) {
      const free = number === 1 ? name : `${stem}-${number}${extension}`
      if (!used.has(`${prefix}${free}`)) return free
    }
  }

  /** Stops what is under way, as if its signal had aborted, and lets go of connections. Calls from now on reject. */
  async close(): Promise<void> {
    // Nobody may be waiting for these any more, and an error that nobody takes ends the process.
    for (const call of this.#underWay) call.catch(() => undefined)
    this.#over.abort(closedReason())
    await Promise.allSettled(this.#underWay)
    const [bucket, web] = await Promise.allSettled([this.#bucket, this.#web])
    if (bucket.status === 'fulfilled') bucket.value?.close()
    if (web.status === 'fulfilled') await web.value?.close()
  }

  #during<Result>(act: () => Promise<Result>): Promise<Result> {
    if (this.#over.signal.aborted) return Promise.reject(this.#over.signal.reason)
    // What is given to the caller is what is silenced at the close, and only then: an error that nobody takes is to be heard.
    const call: Promise<Result> = act().finally(() => this.#underWay.delete(call))
    this.#underWay.add(call)
    return call
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
