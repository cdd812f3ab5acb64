import { describe, expect, it } from 'vitest'
import {
  endpointIdSchema,
  jobErrorSchema,
  jobIdSchema,
  jobStatusSchema,
  policySchema,
  s3ConfigSchema,
  submissionSchema,
} from '../../src/job/job.ts'
import { RawJson } from '../../src/lib/raw-json.ts'

const input = RawJson.from({ prompt: 'hello' })
const DAY_MS = 86_400_000

const s3Config = {
  accessId: 'id',
  accessSecret: 'secret',
  bucketName: 'bucket',
  endpointUrl: 'https://s3.example.com',
}

describe('policySchema', () => {
  it('has the defaults of the interface', () => {
    expect(policySchema.parse({})).toEqual({ lowPriority: false, ttl: DAY_MS })
  })

  it('leaves the execution timeout open, so that the default of the endpoint counts', () => {
    expect(policySchema.parse({})).not.toHaveProperty('executionTimeout')
    expect(policySchema.parse({ executionTimeout: 6000 }).executionTimeout).toBe(6000)
  })

  it.each([
    ['ttl', 10_000, 7 * DAY_MS],
    ['executionTimeout', 5_000, 7 * DAY_MS],
  ])('takes %s from its lower to its upper bound, and nothing outside', (name, min, max) => {
    const taken = [min - 1, min, max, max + 1].map(
      (value) => policySchema.safeParse({ [name]: value }).success,
    )
    expect(taken).toEqual([false, true, true, false])
  })

  it.each([
    ['ttl', 10_000, 7 * DAY_MS],
    ['executionTimeout', 5_000, 7 * DAY_MS],
  ])('names both bounds of %s, whatever is wrong with it', (name, min, max) => {
    for (const value of [min - 1, max + 1, min + 0.5, '20000', null, true, [], Number.NaN]) {
      const messages = policySchema.safeParse({ [name]: value }).error?.issues.map(({ message }) => message)
      expect(messages).toEqual([`must be a whole number from ${min} to ${max} ms`])
    }
  })

  it.each(['true', 1, 0, null])('takes nothing but a boolean for lowPriority: %j', (value) => {
    expect(policySchema.safeParse({ lowPriority: value }).success).toBe(false)
  })

  it('refuses unknown keys, since a misspelt limit must not go unnoticed', () => {
    const issues = policySchema.safeParse({ executionTimeOut: 6000 }).error?.issues
    expect(issues).toMatchObject([{ code: 'unrecognized_keys', keys: ['executionTimeOut'] }])
  })

  it.each([null, [], 'fast', 7])('refuses a policy that is no object: %j', (value) => {
    expect(policySchema.safeParse(value).success).toBe(false)
  })
})

describe('s3ConfigSchema', () => {
  it('takes what the interface names, and the region and the path', () => {
    expect(s3ConfigSchema.parse(s3Config)).toEqual(s3Config)
    const whole = { ...s3Config, region: 'eu-west-1', objectPath: 'a/b/' }
    expect(s3ConfigSchema.parse(whole)).toEqual(whole)
  })

  it('drops unknown keys', () => {
    expect(s3ConfigSchema.parse({ ...s3Config, sessionToken: 'x' })).toEqual(s3Config)
  })

  it.each(['accessId', 'accessSecret', 'bucketName', 'endpointUrl'])('needs %s', (name) => {
    const without = Object.fromEntries(Object.entries(s3Config).filter(([key]) => key !== name))
    for (const value of [without, { ...s3Config, [name]: '' }, { ...s3Config, [name]: 7 }]) {
      expect(s3ConfigSchema.safeParse(value).error?.issues[0]?.path).toEqual([name])
    }
  })

  it.each([
    's3.example.com',
    'ftp://s3.example.com',
    'file:///etc/passwd',
    'https://',
    'javascript:alert(1)',
  ])('refuses an endpoint that is no http or https URL: %s', (endpointUrl) => {
    expect(s3ConfigSchema.safeParse({ ...s3Config, endpointUrl }).success).toBe(false)
  })

  it('bounds every text', () => {
    for (const name of ['accessId', 'accessSecret', 'bucketName', 'region', 'objectPath']) {
      expect(s3ConfigSchema.safeParse({ ...s3Config, [name]: 'x'.repeat(2048) }).success).toBe(true)
      expect(s3ConfigSchema.safeParse({ ...s3Config, [name]: 'x'.repeat(2049) }).success).toBe(false)
    }
    const endpointUrl = `https://s3.example.com/${'x'.repeat(2048)}`
    expect(s3ConfigSchema.safeParse({ ...s3Config, endpointUrl }).success).toBe(false)
  })
})

describe('submissionSchema', () => {
  it('needs no more than an input', () => {
    expect(submissionSchema.parse({ input })).toEqual({ input, policy: { lowPriority: false, ttl: DAY_MS } })
  })

  it('keeps the input as the very bytes that came', () => {
    expect(submissionSchema.parse({ input }).input).toBe(input)
  })

  it('drops unknown keys', () => {
    const parsed = submissionSchema.parse({ input, tag: 'x', id: 'mine' })
    expect(Object.keys(parsed).toSorted()).toEqual(['input', 'policy'])
  })

  it('says that the input is required when there is none', () => {
    expect(submissionSchema.safeParse({}).error?.issues).toMatchObject([
      { path: ['input'], message: 'is required' },
    ])
  })

  it.each(['[1]', '"text"', '7', 'null', 'true'])('refuses an input that is no object: %s', (text) => {
    const result = submissionSchema.safeParse({ input: new RawJson(Buffer.from(text)) })
    expect(result.error?.issues).toMatchObject([{ path: ['input'], message: 'must be an object' }])
  })

  it('takes an empty input', () => {
    expect(submissionSchema.safeParse({ input: RawJson.from({}) }).success).toBe(true)
  })

  it.each(['http://example.com/done', 'https://user:key@example.com:8443/a?b=c'])(
    'takes the webhook %s',
    (webhook) => {
      expect(submissionSchema.parse({ input, webhook }).webhook).toBe(webhook)
    },
  )

  it.each([
    'example.com',
    'ftp://example.com',
    '',
    'https://',
    null,
    7,
    `https://example.com/${'x'.repeat(2048)}`,
  ])('refuses the webhook %j', (webhook) => {
    expect(submissionSchema.safeParse({ input, webhook }).error?.issues[0]?.path).toEqual(['webhook'])
  })

  it('checks the policy and the s3Config that it carries', () => {
    const paths = [
      { input, policy: { ttl: 1 } },
      { input, policy: null },
      { input, s3Config: { ...s3Config, bucketName: '' } },
      { input, s3Config: 'x' },
    ].map((value) => submissionSchema.safeParse(value).error?.issues[0]?.path.join('.'))
    expect(paths).toEqual(['policy.ttl', 'policy', 's3Config.bucketName', 's3Config'])
  })

  it.each([null, [], 'x', 7])('refuses a submission that is no object: %j', (value) => {
    expect(submissionSchema.safeParse(value).success).toBe(false)
  })
})

describe('ids', () => {
  it.each(['a', 'A-1_z', 'x'.repeat(128)])('takes the job id %s', (id) => {
    expect(jobIdSchema.safeParse(id).success).toBe(true)
  })

  it.each(['', 'x'.repeat(129), 'a b', 'a/b', '../a', 'a\n', 'ä', 7])('refuses the job id %j', (id) => {
    expect(jobIdSchema.safeParse(id).success).toBe(false)
  })

  it.each(['a', '7', 'my-endpoint_2', 'x'.repeat(64)])('takes the endpoint id %s', (id) => {
    expect(endpointIdSchema.safeParse(id).success).toBe(true)
  })

  it.each(['', '-a', '_a', 'a.b', 'a/b', 'x'.repeat(65), 'a\n'])('refuses the endpoint id %j', (id) => {
    expect(endpointIdSchema.safeParse(id).success).toBe(false)
  })
})

describe('what comes of a job', () => {
  it('has one of six statuses', () => {
    expect([...jobStatusSchema.options].toSorted()).toEqual([
      'CANCELLED',
      'COMPLETED',
      'FAILED',
      'IN_PROGRESS',
      'IN_QUEUE',
      'TIMED_OUT',
    ])
  })

  it('has an error with a type, a message and a code, and a stack when there is one', () => {
    const error = { type: 'TypeError', message: 'x is undefined', code: 'HANDLER_ERROR' }
    expect(jobErrorSchema.parse(error)).toEqual(error)
    expect(jobErrorSchema.parse({ ...error, stack: 'at a' })).toEqual({ ...error, stack: 'at a' })
    for (const name of Object.keys(error)) {
      expect(jobErrorSchema.safeParse({ ...error, [name]: undefined }).success).toBe(false)
    }
  })
})
