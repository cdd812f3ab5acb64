// A bucket of its own for a test, on a real server, and a look into it that goes past the helpers.

import {
  AbortMultipartUploadCommand,
  CreateBucketCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3'
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { S3Config } from '../../src/job/job.ts'
import { s3From } from '../../src/s3/s3-from.ts'
import type { S3Options } from '../../src/s3/s3.ts'
import type { S3Helpers } from '../../src/s3/s3-helpers.ts'
import type { ObjectStore } from './daemons.ts'

export const MIB = 1_048_576
/** What the helpers upload in one piece; anything longer goes in parts. */
export const PART = 8 * MIB
/** And of a download. */
export const DOWNLOAD_PART = 16 * MIB

export interface TestBucket {
  readonly name: string
  readonly config: S3Config
  readonly client: S3Client
  /** Helpers for it, closed when the test ends; through another endpoint when one is given. */
  helpers(options?: S3Options & { config?: Partial<S3Config> }): S3Helpers
  put(key: string, body: Uint8Array | string, contentType?: string): Promise<void>
  get(key: string): Promise<{ bytes: Buffer; contentType: string | undefined; metadata: object } | undefined>
  keys(): Promise<string[]>
  /** Multipart uploads that were begun and neither completed nor aborted. */
  unfinished(): Promise<string[]>
  abortUnfinished(): Promise<void>
}

/** For `beforeAll` or a test; the servers are thrown away with all that is in them. */
export async function makeBucket(store: ObjectStore): Promise<TestBucket> {
  const { endpoint, accessId, accessSecret } = store
  const name = randomUUID()
  const client = new S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId: accessId, secretAccessKey: accessSecret },
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  })
  await client.send(new CreateBucketCommand({ Bucket: name }))
  const config = { accessId, accessSecret, bucketName: name, endpointUrl: endpoint }
  return {
    name,
    config,
    client,
    helpers({ config: other, ...options } = {}) {
      const s3 = s3From({ ...config, ...other }, { folder: temporaryFolder(), ...options })
      onTestFinished(() => s3.close())
      return s3
    },
    async put(key, body, contentType) {
      await client.send(
        new PutObjectCommand({ Bucket: name, Key: key, Body: body, ContentType: contentType }),
      )
    },
    async get(key) {
      try {
        const answer = await client.send(new GetObjectCommand({ Bucket: name, Key: key }))
        const bytes = Buffer.from((await answer.Body?.transformToByteArray()) ?? [])
        return { bytes, contentType: answer.ContentType, metadata: answer.Metadata ?? {} }
      } catch (cause) {
        if ((cause as Error).name === 'NoSuchKey') return undefined
        throw cause
      }
    },
    async keys() {
      const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: name }))
      return Contents.map(({ Key }) => Key ?? '')
    },
    async unfinished() {
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket: name }))
      return Uploads.map(({ Key }) => Key ?? '')
    },
    async abortUnfinished() {
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket: name }))
      for (const { Key, UploadId } of Uploads)
        await client.send(new AbortMultipartUploadCommand({ Bucket: name, Key, UploadId }))
    },
  }
}

/** Removed when the test ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'longshore-s3-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Bytes no two stretches of which are alike, so that what is missing or moved shows. */
export function noise(bytes: number): Buffer {
  return randomBytes(bytes)
}
