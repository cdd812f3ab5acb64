// context.s3 in real handler processes, on the real gateway.

import {
  CreateBucketCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  S3Client,
} from '@aws-sdk/client-s3'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { inspect } from 'node:util'
import { describe, expect, inject, it, onTestFinished } from 'vitest'
import type { S3Config } from '../../src/job/job.ts'
import { handlerEnv } from '../../src/worker/config.ts'
import { temporaryDir } from '../support/processes.ts'
import { startExecutor } from '../support/test-executor.ts'

const gateway = inject('radosgw')
const UPLOAD_BYTES = 40_000_000

describe.skipIf(!gateway)('context.s3', () => {
  it('is undefined without an s3Config, also where the worker has a bucket', async () => {
    const { s3Config } = await aBucket()
    const executor = await startExecutor('moves-files.ts', {
      env: { ...process.env, ...variablesOf(s3Config) },
    })
    expect(await executor.outputOf({ deed: 'tell' })).toEqual({ hasS3: false })
    expect(await executor.outputOf({ deed: 'tell' }, { s3Config })).toEqual({ hasS3: true })
  })

  it('puts files below objectPath and the id of the job, and gives a URL that opens them', async () => {
    const { s3Config } = await aBucket()
    const executor = await startExecutor('moves-files.ts')
    const uploaded = await executor.outputOf(
      { deed: 'upload' },
      { id: 'job-7', s3Config: { ...s3Config, objectPath: '/out/' } },
    )
    expect(uploaded).toMatchObject({ key: 'out/job-7/a.txt', bytes: 5 })
    const answer = await fetch((uploaded as { url: string }).url)
    expect([answer.headers.get('content-type'), await answer.text()]).toEqual(['text/plain', 'hello'])
  })

  it('is that of each job, with several in one process', async () => {
    const [one, other] = [await aBucket(), await aBucket()]
    const executor = await startExecutor('moves-files.ts')
    const upload = (id: string, { s3Config }: Bucket): Promise<unknown> =>
      executor.outputOf({ deed: 'upload' }, { id, s3Config })
    await Promise.all([upload('a', one), upload('b', other)])
    expect([await one.keys(), await other.keys()]).toEqual([['a/a.txt'], ['b/a.txt']])
  })

  it("downloads into the job's folder, which is removed after it", async () => {
    const { s3Config } = await aBucket()
    const executor = await startExecutor('moves-files.ts')
    await executor.outputOf({ deed: 'upload' }, { s3Config })
    const { path, bytes } = (await executor.outputOf(
      { deed: 'download', key: 'job-1/a.txt' },
      { s3Config },
    )) as {
      path: string
      bytes: number
    }
    expect(bytes).toBe(5)
    await expect.poll(() => existsSync(path)).toBe(false)
  })

  it("tells of each transfer in the job's progress, its end too", async () => {
    const { s3Config } = await aBucket()
    const executor = await startExecutor('moves-files.ts')
    const { progress, outcome } = executor.run({ deed: 'large upload' }, { s3Config })
    await outcome
    const s3 = { direction: 'upload', name: 'job-1/large.bin', bytes: UPLOAD_BYTES, totalBytes: UPLOAD_BYTES }
    expect(progress.at(-1)).toEqual({ s3 })
  })

  it.each(['timeout', 'cancelled', 'shutdown'] as const)(
    'leaves neither parts nor an object when the job is stopped: %s',
    async (reason) => {
      const bucket = await aBucket()
      const executor = await startExecutor('moves-files.ts')
      const upload = executor.run({ deed: 'upload without end' }, { s3Config: bucket.s3Config })
      await expect.poll(() => bucket.uploads(), { timeout: 10_000 }).toHaveLength(1)
      upload.abort(reason)
      expect(['stopped', 'timedOut']).toContain((await upload.outcome).kind)
      expect(await bucket.uploads()).toEqual([])
      expect(await bucket.keys()).toEqual([])
    },
  )

  it.each([
    'upload beside a failure',
    'upload that nobody waits for',
    'upload that is wrapped and not waited for',
  ])('stops what is under way when the job ends by itself, and takes no more: %s', async (deed) => {
    const bucket = await aBucket()
    const executor = await startExecutor('moves-files.ts')
    const { kind } = await executor.run({ deed }, { s3Config: bucket.s3Config }).outcome
    expect(kind).toBe(deed.includes('failure') ? 'failed' : 'completed')
    expect([await bucket.uploads(), await bucket.keys()]).toEqual([[], []])
    // Its process is none the worse for it.
    expect(executor.died.all).toEqual([])
    await executor.outputOf({ deed: 'upload' }, { s3Config: bucket.s3Config })
  })

  it('takes nothing more once the job has ended, be it from helpers made then', async () => {
    const bucket = await aBucket()
    const executor = await startExecutor('moves-files.ts', {
      env: { ...process.env, ...variablesOf(bucket.s3Config) },
    })
    await executor.outputOf({ deed: 'upload after the end' }, { s3Config: bucket.s3Config })
    await expect
      .poll(() => executor.lines.all.map(({ line }) => line))
      .toEqual(['it was refused: AbortError', 'it was refused: AbortError'])
    expect(await bucket.keys()).toEqual([])
  })

  it('does not keep an upload that fails unheard to itself', async () => {
    const bucket = await aBucket()
    const executor = await startExecutor('moves-files.ts')
    const error = await executor.errorOf({ deed: 'upload that fails unheard' }, { s3Config: bucket.s3Config })
    expect(error).toMatchObject({ code: 'UNCAUGHT', message: expect.stringContaining('/is/not/there') })
  })

  it('has outputs spilled beside what the handler uploads by the same name', async () => {
    const bucket = await aBucket()
    const executor = await startExecutor('spills-beside-its-own.ts')
    const output = await executor.outputOf({}, { s3Config: bucket.s3Config })
    expect(output).toMatchObject({ key: 'job-1/output-2.json' })
    expect(await bucket.keys()).toEqual(['job-1/output-2.json', 'job-1/output.json'])
  })

  it('ends with helpers that were made for its context', async () => {
    const bucket = await aBucket()
    const executor = await startExecutor('moves-files.ts', {
      env: { ...process.env, ...variablesOf(bucket.s3Config) },
    })
    await executor.outputOf({ deed: 'upload that nobody waits for', own: true })
    expect([await bucket.uploads(), await bucket.keys()]).toEqual([[], []])
  })

  it('fails the job with the code of what went wrong, and no secret', async () => {
    const { s3Config } = await aBucket()
    const executor = await startExecutor('moves-files.ts')
    const missing = await executor.errorOf({ deed: 'download', key: 'missing' }, { s3Config })
    expect(missing).toMatchObject({ type: 'S3Error', code: 'S3_OBJECT_NOT_FOUND' })
    const wrong = await executor.errorOf(
      { deed: 'upload' },
      { s3Config: { ...s3Config, accessSecret: 'a wrong secret' } },
    )
    expect(wrong.code).toBe('S3_SIGNATURE_REFUSED')
    for (const secret of [s3Config.accessId, s3Config.accessSecret, 'a wrong secret'])
      expect(inspect([missing, wrong])).not.toContain(secret)
  })

  it('can be had from the BUCKET_ variables by s3From, which are masked in what is printed', async () => {
    const bucket = await aBucket()
    const executor = await startExecutor('moves-files.ts', {
      env: { ...process.env, ...variablesOf(bucket.s3Config) },
    })
    await executor.outputOf({ deed: 'large upload', own: true })
    expect(await bucket.keys()).toEqual(['large.bin'])
    await executor.outputOf({ deed: 'print', own: true })
    expect(await executor.lines.first(({ line }) => line.includes('BUCKET_SECRET'))).toMatchObject({
      line: 'BUCKET_SECRET_ACCESS_KEY is [masked]',
    })
  })

  it('is no folder in a worker: without any bucket the job fails', async () => {
    const executor = await startExecutor('moves-files.ts', {
      env: handlerEnv({ ...process.env, LONGSHORE_LOCAL_BUCKET: temporaryDir() }),
    })
    expect(await executor.errorOf({ deed: 'upload', own: true })).toMatchObject({ code: 'S3_NOT_CONFIGURED' })
  })
})

interface Bucket {
  s3Config: S3Config
  keys(): Promise<(string | undefined)[]>
  /** Uploads that have begun and not ended. */
  uploads(): Promise<(string | undefined)[]>
}

async function aBucket(): Promise<Bucket> {
  const { endpoint, accessId, accessSecret } = gateway!
  const Bucket = randomUUID()
  const client = new S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId: accessId, secretAccessKey: accessSecret },
  })
  onTestFinished(() => client.destroy())
  await client.send(new CreateBucketCommand({ Bucket }))
  return {
    s3Config: { endpointUrl: endpoint, accessId, accessSecret, bucketName: Bucket },
    keys: async () =>
      ((await client.send(new ListObjectsV2Command({ Bucket }))).Contents ?? []).map(({ Key }) => Key),
    uploads: async () =>
      ((await client.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads ?? []).map(({ Key }) => Key),
  }
}

function variablesOf({ endpointUrl, accessId, accessSecret, bucketName }: S3Config): Record<string, string> {
  return {
    BUCKET_ENDPOINT_URL: endpointUrl,
    BUCKET_ACCESS_KEY_ID: accessId,
    BUCKET_SECRET_ACCESS_KEY: accessSecret,
    BUCKET_NAME: bucketName,
  }
}
