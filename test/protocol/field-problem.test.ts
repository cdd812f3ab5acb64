import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { z } from 'zod'
import { endpointIdSchema, policySchema, submissionSchema } from '../../src/job/job.ts'
import { RawJson } from '../../src/lib/raw-json.ts'
import {
  jobParamsSchema,
  runsyncQuerySchema,
  statusQuerySchema,
  streamQuerySchema,
} from '../../src/protocol/endpoint-api.ts'
import { podLogsQuerySchema, podsQuerySchema, templatesQuerySchema } from '../../src/protocol/resource-api.ts'
import { newPodSchema } from '../../src/resource/pod.ts'
import { newTemplateSchema } from '../../src/resource/template.ts'
import { batchQuerySchema } from '../../src/protocol/worker-api.ts'
import { fieldProblem } from '../../src/protocol/field-problem.ts'

const input = RawJson.from({})
const s3Config = {
  accessId: 'id',
  accessSecret: 'secret',
  bucketName: 'bucket',
  endpointUrl: 'https://s3.example.com',
}

/** The words for a document that a schema refuses, as the answer has them. */
function wordsFor(schema: z.ZodType, document: unknown, place = 'the body'): string {
  const result = schema.safeParse(document)
  if (result.success) throw new Error('The document was taken.')
  const { field, problem } = fieldProblem(result.error.issues, document, place)
  return `${field} ${problem}`
}

describe('fieldProblem', () => {
  const ttlBounds = 'policy.ttl must be a whole number from 10000 to 604800000 ms'

  it.each([
    [{ input, policy: { ttl: 500 } }, `${ttlBounds}, got 500`],
    [{ input, policy: { ttl: 10_000.5 } }, `${ttlBounds}, got 10000.5`],
    [{ input, policy: { ttl: 'soon' } }, `${ttlBounds}, got 'soon'`],
    [{ input, policy: { ttl: 'x'.repeat(65) } }, `${ttlBounds}, got 65 characters`],
    [{ input, policy: { ttl: null } }, `${ttlBounds}, got null`],
    [{ input, policy: { ttl: [1] } }, `${ttlBounds}, got an array`],
    [{ input, policy: { ttl: {} } }, `${ttlBounds}, got an object`],
    [{ input, policy: { ttl: true } }, `${ttlBounds}, got true`],
    [{ input, policy: { lowPriority: 'yes' } }, "policy.lowPriority must be a boolean, got 'yes'"],
    [{ input, policy: 7 }, 'policy must be an object, got 7'],
    [{ input, policy: { executionTimeOut: 1 } }, "policy has the unknown key 'executionTimeOut'"],
    [{}, 'input is required'],
    [{ input: new RawJson(Buffer.from('7')) }, 'input must be an object'],
    [{ input, webhook: 'nowhere' }, 'webhook must be an http or https URL'],
    [{ input, webhook: 7 }, 'webhook must be a string'],
    [
      { input, webhook: `https://example.com/${'x'.repeat(2048)}` },
      'webhook must be at most 2048 characters long',
    ],
    [
      { input, s3Config: { ...s3Config, accessId: '' } },
      's3Config.accessId must be at least 1 character long',
    ],
    [
      { input, s3Config: { ...s3Config, endpointUrl: 'x' } },
      's3Config.endpointUrl must be an http or https URL',
    ],
    [{ input, s3Config: { bucketName: 'b' } }, 's3Config.accessId must be a string'],
    [[], 'the body must be an object'],
    ['secret', 'the body must be an object'],
  ])('names the field of a submission and what it must be: %#', (document, words) => {
    expect(wordsFor(submissionSchema, document)).toBe(words)
  })

  it('names the fields of queries', () => {
    const bounds = 'must be a whole number from 1000 to 300000'
    expect(wordsFor(runsyncQuerySchema, { wait: '999' })).toBe(`wait ${bounds}, got '999'`)
    expect(wordsFor(runsyncQuerySchema, { wait: '1e4' })).toBe(`wait ${bounds}, got '1e4'`)
    expect(wordsFor(runsyncQuerySchema, { wait: '' })).toBe(`wait ${bounds}, got ''`)
    expect(wordsFor(runsyncQuerySchema, { wait: ['1000', '2000'] })).toBe(`wait ${bounds}, got an array`)
    expect(wordsFor(statusQuerySchema, { ttl: '0' })).toBe(
      "ttl must be a whole number from 10000 to 604800000, got '0'",
    )
    expect(wordsFor(streamQuerySchema, { after: '-1' })).toContain('after must be a whole number from 0 to ')
    expect(wordsFor(streamQuerySchema, { wait: '300001' })).toBe(
      "wait must be a whole number from 0 to 300000, got '300001'",
    )
  })

  it('names the ids of a path', () => {
    expect(wordsFor(jobParamsSchema, { endpointId: 'a', id: 'b c' })).toBe(
      "id has characters or a form that are not allowed, got 'b c'",
    )
    expect(wordsFor(jobParamsSchema, { endpointId: '-a', id: 'b' })).toBe(
      'endpointId must be letters, digits, "-" and "_", starting with a letter or digit, got \'-a\'',
    )
    expect(wordsFor(jobParamsSchema, { endpointId: 'a'.repeat(65), id: 'b' })).toBe(
      'endpointId must be at most 64 characters long, got 65 characters',
    )
  })

  it('says what a field must be one of, and that it is required', () => {
    const base = { name: 'x', imageName: 'x' }
    expect(wordsFor(newTemplateSchema, { ...base, category: 'GPU' })).toBe(
      "category must be one of NVIDIA, AMD, CPU, got 'GPU'",
    )
    expect(wordsFor(newTemplateSchema, { name: 'x' })).toBe('imageName is required')
    expect(wordsFor(podsQuerySchema, { desiredStatus: 'X' })).toContain('RUNNING, EXITED, TERMINATED')
  })

  it.each([templatesQuerySchema, podLogsQuerySchema, podsQuerySchema])(
    'names a query that there is not',
    (schema) => {
      expect(wordsFor(schema, { bogus: '1' }, 'the query')).toBe("the query has the unknown key 'bogus'")
    },
  )

  // Seen: bounds without words of their own were told in the schema library's ("Too small: expected number …").
  it('tells a bound of a number in words of ours', () => {
    expect(wordsFor(batchQuerySchema, { batch_size: '0' })).toMatch(/^batch_size must be .*1.*, got '0'$/)
    expect(wordsFor(batchQuerySchema, { batch_size: '1001' })).toMatch(
      /^batch_size must be .*1000.*, got '1001'$/,
    )
  })

  it('tells bounds of fields that have no words of their own, and what a name must be, in words of ours', () => {
    expect(wordsFor(newPodSchema, { vcpuCount: 0 })).toBe('vcpuCount must be at least 0.01, got 0')
    expect(wordsFor(newPodSchema, { memoryInGb: 1e9 })).toBe(
      'memoryInGb must be at most 65536, got 1000000000',
    )
    const ports = Array.from({ length: 33 }, (_, index) => `${index + 1}/tcp`)
    expect(wordsFor(newPodSchema, { ports })).toBe('ports must have at most 32 entries, got an array')
    expect(wordsFor(newPodSchema, { env: { '1A': 'secret' } })).toBe(
      'env.1A must be the name of a variable: letters, digits and "_", with no digit first',
    )
  })

  it('says that nothing came where a field of its own is missing', () => {
    expect(wordsFor(jobParamsSchema, { endpointId: 'a' })).toBe('id must be a string, got nothing')
  })

  it('names the place when the document itself does not fit', () => {
    expect(wordsFor(endpointIdSchema, 'a b', 'endpointId')).toMatch(/^endpointId must be letters/)
    expect(wordsFor(policySchema, null, 'policy')).toBe('policy must be an object')
    expect(fieldProblem([], {}, 'the body')).toEqual({ field: 'the body', problem: 'does not fit' })
  })

  it('never quotes what an input, an s3Config or a webhook holds, whatever is wrong', () => {
    const secret = fc.oneof(
      fc.constant('s3cr3t'),
      fc.constant(['s3cr3t']),
      fc.constant({ s3cr3t: 's3cr3t' }),
      fc.constant('https:s3cr3t'),
      fc.constant('s3cr3t'.repeat(500)),
      fc.constant(5_3_7_3_1),
      fc.constant(null),
    )
    const document = fc.record(
      {
        input: fc.oneof(secret, fc.constant(input), fc.constant(RawJson.from('s3cr3t'))),
        webhook: fc.oneof(secret, fc.constant('ftp://s3cr3t.example.com')),
        s3Config: fc.oneof(
          secret,
          fc.record(
            {
              accessId: secret,
              accessSecret: secret,
              bucketName: secret,
              endpointUrl: secret,
              region: secret,
              objectPath: secret,
            },
            { requiredKeys: [] },
          ),
        ),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(fc.oneof(document, secret), (value) => {
        const result = submissionSchema.safeParse(value)
        for (const issue of result.error?.issues ?? []) {
          const { field, problem } = fieldProblem([issue], value, 'the body')
          expect(`${field} ${problem}`).not.toMatch(/s3cr3t|53731|got/)
          expect(`${field} ${problem}`).not.toMatch(/undefined|please|\binvalid\b/i)
        }
      }),
      { numRuns: 500 },
    )
  })
})
