// Whatever a handler threw, as the one shape of a failed job.

import { limits } from '../job/limits.ts'
import type { JobError } from '../job/job.ts'
import { stringifyJson } from '../lib/intrinsics.ts'
import type { JobFailureCode } from '../protocol/errors.ts'
import { s3Failures, type S3FailureCode } from '../s3/s3-error.ts'
import { NotJsonError, TooLargeError } from './serialise.ts'

/** A failure with a code of its own, as opposed to whatever a handler may throw. */
export class RunFailure extends Error {
  readonly code: JobFailureCode

  constructor(code: JobFailureCode, name: string, message: string) {
    super(message)
    this.code = code
    this.name = name
  }
}

/** Whatever a handler threw, in the one shape of a failed job. Never throws, whatever its getters do. */
export function describeThrown(thrown: unknown): JobError {
  try {
    return describe(thrown)
  } catch {
    return {
      type: 'Error',
      message: 'The handler threw something that cannot be read. Throw an Error.',
      code: 'HANDLER_ERROR',
    }
  }
}

/** The same with its secrets masked. */
export function maskedError(error: JobError, mask: (text: string) => string): JobError {
  const masked = { ...error, type: mask(error.type), message: mask(error.message) }
  return error.stack === undefined ? masked : { ...masked, stack: mask(error.stack) }
}

function describe(thrown: unknown): JobError {
  if (!(thrown instanceof Error)) {
    return { type: typeof thrown, message: cut(textOf(thrown)), code: 'HANDLER_ERROR' }
  }
  // An author may put anything into an error's fields.
  const { name, message, stack } = thrown as { name: unknown; message: unknown; stack: unknown }
  const code = codeOf(thrown)
  const error: JobError = { type: cut(textOf(name) || 'Error'), message: cut(textOf(message)), code }
  // Where in the handler it was is of no use where the handler was not at fault.
  const isOurs =
    thrown instanceof RunFailure || thrown instanceof NotJsonError || thrown instanceof TooLargeError
  return typeof stack === 'string' && !isOurs ? { ...error, stack: cut(stack) } : error
}

function codeOf(thrown: Error): JobFailureCode | S3FailureCode {
  if (thrown instanceof RunFailure || thrown instanceof NotJsonError || thrown instanceof TooLargeError)
    return thrown.code
  // By its code and not by its class: a handler may bring a copy of this package of its own.
  const code = thrown.name === 'S3Error' && 'code' in thrown ? thrown.code : undefined
  return typeof code === 'string' && Object.hasOwn(s3Failures, code)
    ? (code as S3FailureCode)
    : 'HANDLER_ERROR'
}

function cut(text: string): string {
  return text.length > limits.errorTextChars ? `${text.slice(0, limits.errorTextChars)}…` : text
}

export function textOf(value: unknown): string {
  if (typeof value === 'string') return value
  try {
    return stringifyJson(value) ?? String(value)
  } catch {
    // A cycle or a BigInt still has a name; a revoked proxy has none.
    try {
      return Object.prototype.toString.call(value)
    } catch {
      return '[unreadable]'
    }
  }
}
