import { describe, expect, it } from 'vitest'
import type { S3Config } from '../../src/job/job.ts'
import { parseBucketConfig } from '../../src/s3/bucket-config.ts'
import { bucketSettings, type BucketSettings } from '../../src/s3/bucket-settings.ts'
import { readS3Environment } from '../../src/s3/config.ts'
import { isAmazon, readHost } from '../../src/s3/region.ts'

const read = (config: Partial<S3Config>): BucketSettings => bucketSettings(parseBucketConfig(config))

const base = { accessId: 'id', accessSecret: 'secret' }

describe('the region of a well-known host', () => {
  const hosts: [host: string, region: string, bucket?: string][] = [
    ['s3.amazonaws.com', 'us-east-1'],
    ['b.s3.amazonaws.com', 'us-east-1', 'b'],
    ['s3.eu-west-3.amazonaws.com', 'eu-west-3'],
    ['s3-eu-west-1.amazonaws.com', 'eu-west-1'],
    ['my.dotted.b.s3.us-gov-west-1.amazonaws.com', 'us-gov-west-1', 'my.dotted.b'],
    ['b.s3.dualstack.ap-southeast-2.amazonaws.com', 'ap-southeast-2', 'b'],
    ['s3.cn-north-1.amazonaws.com.cn', 'cn-north-1'],
    ['nyc3.digitaloceanspaces.com', 'nyc3'],
    ['b.NYC3.digitaloceanspaces.com', 'nyc3', 'b'],
    ['s3.us-west-004.backblazeb2.com', 'us-west-004'],
    ['s3.wasabisys.com', 'us-east-1'],
    ['s3.eu-central-1.wasabisys.com', 'eu-central-1'],
    ['account.r2.cloudflarestorage.com', 'auto'],
    ['account.eu.r2.cloudflarestorage.com', 'auto'],
    ['s3.fr-par.scw.cloud', 'fr-par'],
    ['b.s3.gra.io.cloud.ovh.net', 'gra', 'b'],
    ['us-east-1.linodeobjects.com', 'us-east-1'],
    ['ewr1.vultrobjects.com', 'ewr1'],
    ['fsn1.your-objectstorage.com', 'fsn1'],
    ['s3.eu-central-3.ionoscloud.com', 'eu-central-3'],
    ['sos-de-fra-1.exo.io', 'de-fra-1'],
    ['cos.ap-guangzhou.myqcloud.com', 'ap-guangzhou'],
    ['s3.eu-de.cloud-object-storage.appdomain.cloud', 'eu-de'],
    ['space.compat.objectstorage.us-ashburn-1.oraclecloud.com', 'us-ashburn-1'],
    ['fly.storage.tigris.dev', 'auto'],
    ['b.t3.storage.dev', 'auto', 'b'],
    ['s3api-eu-ro-1.runpod.io', 'EU-RO-1'],
  ]
  for (const [host, region, bucket] of hosts) {
    it(`of ${host} is ${region}`, () => {
      expect(readHost(host)).toEqual({ region, ...(bucket !== undefined && { bucket }) })
    })
  }

  for (const host of [
    'minio.local',
    '127.0.0.1',
    's3.example.com',
    's3.amazonaws.com.evil.example',
    'evils3.amazonaws.com',
    'amazonaws.com',
    '',
  ]) {
    it(`is not told by '${host}'`, () => {
      expect(readHost(host)).toBeUndefined()
      expect(isAmazon(host)).toBe(false)
    })
  }
})

describe('the settings of a bucket', () => {
  const rows: [endpointUrl: string, bucketName: string | undefined, expected: object][] = [
    ['http://127.0.0.1:9000', 'b', { bucket: 'b', region: 'us-east-1', endpoint: 'http://127.0.0.1:9000' }],
    ['https://store.example/b', undefined, { bucket: 'b', endpoint: 'https://store.example' }],
    ['https://store.example/b/', 'b', { bucket: 'b', endpoint: 'https://store.example' }],
    [
      'https://x.supabase.co/storage/v1/s3',
      'b',
      { bucket: 'b', endpoint: 'https://x.supabase.co/storage/v1/s3' },
    ],
    [
      'https://x.supabase.co/storage/v1/s3/b',
      'b',
      { bucket: 'b', endpoint: 'https://x.supabase.co/storage/v1/s3' },
    ],
    [
      'https://b.nyc3.digitaloceanspaces.com',
      undefined,
      { bucket: 'b', region: 'nyc3', endpoint: 'https://nyc3.digitaloceanspaces.com' },
    ],
    [
      'https://b.nyc3.digitaloceanspaces.com',
      'b',
      { bucket: 'b', endpoint: 'https://nyc3.digitaloceanspaces.com' },
    ],
    ['https://b.s3.eu-west-3.amazonaws.com', undefined, { bucket: 'b', region: 'eu-west-3' }],
    ['https://s3.eu-west-3.amazonaws.com/b', undefined, { bucket: 'b', region: 'eu-west-3' }],
    ['https://user:pass@store.example/?q=1#f', 'b', { bucket: 'b', endpoint: 'https://store.example' }],
    ['https://store.example/%E4%B8%96', undefined, { bucket: '世', endpoint: 'https://store.example' }],
    ['https://store.example/%', 'b', { bucket: 'b' }],
  ]
  for (const [endpointUrl, bucketName, expected] of rows) {
    it(`from ${endpointUrl}${bucketName === undefined ? '' : ` and the name ${bucketName}`}`, () => {
      const config = { ...base, endpointUrl, ...(bucketName !== undefined && { bucketName }) }
      expect(read(config)).toMatchObject(expected)
    })
  }

  it('take the region that is given over that of the host', () => {
    const endpointUrl = 'https://s3.eu-west-3.amazonaws.com'
    expect(read({ ...base, endpointUrl, bucketName: 'b', region: 'us-west-2' }).region).toBe('us-west-2')
  })

  const refused: [why: string, config: object, names: string][] = [
    [
      'no key',
      { accessSecret: 'of-worth', bucketName: 'b', endpointUrl: 'https://e.example' },
      'accessId is missing',
    ],
    [
      'no secret',
      { accessId: 'id', bucketName: 'b', endpointUrl: 'https://e.example' },
      'accessSecret is missing',
    ],
    ['no bucket', { ...base, endpointUrl: 'https://e.example' }, 'bucketName is missing'],
    ['no address', { ...base, bucketName: 'b' }, 'endpointUrl is missing'],
    ['an address that is none', { ...base, bucketName: 'b', endpointUrl: 'e.example' }, 'endpointUrl is not'],
    [
      'an address of another kind',
      { ...base, bucketName: 'b', endpointUrl: 'ftp://e.example' },
      'endpointUrl is not',
    ],
    [
      'an empty secret',
      { accessId: 'id', accessSecret: '', bucketName: 'b', endpointUrl: 'https://e.example' },
      'accessSecret',
    ],
    [
      'two buckets',
      { ...base, bucketName: 'mine', endpointUrl: 'https://other.s3.amazonaws.com' },
      "'other'",
    ],
    [
      'two buckets, one in the path',
      { ...base, bucketName: 'mine', endpointUrl: 'https://s3.amazonaws.com/other' },
      "'other'",
    ],
  ]
  for (const [why, config, names] of refused) {
    it(`are refused for ${why}, which is named`, () => {
      expect(() => read(config)).toThrow(
        expect.objectContaining({ code: 'S3_CONFIG_INVALID', message: expect.stringContaining(names) }),
      )
    })
  }

  it('come from the environment, as far as it has them', () => {
    expect(readS3Environment({})).toEqual({ allowPrivate: false })
    expect(readS3Environment({ BUCKET_NAME: '' })).toEqual({ allowPrivate: false })
    expect(
      readS3Environment({
        BUCKET_ENDPOINT_URL: 'https://b.nyc3.digitaloceanspaces.com',
        BUCKET_ACCESS_KEY_ID: 'id',
        BUCKET_SECRET_ACCESS_KEY: 'secret',
        LONGSHORE_ALLOW_PRIVATE_DOWNLOADS: 'true',
      }),
    ).toEqual({
      bucket: {
        endpointUrl: 'https://b.nyc3.digitaloceanspaces.com',
        accessId: 'id',
        accessSecret: 'secret',
      },
      allowPrivate: true,
    })
    expect(readS3Environment({ BUCKET_NAME: 'b', BUCKET_REGION: 'r' }).bucket).toEqual({
      bucketName: 'b',
      region: 'r',
    })
  })
})
