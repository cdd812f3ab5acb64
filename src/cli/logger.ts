// The process's logger: JSON lines, or readable ones on a terminal.

import { pino, type Logger } from 'pino'
import { CommandError } from './fail.ts'

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

/** Logs to stderr, so that stdout stays what a command prints. Keys and secrets are masked wherever they turn up as fields. */
export async function createLogger(name: string): Promise<Logger> {
  const level = process.env['LONGSHORE_LOG_LEVEL'] || 'info'
  if (!LEVELS.includes(level)) {
    throw new CommandError(`LONGSHORE_LOG_LEVEL must be one of ${LEVELS.join(', ')}, got '${level}'.`)
  }
  const options = {
    name,
    level,
    redact: {
      paths: [
        'authorization',
        '*.authorization',
        's3Config',
        '*.s3Config',
        'apiKey',
        '*.apiKey',
        'token',
        '*.token',
      ],
      censor: '[masked]',
    },
  }
  if (!process.stderr.isTTY) return pino(options, pino.destination({ fd: 2, sync: true }))
  const { default: pretty } = await import('pino-pretty')
  return pino(options, pretty({ destination: 2, sync: true, ignore: 'pid,hostname,name' }))
}
