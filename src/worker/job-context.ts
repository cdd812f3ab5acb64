// The context that a handler is given: the job's log, folder and bucket, each made when it is first asked for.

import { mkdirSync } from 'node:fs'
import { limits } from '../job/limits.ts'
import { bytesFrom } from '../lib/intrinsics.ts'
import { readS3Environment } from '../s3/config.ts'
import { OWNS, s3From, s3Of } from '../s3/s3-from.ts'
import { S3Helpers, type OpenBucket } from '../s3/s3-helpers.ts'
import type { S3, S3Options } from '../s3/s3.ts'
import type { JobContext } from './define-handler.ts'
import { jobLog } from './job-log.ts'
import type { FromChild, ToChild } from './messages.ts'
import { NotJsonError, toJson } from './serialise.ts'

/** How long transfers may hold up the end of their job. */
const CLOSE_MS = 5_000

export interface ContextOptions {
  message: Extract<ToChild, { type: 'run' }>
  signal: AbortSignal
  send: (head: FromChild, payload?: Uint8Array) => void
  /** Replaces secrets in a text. */
  mask: (text: string) => string
  /** Opens what stands for the job's bucket, whatever its s3Config and the environment say. */
  openBucket?: OpenBucket | undefined
}

export class ContextMaker {
  readonly context: JobContext
  readonly #options: ContextOptions
  #hasScratch = false
  #isOver = false
  #isClosed = false
  readonly #owned = new Set<S3Helpers>()
  #s3: S3Helpers | undefined

  constructor(options: ContextOptions) {
    const { message, signal, send, mask } = options
    const makeScratchDir = (): string => this.#makeScratchDir()
    const findS3 = (): S3 | undefined => (this.#hasS3 ? this.#bucket() : undefined)
    this.#options = options
    this.context = {
      signal,
      attempt: message.attempt,
      ...(message.trace && { trace: message.trace }),
      log: jobLog(message.run, send, mask),
      get scratchDir() {
        return makeScratchDir()
      },
      get s3() {
        return findS3()
      },
      progress: (value) => this.#progress(value),
      // Helpers that are made for this context end with it.
      [OWNS]: (helpers: S3Helpers) => this.#own(helpers),
    } as JobContext
  }

  /** Whether the job's folder was made. */
  get hasScratch(): boolean {
    return this.#hasScratch
  }

  /** Where an output may be spilled to: what the handler has as its bucket, or else the worker's own. */
  get spillBucket(): S3Helpers | undefined {
    return this.#hasS3 || readS3Environment().bucket ? this.#bucket() : undefined
  }

  /** The job has ended: nothing is made for it any more. */
  end(): void {
    this.#isOver = true
  }

  /** Stops the transfers that still go on: the job's next attempt must not meet them. Bounded, whatever they wait for. */
  async close(): Promise<void> {
    this.#isClosed = true
    if (this.#owned.size === 0) return
    const bound = Promise.withResolvers<void>()
    const timer = setTimeout(bound.resolve, CLOSE_MS)
    await Promise.race([Promise.all([...this.#owned].map((helpers) => helpers.close())), bound.promise])
    clearTimeout(timer)
  }

  #own(helpers: S3Helpers): void {
    this.#owned.add(helpers)
    // Made when the job is over: they begin nothing.
    if (this.#isClosed) void helpers.close()
  }

  /** Without a bucket of its own a job has one only where it is tried out. */
  get #hasS3(): boolean {
    const { message, openBucket } = this.#options
    return (
      openBucket !== undefined ||
      message.s3Config !== undefined ||
      readS3Environment().localBucket !== undefined
    )
  }

  #bucket(): S3Helpers {
    const { message, signal, openBucket } = this.#options
    const { id, s3Config } = message
    const options: S3Options = {
      signal,
      jobId: id,
      folder: () => this.#makeScratchDir(),
      onProgress: (progress) => {
        if (!this.#isOver) this.#progress({ s3: progress })
      },
    }
    if (openBucket) {
      const objectPath = s3Config?.objectPath ?? ''
      const { allowPrivate } = readS3Environment()
      this.#s3 ??= new S3Helpers(openBucket, { ...options, objectPath, allowPrivate })
    }
    this.#s3 ??= s3Config ? s3Of(s3Config, options) : s3From(undefined, options)
    this.#own(this.#s3)
    return this.#s3
  }

  #progress(value: unknown): void {
    const payload = bytesFrom(toJson(value, 'progress'))
    if (payload.byteLength > limits.progressBytes) {
      throw new NotJsonError(
        `The progress is ${payload.byteLength} bytes of JSON, more than ${limits.progressBytes}. Send less of it.`,
      )
    }
    this.#options.send({ type: 'progress', run: this.#options.message.run }, payload)
  }

  /** What would be made after the end nobody would remove. */
  #makeScratchDir(): string {
    const { scratchDir } = this.#options.message
    if (this.#hasScratch || this.#isOver) return scratchDir
    mkdirSync(scratchDir, { recursive: true, mode: 0o700 })
    this.#hasScratch = true
    return scratchDir
  }
}
