import { describe, expect, it } from 'vitest'
import { Masker } from '../../src/worker/mask.ts'
import { maskedError } from '../../src/worker/thrown.ts'

function knowing(accessSecret: string, accessId = 'id-of-it'): Masker {
  const masker = new Masker()
  masker.learn({ accessId, accessSecret, bucketName: 'b', endpointUrl: 'http://h' })
  return masker
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

  it('forgets those of long ago, not those of late', () => {
    const masker = knowing('the-first-one')
    for (let n = 0; n < 200; n += 1) {
      masker.learn({
        accessId: `id-${n}-x`,
        accessSecret: `secret-${n}-x`,
        bucketName: 'b',
        endpointUrl: 'http://h',
      })
    }
    expect(masker.mask('the-first-one secret-199-x secret-150-x')).toBe('the-first-one [masked] [masked]')
  })

  it('masks an error in all its texts', () => {
    const error = { type: 'Nhush-hush', message: 'hush-hush', stack: 'at hush-hush', code: 'HANDLER_ERROR' }
    expect(JSON.stringify(maskedError(error, knowing('hush-hush').mask))).not.toContain('hush')
  })
})
