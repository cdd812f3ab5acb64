// The log that a handler is given: lines with the job's id, secrets masked, harmless whatever is passed in.

import { limits } from '../job/limits.ts'
import { parseJson, stringifyJson } from '../lib/intrinsics.ts'
import type { JobLog, LogMethod } from './define-handler.ts'
import type { FromChild } from './messages.ts'
import { describeThrown, textOf } from './thrown.ts'

type LogMessage = Extract<FromChild, { type: 'log' }>

export function jobLog(
  run: number,
  send: (message: LogMessage) => void,
  mask: (text: string) => string,
): JobLog {
  const at = (level: 'debug' | 'info' | 'warn' | 'error'): LogMethod => {
    return (first: unknown, second: unknown = ''): void => {
      const isFields = typeof first === 'object' && first !== null && !isArray(first)
      const message = mask(textOf(isFields ? second : first).slice(0, limits.logBytes))
      send({ type: 'log', run, level, fields: isFields ? loggable(first, mask) : {}, message })
    }
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function isArray(value: object): boolean {
  try {
    return Array.isArray(value)
  } catch {
    // A revoked proxy is nothing any more.
    return false
  }
}

const SECRET_NAMES =
  /^(accessid|accesssecret|accesskeyid|secretaccesskey|sessiontoken|s3config|authorization|apikey|token|password|secret)$/

/** Secrets are masked wherever in the fields they are, and errors say what they are. */
function told(key: string, value: unknown): unknown {
  if (SECRET_NAMES.test(key.replaceAll(/[_-]/g, '').toLowerCase())) return '[masked]'
  return value instanceof Error ? describeThrown(value) : value
}

/** A log line must never fail a job: what JSON cannot say, or too much of it, is told in a word. */
function loggable(fields: object, mask: (text: string) => string): Record<string, unknown> {
  try {
    // What has a toJSON may turn into anything, nothing included.
    const said = stringifyJson(fields instanceof Error ? { err: fields } : fields, told) ?? 'null'
    const text = mask(said)
    if (text.length <= limits.logBytes) return asFields(parseJson(text))
    return { cut: `fields of ${text.length} characters, more than ${limits.logBytes}` }
  } catch (cause) {
    return { cut: `fields that are not JSON: ${cause instanceof Error ? cause.message : String(cause)}` }
  }
}

function asFields(value: unknown): Record<string, unknown> {
  const isFields = typeof value === 'object' && value !== null && !Array.isArray(value)
  return isFields ? (value as Record<string, unknown>) : { value }
}
