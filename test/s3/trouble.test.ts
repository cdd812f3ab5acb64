import { PutBucketPolicyCommand } from '@aws-sdk/client-s3'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { inspect } from 'node:util'
import { beforeAll, describe, expect, inject, it, onTestFinished, vi } from 'vitest'
import type { S3Config } from '../../src/job/job.ts'
import { parseBucketConfig } from '../../src/s3/bucket-config.ts'
import { bucketSettings, type BucketSettings } from '../../src/s3/bucket-settings.ts'
import { S3Bucket } from '../../src/s3/s3-bucket.ts'
import type { S3Error, S3FailureCode } from '../../src/s3/s3-error.ts'
import { s3From } from '../../src/s3/s3-from.ts'
import { S3Helpers } from '../../src/s3/s3-helpers.ts'
import { makeBucket, noise, PART, temporaryFolder, type TestBucket } from '../support/buckets.ts'

const read = (config: Partial<S3Config>): BucketSettings => bucketSettings(parseBucketConfig(config))

interface Row {
  what: string
  config: (own: S3Config) => Partial<S3Config>
  code: S3FailureCode | { radosgw: S3FailureCode; swift: S3FailureCode }
  /** What the sentence says to look at. */
  check: RegExp
  key?: string
  only?: 'download' | 'swift' | 'radosgw'
}

const SECRET = 'an-other-secret/of+worth=='
const rows: Row[] = [
  {
    what: 'a wrong key',
    config: () => ({ accessId: 'AKIANOBODYKNOWS' }),
    // Swift does not say which of the two is wrong.
    code: { radosgw: 'S3_KEY_UNKNOWN', swift: 'S3_SIGNATURE_REFUSED' },
    check: /Check accessId|accessId where/,
  },
  {
    what: 'a wrong secret',
    config: () => ({ accessSecret: SECRET }),
    code: 'S3_SIGNATURE_REFUSED',
    check: /Check accessSecret/,
  },
  {
    what: 'a bucket that is missing',
    config: () => ({ bucketName: 'is-missing' }),
    code: 'S3_BUCKET_NOT_FOUND',
    check: /'is-missing'.*Check bucketName/,
  },
  {
    what: 'an object that is missing',
    config: () => ({}),
    code: 'S3_OBJECT_NOT_FOUND',
    check: /missing\/one\.txt.*Check the key/,
    key: 'missing/one.txt',
    only: 'download',
  },
  {
    what: 'a bucket in another region',
    config: () => ({ region: 'eu-west-3' }),
    code: 'S3_REGION_WRONG',
    check: /'us-east-1'.*'eu-west-3'.*region/,
    only: 'swift',
  },
  {
    what: 'a port where nothing listens',
    config: () => ({ endpointUrl: 'http://127.0.0.1:9' }),
    code: 'S3_UNREACHABLE',
    check: /127\.0\.0\.1:9 .*Check the host and port/,
    only: 'radosgw',
  },
  {
    what: 'a name that nobody knows',
    config: () => ({ endpointUrl: 'http://nobody.invalid' }),
    code: 'S3_UNREACHABLE',
    check: /nobody\.invalid.*Check/,
    only: 'radosgw',
  },
  {
    what: 'https where http is spoken',
    config: ({ endpointUrl }) => ({ endpointUrl: endpointUrl.replace('http:', 'https:') }),
    code: 'S3_UNREACHABLE',
    check: /http/,
    only: 'radosgw',
  },
  {
    what: 'settings without a bucket',
    config: () => ({ bucketName: '' }),
    code: 'S3_CONFIG_INVALID',
    check: /bucketName/,
  },
]

for (const name of ['radosgw', 'swift'] as const) {
  const store = inject(name)

  describe.skipIf(!store)(`on ${name}`, () => {
    let bucket: TestBucket
    beforeAll(async () => {
      bucket = await makeBucket(store!)
      await bucket.put('there.txt', 'there')
    })

    for (const { what, config, code, check, key = 'there.txt', only } of rows) {
      if (only !== undefined && only !== 'download' && only !== name) continue
      it(`${what} is told by its code and one sentence, without secrets`, async () => {
        const used = { ...bucket.config, ...config(bucket.config) }
        const s3 = bucket.helpers({ config: used })
        const expected = typeof code === 'string' ? code : code[name]
        const deeds: (() => Promise<unknown>)[] = [() => s3.download(key)]
        if (only !== 'download')
          deeds.push(
            () => s3.upload('x', { key }),
            () => s3.upload(noise(PART + 1), { key }),
          )
        for (const error of await Promise.all(deeds.map(failureOf))) {
          expect(error).toMatchObject({ name: 'S3Error', code: expected })
          expect(error.message).toMatch(check)
          expect(error.message).toMatch(/^[^\n]+\.$/)
          expect(error.cause).toBeDefined()
          expectNoSecrets(error, used)
        }
      })
    }

    it('a server that is no store is told as such, in one sentence', async () => {
      const server = createHttpServer((_, response) => void response.end('<html><p>a page</html>'))
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      onTestFinished(() => void server.close())
      const { port } = server.address() as AddressInfo
      const s3 = bucket.helpers({ config: { endpointUrl: `http://127.0.0.1:${port}` } })
      const error = await failureOf(() => s3.upload(noise(PART + 1)))
      expect(error).toMatchObject({ code: 'S3_UNREACHABLE' })
      expect(error.message).toMatch(/^[^\n]+does not answer as a store[^\n]+\.$/)
    })

    it('an object in a bucket of somebody else is told as denied or missing, without secrets', async () => {
      const s3 = bucket.helpers()
      const error = await failureOf(() => s3.download('s3://nobody-has-this/x'))
      expect(['S3_ACCESS_DENIED', 'S3_BUCKET_NOT_FOUND', 'S3_OBJECT_NOT_FOUND']).toContain(error.code)
      expectNoSecrets(error, bucket.config)
    })

    // Swift's interface has no policies.
    if (name === 'radosgw') {
      it('what the key may not do is told as denied, without secrets', async () => {
        const closed = await makeBucket(store!)
        await closed.put('there.txt', 'there')
        const Policy = JSON.stringify({
          Version: '2012-10-17',
          Statement: [
            {
              Effect: 'Deny',
              Principal: '*',
              Action: ['s3:PutObject', 's3:GetObject'],
              Resource: `arn:aws:s3:::${closed.name}/*`,
            },
          ],
        })
        await closed.client.send(new PutBucketPolicyCommand({ Bucket: closed.name, Policy }))
        const s3 = closed.helpers()
        for (const deed of [() => s3.upload('x'), () => s3.download('there.txt')]) {
          const error = await failureOf(deed)
          expect(error).toMatchObject({ code: 'S3_ACCESS_DENIED' })
          expect(error.message).toMatch(/Check the permissions/)
          expectNoSecrets(error, closed.config)
        }
      })
    }

    for (const minutes of [-60, 60]) {
      it(`a clock that is ${minutes} minutes off is told each time`, async () => {
        vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + minutes * 60_000 })
        onTestFinished(() => void vi.useRealTimers())
        const s3 = bucket.helpers()
        for (let time = 1; time <= 2; time += 1)
          for (const deed of [() => s3.download('there.txt'), () => s3.upload('x', { key: 'skewed' })]) {
            const error = await failureOf(deed)
            expect(error).toMatchObject({
              code: 'S3_CLOCK_SKEW',
              message: expect.stringMatching(/Set the clock/),
            })
            expectNoSecrets(error, bucket.config)
          }
      })
    }
  })
}

describe('a store that takes connections and never answers', () => {
  it('is told as unreachable, in a time that is bounded', async () => {
    const server = createServer((socket) => void socket.on('error', () => undefined).resume())
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const { port } = server.address() as { port: number }
    const config = {
      accessId: 'AKIAID',
      accessSecret: SECRET,
      bucketName: 'b',
      endpointUrl: `http://127.0.0.1:${port}`,
    }
    const settings = read(config)
    const s3 = new S3Helpers(() => Promise.resolve(new S3Bucket(settings, { idleMs: 200, tries: 2 })), {
      folder: temporaryFolder(),
    })
    onTestFinished(() => s3.close())
    for (const deed of [() => s3.upload('x', { key: 'k' }), () => s3.upload(noise(PART + 1), { key: 'k' })]) {
      const error = await failureOf(deed)
      expect(error).toMatchObject({ code: 'S3_UNREACHABLE', message: expect.stringMatching(/Check/) })
      expectNoSecrets(error, config)
    }
  })
})

describe('without any bucket', () => {
  it('a call that needs one says how to give one', async () => {
    const s3 = s3From(undefined, { folder: temporaryFolder() })
    expect(await failureOf(() => s3.upload('x'))).toMatchObject({
      code: 'S3_NOT_CONFIGURED',
      message: expect.stringMatching(/BUCKET_ENDPOINT_URL/),
    })
  })

  it('settings that are refused are told without their values', async () => {
    const config = {
      accessId: 'AKIAID',
      accessSecret: SECRET,
      bucketName: 'b',
      endpointUrl: `not an address ${SECRET}`,
    }
    const error = await failureOf(() => s3From(config, { folder: temporaryFolder() }).upload('x'))
    expect(error.code).toBe('S3_CONFIG_INVALID')
    expectNoSecrets(error, config)
  })
})

async function failureOf(deed: () => Promise<unknown>): Promise<S3Error> {
  const outcome = await deed().then(
    (value) => new Error(`It did not fail: ${inspect(value)}`),
    (cause: unknown) => cause as S3Error,
  )
  return outcome as S3Error
}

/** Not in any place that an inspector or a logger may look at. */
function expectNoSecrets(error: unknown, { accessId, accessSecret }: Partial<S3Config>): void {
  const shown = inspect(error, { depth: 10, showHidden: true, maxStringLength: null, maxArrayLength: null })
  for (const secret of [accessId ?? '', accessSecret ?? '', encodeURIComponent(accessId ?? '')])
    expect(shown.includes(secret), `${secret} in ${shown}`).toBe(false)
  expect(shown).not.toMatch(/Signature=|Credential=|AWS4-HMAC-SHA256/)
}
