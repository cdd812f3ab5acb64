// What the helpers may be called with: types do not keep anybody from a field that is missing.

import { S3Error } from './s3-error.ts'

export const SEVEN_DAYS_S = 604_800
const KEY_BYTES = 1024
const METADATA_BYTES = 2_048

/** Throws S3_OPTION_INVALID unless it is a text that is not empty; `what` begins the sentence. */
export function checkText(what: string, value: unknown): void {
  if (typeof value !== 'string') refuse(`${what} must be a text, got ${kindOf(value)}.`)
  if (value === '') refuse(`${what} must not be empty.`)
}

export function checkTexts(what: string, values: unknown): void {
  if (!Array.isArray(values)) return refuse(`${what} must be an array of texts, got ${kindOf(values)}.`)
  values.forEach((value, at) => checkText(`Number ${at + 1} of ${lowered(what)}`, value))
}

/** Throws S3_OPTION_INVALID unless the options are an object whose named ones are texts; answers it. */
export function checkOptions<Options extends object>(
  options: Options,
  texts: readonly (keyof Options & string)[],
): Options {
  if (typeof options !== 'object' || options === null)
    refuse(`The options of a call must be an object, got ${kindOf(options)}.`)
  for (const name of texts) {
    if (options[name] !== undefined && typeof options[name] !== 'string')
      refuse(`${name} must be a text, got ${kindOf(options[name])}.`)
  }
  const signal: unknown = Reflect.get(options, 'signal')
  if (signal !== undefined && !(signal instanceof AbortSignal))
    refuse(`signal must be an AbortSignal, got ${kindOf(signal)}.`)
  return options
}

function kindOf(value: unknown): string {
  return value === null ? 'null' : value === undefined ? 'nothing' : typeof value
}

function lowered(text: string): string {
  return `${text.slice(0, 1).toLowerCase()}${text.slice(1)}`
}

export function refuse(problem: string | undefined): void {
  if (problem !== undefined) throw new S3Error('S3_OPTION_INVALID', problem)
}

export function problemOfKey(key: string): string | undefined {
  const bytes = Buffer.byteLength(key)
  if (bytes === 0 || bytes > KEY_BYTES) return `A key must have from 1 to ${KEY_BYTES} bytes, got ${bytes}.`
  if (/\p{Cc}/u.test(key) || !key.isWellFormed())
    return `A key must have no control characters and be well-formed Unicode, got ${JSON.stringify(key)}.`
  const isPath = key.startsWith('/') || key.split('/').some((segment) => segment === '.' || segment === '..')
  return isPath
    ? `A key must not begin with '/' or have '.' or '..' as a part, which stores read differently; got '${key}'.`
    : undefined
}

export function problemOfExpiry(seconds: number): string | undefined {
  const isFit = Number.isInteger(seconds) && seconds >= 1 && seconds <= SEVEN_DAYS_S
  return isFit
    ? undefined
    : `expiresInSeconds must be a whole number from 1 to ${SEVEN_DAYS_S}, got ${seconds}.`
}

/** It travels in headers: anything else would come out of the store as something else. */
export function checkMetadata(metadata: Record<string, string> | undefined): void {
  if (metadata === undefined) return
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata))
    return refuse(`metadata must be an object of texts, got ${kindOf(metadata)}.`)
  let bytes = 0
  for (const [name, value] of Object.entries(metadata)) {
    if (!/^[a-z0-9-]+$/.test(name))
      refuse(`metadata may have names of small letters, digits and '-', got '${name}'.`)
    if (typeof value !== 'string' || !/^(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?$/.test(value))
      refuse(
        `metadata.${name} must be a text of printable ASCII without spaces around it. Encode what is not.`,
      )
    bytes += name.length + value.length
  }
  if (bytes > METADATA_BYTES) refuse(`metadata must have at most ${METADATA_BYTES} bytes, got ${bytes}.`)
}

export function problemOfContentType(type: string): string | undefined {
  return /^[\x20-\x7e]+$/.test(type)
    ? undefined
    : `contentType must be a text of printable ASCII, got ${JSON.stringify(type)}.`
}
