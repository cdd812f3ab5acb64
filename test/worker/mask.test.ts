import { describe, expect, it } from 'vitest'
import { Masker } from '../../src/worker/mask.ts'
import type { S3Config } from '../../src/job/job.ts'
import { maskedError } from '../../src/worker/thrown.ts'

function knowing(accessSecret: string, accessId = 'id-of-it'): Masker {
  const masker = new Masker()
  masker.learn(0, s3Config(accessSecret, accessId))
  return masker
}

function s3Config(accessSecret: string, accessId: string, endpointUrl = 'http://h'): S3Config {
  return { accessId, accessSecret, bucketName: 'the-bucket', endpointUrl }
}

describe('a masker', () => {
  it('replaces the secrets that it knows, wherever they stand, and nothing else', () => {
    expect(knowing('hush-hush').mask('a hush-hush b id-of-it hush')).toBe('a [masked] b [masked] hush')
    expect(new Masker().mask('hush-hush')).toBe('hush-hush')
  })

  it('knows them within JSON too, where some characters are escaped', () => {
    const secret = 'a"b\\c\nd'
    const masked = knowing(secret).mask(JSON.stringify({ note: `it is ${secret}` }))
    expect(JSON.parse(masked)).toEqual({ note: 'it is [masked]' })
  })

  it('takes nothing so short that it would stand in ordinary words', () => {
    expect(knowing('abc', 'id').mask('abc id')).toBe('abc id')
  })

  // Seen: a job of an hour printed its secret in full once sixty-four others had been through its process.
  it('knows those of a job for as long as it runs, and of those that have ended the latest', () => {
    const masker = knowing('the-long-one')
    for (let run = 1; run <= 200; run += 1) {
      masker.learn(run, s3Config(`secret-${run}-x`, `id-${run}-x`))
      masker.forget(run)
    }
    expect(masker.mask('the-long-one secret-1-x secret-200-x secret-150-x')).toBe(
      '[masked] secret-1-x [masked] [masked]',
    )
    masker.forget(0)
    expect(masker.mask('the-long-one')).toBe('[masked]')
  })

  it('keeps those of late though many jobs with the same ones end after it', () => {
    const masker = knowing('of-one')
    masker.forget(0)
    for (let run = 1; run <= 200; run += 1) {
      masker.learn(run, s3Config('of-all-others', 'id-of-all'))
      masker.forget(run)
    }
    expect(masker.mask('of-one of-all-others')).toBe('[masked] [masked]')
  })

  it('knows one that is part of another', () => {
    expect(knowing('long-secret', 'long').mask('long-secret')).toBe('[masked]')
  })

  it('takes the address and the bucket for what they are, but not a password in the address', () => {
    const masker = new Masker()
    masker.learn(1, s3Config('hush-hush', 'id-id', 'https://me:pass%2Fword@store.example/path'))
    expect(masker.mask('the-bucket at store.example, pass%2Fword pass/word')).toBe(
      'the-bucket at store.example, [masked] [masked]',
    )
  })

  it('masks an error in all its texts', () => {
    const error = { type: 'Nhush-hush', message: 'hush-hush', stack: 'at hush-hush', code: 'HANDLER_ERROR' }
    expect(JSON.stringify(maskedError(error, knowing('hush-hush').mask))).not.toContain('hush')
  })
})
