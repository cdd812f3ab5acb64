// Sealing what must not be readable at rest: s3Config, with AES-256-GCM.

import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from 'node:crypto'

const NONCE_BYTES = 12
const TAG_BYTES = 16

export class SecretBox {
  readonly #key: Buffer

  /** Any text with enough entropy; it is hashed to the key's size. */
  constructor(secret: string) {
    this.#key = createHash('sha256').update(secret).digest()
  }

  /** `nonce | tag | ciphertext` of the value as JSON. */
  seal(value: unknown): Uint8Array {
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce)
    const sealed = Buffer.concat([cipher.update(JSON.stringify(value), 'utf8'), cipher.final()])
    return Buffer.concat([nonce, cipher.getAuthTag(), sealed])
  }

  /** A hash that nobody without the secret can compute, and so nobody can test a guess against. */
  fingerprint(bytes: Uint8Array): string {
    return createHmac('sha256', this.#key).update('fingerprint.').update(bytes).digest('base64url')
  }

  /** Throws when the bytes were sealed with another secret or changed since. */
  open(bytes: Uint8Array): unknown {
    // A tag that was cut short would be taken for one of that length, and be easier to forge.
    const size = { authTagLength: TAG_BYTES }
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, NONCE_BYTES), size)
    decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES))
    const text = Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()])
    return JSON.parse(text.toString('utf8'))
  }
}

/**
 * What tells one body of a submission from another. A plain hash of one with secrets would let whoever has the queue
 * file try out guesses at them: it is given their box.
 */
export function bodyHash(body: Uint8Array, secrets: SecretBox | undefined): string {
  return secrets ? secrets.fingerprint(body) : createHash('sha256').update(body).digest('base64url')
}
