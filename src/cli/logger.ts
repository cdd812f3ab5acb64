// The process's logger: JSON lines, or readable ones on a terminal.

import { pino, type Logger } from 'pino'

/** Logs to stderr, so that stdout stays what a command prints. Keys and secrets are masked wherever they turn up as fields. */
export async function createLogger(name: string): Promise<Logger> {
  const options = {
    name,
    level: process.env['LONGSHORE_LOG_LEVEL'] ?? 'info',
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
