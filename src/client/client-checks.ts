// What a caller gives the typed client, checked before anything is sent: a mistake there is told as one, at once.

import { limits } from '../job/limits.ts'

interface GivenOptions {
  endpointUrl: string
  apiKey: string
  attempts: number
}

export function checkOptions({ endpointUrl, apiKey, attempts }: GivenOptions): void {
  if (!isEndpointUrl(endpointUrl)) {
    // It may have a password in it.
    throw new TypeError(
      'endpointUrl must be an http or https URL that ends with /v2/{endpointId}, without a query or a user, as in http://127.0.0.1:8000/v2/default.',
    )
  }
  if (typeof apiKey !== 'string' || !/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new TypeError('apiKey must be printable ASCII without spaces: it goes into a header.')
  }
  if (!Number.isSafeInteger(attempts) || attempts < 1) {
    throw new TypeError(`attempts must be a whole number of 1 or more, got ${shown(attempts)}.`)
  }
}

/** Infinity is a wait without an end. */
export function checkWaitMs(waitMs: number): void {
  if (typeof waitMs !== 'number' || !(waitMs >= 0)) {
    throw new TypeError(`waitMs must be a number of ms of 0 or more, got ${shown(waitMs)}.`)
  }
}

export function checkAfter(after: number): void {
  if (!Number.isSafeInteger(after) || after < 0) {
    throw new TypeError(
      `after must be the index of a chunk, a whole number of 0 or more, got ${shown(after)}.`,
    )
  }
}

/** It stands in a URL, where "" and ".." would make another one, and half a character has no form. */
export function checkId(id: string): void {
  if (typeof id !== 'string' || /^\.*$/.test(id) || !id.isWellFormed()) {
    throw new TypeError(`id must be the id of a job, got ${shown(id)}.`)
  }
}

export function checkIdempotencyKey(key: string): void {
  const most = limits.idempotencyKeyChars
  if (
    typeof key !== 'string' ||
    key.length > most ||
    !/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(key)
  ) {
    throw new TypeError(
      `idempotencyKey must be from 1 to ${most} characters of printable ASCII: it goes into a header; got ${shown(key)}.`,
    )
  }
}

function isEndpointUrl(given: string): boolean {
  const url = URL.parse(given)
  if (!url || !/^https?:$/.test(url.protocol) || !/\/v2\/[^/]+\/?$/.test(url.pathname)) return false
  return !/[?#]/.test(given) && url.username === '' && url.password === ''
}

function shown(value: unknown): string {
  return typeof value === 'string' ? `'${value.slice(0, 300)}'` : String(value)
}
