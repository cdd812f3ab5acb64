// The process's logger: JSON lines, or readable ones on a terminal.

import { pino, type DestinationStream, type Logger } from 'pino'
import type { ValueOf } from '../config/settings.ts'

export type LogLevel = ValueOf<'logLevel'>

const SECRETS = ['authorization', 's3Config', 'accessId', 'accessSecret', 'apiKey', 'token']

/** Nothing logs these on purpose; here they are masked should they ride along with what is, up to three levels down. */
export const redact = {
  paths: SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
  censor: '[masked]',
}

/** Logs to stderr, so that stdout stays what a command prints. Keys and secrets are masked wherever they turn up as fields. */
export async function createLogger(name: string, level: LogLevel = 'info'): Promise<Logger> {
  const options = {
    name,
    level,
    redact,
  }
  if (!process.stderr.isTTY) return pino(options, patientDestination())
  const { default: pretty } = await import('pino-pretty')
  return pino(
    options,
    pretty({ destination: patientDestination(), colorize: true, ignore: 'pid,hostname,name' }),
  )
}

/** For a command that draws on its terminal: what is logged goes to `write`, as a line of words. */
export function createWordLogger(name: string, level: LogLevel, write: (line: string) => void): Logger {
  const destination = { write: (record: string) => write(inWords(record)) }
  return pino({ name, level, redact }, destination)
}

function inWords(record: string): string {
  const { level, msg, err } = JSON.parse(record) as {
    level: number
    msg?: string
    err?: { message?: string }
  }
  const word = pino.levels.labels[level] ?? 'info'
  return [`${word}: ${msg ?? ''}`, ...(err?.message === undefined ? [] : [err.message])].join(': ')
}

/** What a reader that has stalled may be behind, bytes; lines beyond it are dropped. */
const BACKLOG_BYTES = 8_000_000
/** A tenth of a second each: how often the last lines are tried again at the end of the process. */
const LAST_TRIES = 10

/** Whoever reads the log slowly, or not at all, must not hold up a heartbeat: lines wait in memory, up to a bound. */
function patientDestination(): DestinationStream {
  let triesLeft = Number.POSITIVE_INFINITY
  process.once('exit', () => (triesLeft = LAST_TRIES))
  const retryEAGAIN = (): boolean => (triesLeft -= 1) >= 0
  return pino.destination({ dest: 2, sync: false, maxLength: BACKLOG_BYTES, retryEAGAIN })
}
