import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { bodyHash, SecretBox } from '../../src/queue/secret-box.ts'

const value = { accessSecret: 'hush', nested: ['é', 1] }
const body = Buffer.from('{"input":{},"s3Config":{"accessSecret":"hush"}}')

describe('a secret box', () => {
  it('gives back what it sealed, under the same secret', () => {
    const sealed = new SecretBox('one').seal(value)
    expect(new SecretBox('one').open(sealed)).toEqual(value)
    expect(Buffer.from(sealed).includes('hush')).toBe(false)
  })

  it('seals the same value differently each time', () => {
    const box = new SecretBox('one')
    expect(Buffer.compare(box.seal(value), box.seal(value))).not.toBe(0)
  })

  it('opens nothing that was sealed with another secret, changed or cut short', () => {
    const sealed = new SecretBox('one').seal(value)
    expect(() => new SecretBox('two').open(sealed)).toThrow()
    for (const at of [0, 12, sealed.length - 1]) {
      const changed = Uint8Array.from(sealed, (byte, index) => (index === at ? byte ^ 1 : byte))
      expect(() => new SecretBox('one').open(changed)).toThrow()
    }
    for (const length of [0, 11, 12, 20, 27, 28, sealed.length - 1])
      expect(() => new SecretBox('one').open(sealed.subarray(0, length))).toThrow()
  })
})

describe('the hash of a body', () => {
  it('cannot be computed without the secret when there is one in the body', () => {
    const keyed = bodyHash(body, new SecretBox('one'))
    expect(keyed).toBe(bodyHash(body, new SecretBox('one')))
    expect(keyed).not.toBe(bodyHash(body, new SecretBox('two')))
    expect(keyed).not.toBe(createHash('sha256').update(body).digest('base64url'))
  })

  it('does not depend on the secret otherwise: who changes it still knows the bodies', () => {
    expect(bodyHash(body, undefined)).toBe(createHash('sha256').update(body).digest('base64url'))
  })
})
