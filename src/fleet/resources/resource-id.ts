// Ids that the service makes: short enough to read out, and never made twice.

import { randomBytes } from 'node:crypto'

const LETTERS = '0123456789abcdefghjkmnpqrstvwxyz'

/** 14 small letters and digits, the first a letter: 70 bits of chance. */
export function newResourceId(): string {
  const [first = 0, ...rest] = [...randomBytes(14)]
  return [LETTERS[10 + (first % 22)], ...rest.map((byte) => LETTERS[byte % 32])].join('')
}
