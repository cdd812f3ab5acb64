// A bucket of a store that speaks S3, over the AWS SDK: the one door to it.

import type { Readable } from 'node:stream'
import { GetObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import type { Bucket, ObjectRef, OpenedRange, PutRequest, RangeSource } from './bucket.ts'
import type { BucketSettings } from './bucket-settings.ts'
import { S3Error } from './s3-error.ts'
import { isPassing, statusOf, storeTrouble, type Deed } from './store-trouble.ts'
import { UploadGuard } from './upload-guard.ts'

/** Large enough that 10,000 of them, which is all an object may have, hold 80 GB of unknown length. */
const PART_BYTES = 8_388_608
const MOST_PARTS = 10_000
const CONNECT_MS = 10_000
/** A connection on which nothing moves for so long is given up. */
const IDLE_MS = 60_000
const TRIES = 5
/** Connections that nobody uses go by themselves: helpers that are not closed leave nothing behind. */
const agent = { keepAlive: true, maxSockets: 50, timeout: 5_000 }

export interface Patience {
  /** How long a connection may be without any move. */
  idleMs?: number
  /** Of each request, the first one counted. */
  tries?: number
}

export class S3Bucket implements Bucket {
  readonly name: string
  readonly #settings: BucketSettings
  readonly #client: S3Client

  constructor(settings: BucketSettings, { idleMs = IDLE_MS, tries = TRIES }: Patience = {}) {
    this.name = settings.bucket
    this.#settings = settings
    this.#client = new S3Client({
      region: settings.region,
      credentials: { accessKeyId: settings.accessKeyId, secretAccessKey: settings.secretAccessKey },
      maxAttempts: tries,
      requestHandler: {
        connectionTimeout: CONNECT_MS,
        socketTimeout: idleMs,
        httpAgent: agent,
        httpsAgent: agent,
      },
      // Most stores that are not Amazon's know neither names of buckets as hosts nor checksums behind a body.
      ...(settings.endpoint !== undefined && {
        endpoint: settings.endpoint,
        forcePathStyle: true,
        requestChecksumCalculation: 'WHEN_REQUIRED',
        responseChecksumValidation: 'WHEN_REQUIRED',
      }),
    })
    // The SDK would turn its clock by what the store says, and go on; but URLs it signs by that of this machine, and they
    // would not work.
    Object.defineProperty(this.#client.config, 'systemClockOffset', { get: () => 0, set() {} })
  }

  async put(request: PutRequest): Promise<{ etag?: string }> {
    const { key, contentType, metadata, bytes, partsAtATime, signal } = request
    const guard = new UploadGuard(this.#client, request)
    const upload = new Upload({
      client: guard.client,
      params: {
        Bucket: this.name,
        Key: key,
        Body: guard.body,
        ContentType: contentType,
        ...(metadata && { Metadata: metadata }),
        ...(bytes !== undefined && { ContentLength: bytes }),
      },
      queueSize: partsAtATime,
      partSize: Math.max(PART_BYTES, Math.ceil((bytes ?? 0) / MOST_PARTS)),
    })
    try {
      const { ETag } = await guard.over(upload.done())
      // Aborted at the last moment: the object may be there, wholly.
      signal.throwIfAborted()
      return ETag === undefined || ETag === '' ? {} : { etag: ETag }
    } catch (cause) {
      if (guard.isBodyFault) throw guard.causeOf(cause)
      throw signal.aborted
        ? signal.reason
        : this.#trouble(guard.causeOf(cause), `upload ${key}`, guard.leftover)
    }
  }

  async sign(key: string, expiresInSeconds: number): Promise<string> {
    const command = new GetObjectCommand({ Bucket: this.name, Key: key })
    try {
      return await getSignedUrl(this.#client, command, { expiresIn: expiresInSeconds })
    } catch (cause) {
      throw this.#trouble(cause, `sign ${key}`)
    }
  }

  source({ bucket, key }: ObjectRef): RangeSource {
    const deed: Deed = `download ${key}`
    const place = { settings: this.#settings, bucket, deed }
    return {
      label: key,
      open: (range, signal) => this.#open({ bucket, key }, range, signal),
      judge: (cause) => (isPassing(cause) ? undefined : storeTrouble(cause, place)),
      unreachable: (cause) => storeTrouble(cause, place),
    }
  }

  close(): void {
    this.#client.destroy()
  }

  async #open(
    { bucket, key }: ObjectRef,
    { from, to }: { from: number; to?: number },
    signal: AbortSignal,
  ): Promise<OpenedRange> {
    const isAll = from === 0 && to === undefined
    const command = new GetObjectCommand({
      Bucket: bucket,
      Key: key,
      ...(!isAll && { Range: `bytes=${from}-${to ?? ''}` }),
    })
    try {
      const answer = await this.#client.send(command, { abortSignal: signal })
      const { ContentRange, ContentLength, ETag, ContentType } = answer
      const [, first, total] = /^bytes (\d+)-\d+\/(\d+)$/.exec(ContentRange ?? '') ?? []
      const size = total === undefined ? ContentLength : Number(total)
      return {
        from: Number(first ?? 0),
        isPart: total !== undefined,
        body: answer.Body as Readable,
        ...(size !== undefined && { total: size }),
        ...(ETag !== undefined && { version: ETag }),
        ...(ContentType !== undefined && { contentType: ContentType }),
      }
    } catch (cause) {
      // An empty object has no first byte.
      if (statusOf(cause) === 416 && from === 0 && !isAll)
        return this.#open({ bucket, key }, { from: 0 }, signal)
      throw cause
    }
  }

  #trouble(cause: unknown, deed: Deed, leftover?: string): S3Error {
    const trouble = storeTrouble(cause, { settings: this.#settings, bucket: this.name, deed })
    if (leftover === undefined) return trouble
    const hint = ` Its parts could not be removed: abort the multipart upload ${leftover} there.`
    return new S3Error(trouble.code, trouble.message + hint, { cause: trouble.cause })
  }
}
