// The log that a handler is given: lines with the job's id, secrets masked, harmless whatever is passed in.

import { limits } from '../job/limits.ts'
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

const SECRET_NAMES = /^(accessId|accessSecret|s3Config|authorization|apiKey|token|password|secret)$/i

/** Secrets are masked wherever in the fields they are. */
function masked(key: string, value: unknown): unknown {
  return SECRET_NAMES.test(key) ? '[masked]' : value
}

/** A log line must never fail a job: what JSON cannot say, or too much of it, is told in a word. */
function loggable(fields: object, mask: (text: string) => string): Record<string, unknown> {
  try {
    if (fields instanceof Error) return { err: describeThrown(fields) }
    const text = mask(JSON.stringify(fields, masked))
    if (text.length <= limits.logBytes) return JSON.parse(text) as Record<string, unknown>
    return { cut: `fields of ${text.length} characters, more than ${limits.logBytes}` }
  } catch (cause) {
    return { cut: `fields that are not JSON: ${cause instanceof Error ? cause.message : String(cause)}` }
  }
}
