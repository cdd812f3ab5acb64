// The text of an API key, and the hash by which a store knows it.

import { createHash, randomBytes } from 'node:crypto'

export function newKey(): string {
  return `ls_${randomBytes(24).toString('base64url')}`
}

/** What is stored of a key. Keys are random and long, so a plain hash is enough. */
export function hashKey(key: string): string {
  return createHash('sha256').update(key).digest('base64url')
}
