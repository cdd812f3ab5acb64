// Watches over one upload of lib-storage: stops it at the first failure or abort, and leaves no parts behind.

import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  HeadObjectCommand,
  PutObjectCommand,
  UploadPartCommand,
  type CompleteMultipartUploadCommandOutput,
  type S3Client,
} from '@aws-sdk/client-s3'
import { backoffMs } from '../lib/backoff.ts'
import { pause, systemClock } from '../lib/clock.ts'
import { lengthChanged, type PutRequest } from './bucket.ts'
import { S3Error } from './s3-error.ts'
import { statusOf } from './store-trouble.ts'

export type Guarded = Pick<PutRequest, 'key' | 'body' | 'bytes' | 'signal' | 'onStored'>

/** How often the removal of parts is tried, beyond what the SDK repeats by itself. */
const REMOVALS = 12
/** What may still be under way once the upload is stopped, so that no parts stay, is waited for so long. */
const REMOVAL_PAUSE = { baseMs: 200, maxMs: 3_000 }
const LAST_MS = { aborted: 3_000, failed: 30_000 }

type Command = Parameters<S3Client['send']>[0]

export class UploadGuard {
  /** What lib-storage is to send through. */
  readonly client: S3Client
  /** What lib-storage is to read. */
  readonly body: Readable | Uint8Array
  /** The upload whose parts could not be removed. */
  leftover: string | undefined
  /** The body itself failed, not the store. */
  isBodyFault = false
  readonly #store: S3Client
  readonly #guarded: Guarded
  /** Ends the requests under way: by itself lib-storage would send all the rest first. */
  readonly #halt = new AbortController()
  /** Ends what is left to run when the others end: a request whose answer says what to remove, and the removal. */
  readonly #last = new AbortController()
  #lastTimer: NodeJS.Timeout | undefined
  #failure: { cause: unknown } | undefined
  #readBytes = 0
  #sentBytes = 0

  constructor(store: S3Client, guarded: Guarded) {
    this.#store = store
    this.#guarded = guarded
    this.client = Object.create(store, {
      send: { value: (command: Command) => this.#send(command) },
    }) as S3Client
    const { body } = guarded
    this.body =
      body instanceof Readable
        ? Readable.from(this.#chunks(body), { objectMode: true, highWaterMark: 1 })
        : body
  }

  /** Resolves or rejects once nothing of the upload is under way any more. */
  async over<Result>(done: Promise<Result>): Promise<Result> {
    const { body, signal } = this.#guarded
    const onAbort = (): void => {
      this.#stop(signal.reason)
      this.#endLastAfter(LAST_MS.aborted)
    }
    const onBodyError = (cause: unknown): void => this.#failBody(cause)
    if (body instanceof Readable) body.once('error', onBodyError)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      return await done
    } finally {
      signal.removeEventListener('abort', onAbort)
      clearTimeout(this.#lastTimer)
      this.#closeBody()
    }
  }

  /** What failed first: the rest failed for that. */
  causeOf(cause: unknown): unknown {
    return this.#failure?.cause ?? this.#lengthProblem() ?? cause
  }

  /** The body as bytes, ended by the upload's end even when the body itself cannot be: one may wait for ever. */
  async *#chunks(body: Readable): AsyncGenerator<Uint8Array> {
    const { key, bytes } = this.#guarded
    const chunks = body[Symbol.asyncIterator]()
    try {
      for (;;) {
        const next = await this.#orHalted(chunks.next())
        if (next.done) return
        const chunk = bytesOf(next.value)
        this.#readBytes += chunk.byteLength
        if (bytes !== undefined && this.#readBytes > bytes) throw lengthChanged(key, bytes, this.#readBytes)
        yield chunk
      }
    } catch (cause) {
      this.#failBody(cause)
      throw cause
    }
  }

  #orHalted<Result>(promise: Promise<Result>): Promise<Result> {
    const { signal } = this.#halt
    return new Promise((resolve, reject) => {
      const onHalt = (): void => reject(signal.reason)
      if (signal.aborted) onHalt()
      // Not Promise.race: what lives as long as the upload would keep every chunk.
      signal.addEventListener('abort', onHalt, { once: true })
      promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onHalt))
    })
  }

  #failBody(cause: unknown): void {
    this.isBodyFault ||= this.#failure === undefined
    this.#stop(cause)
  }

  #lengthProblem(): Error | undefined {
    const { key, bytes } = this.#guarded
    return bytes === undefined || bytes === this.#sentBytes
      ? undefined
      : lengthChanged(key, bytes, this.#sentBytes)
  }

  #checkLength(): void {
    const problem = this.#lengthProblem()
    if (!problem) return
    this.#stop(problem)
    throw problem
  }

  #stop(cause: unknown): void {
    if (this.#failure) return
    this.#failure = { cause }
    this.#halt.abort(cause)
    this.#endLastAfter(LAST_MS.failed)
    this.#closeBody()
  }

  #endLastAfter(ms: number): void {
    clearTimeout(this.#lastTimer)
    this.#lastTimer = setTimeout(() => this.#last.abort(), ms)
  }

  #closeBody(): void {
    const { body } = this.#guarded
    if (body instanceof Readable) body.destroy()
  }

  get #untilLast(): { abortSignal: AbortSignal } {
    return { abortSignal: this.#last.signal }
  }

  async #send(command: Command): Promise<unknown> {
    if (command instanceof AbortMultipartUploadCommand) return this.#remove(command)
    if (command instanceof CompleteMultipartUploadCommand) return this.#complete(command)
    if (!(command instanceof UploadPartCommand || command instanceof PutObjectCommand)) {
      // Whoever asks for an upload to begin has to learn its id, or nobody could remove it.
      return this.#noting(this.#store.send(command as UploadPartCommand, this.#untilLast))
    }
    this.#halt.signal.throwIfAborted()
    const { byteLength } = command.input.Body as Uint8Array
    this.#sentBytes += byteLength
    if (command instanceof PutObjectCommand) this.#checkLength()
    const answer = await this.#noting(
      this.#store.send(command as UploadPartCommand, { abortSignal: this.#halt.signal }),
    )
    this.#guarded.onStored(byteLength)
    return answer
  }

  async #noting<Answer>(answer: Promise<Answer>): Promise<Answer> {
    try {
      return await answer
    } catch (cause) {
      this.#stop(cause)
      throw cause
    }
  }

  /** From here on the object is made or not, whatever is aborted meanwhile. */
  async #complete(command: CompleteMultipartUploadCommand): Promise<CompleteMultipartUploadCommandOutput> {
    this.#halt.signal.throwIfAborted()
    this.#checkLength()
    try {
      return await this.#store.send(command, this.#untilLast)
    } catch (cause) {
      // An earlier try may have done it, and only its answer was lost.
      const made = statusOf(cause) === 404 ? await this.#madeAlready(command) : undefined
      if (made) return made
      throw cause
    }
  }

  async #madeAlready({
    input: { Bucket, Key, MultipartUpload },
  }: CompleteMultipartUploadCommand): Promise<CompleteMultipartUploadCommandOutput | undefined> {
    try {
      const head = await this.#store.send(new HeadObjectCommand({ Bucket, Key }), this.#untilLast)
      const tags = (MultipartUpload?.Parts ?? []).map(({ ETag }) => ETag ?? '')
      return bare(head.ETag) === tagOfParts(tags) ? { $metadata: head.$metadata, ETag: head.ETag } : undefined
    } catch {
      // Then what the store said of the upload itself is to be told.
      return undefined
    }
  }

  /** Never rejects: why the upload failed is more worth knowing. */
  async #remove(command: AbortMultipartUploadCommand): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      try {
        await this.#store.send(command, this.#untilLast)
        return
      } catch (cause) {
        // There are none: it was removed before, or has become the object.
        if (statusOf(cause) === 404) return
        if (tries < REMOVALS && !this.#last.signal.aborted) {
          // A store that is started anew takes some seconds.
          await pause(systemClock, backoffMs(tries, REMOVAL_PAUSE), this.#last.signal)
          continue
        }
        this.leftover = command.input.UploadId
        return
      }
    }
  }
}

function bytesOf(chunk: unknown): Uint8Array {
  if (chunk instanceof Uint8Array) return chunk
  if (typeof chunk === 'string') return Buffer.from(chunk)
  throw new S3Error(
    'S3_OPTION_INVALID',
    `A stream to upload must be of strings or bytes, got ${chunk === null ? 'null' : typeof chunk} in it.`,
  )
}

/** The tag that stores give an object of these parts: the digest of their digests, and how many they are. */
function tagOfParts(tags: readonly string[]): string {
  const digests = Buffer.concat(tags.map((tag) => Buffer.from(bare(tag), 'hex')))
  return `${createHash('md5').update(digests).digest('hex')}-${tags.length}`
}

function bare(tag: string | undefined): string {
  return tag?.replaceAll('"', '') ?? ''
}
