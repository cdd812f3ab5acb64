// The process's logger: JSON lines, or readable ones on a terminal.

import { pino, type DestinationStream, type Logger } from 'pino'
import { CommandError } from './fail.ts'

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']

const SECRETS = ['authorization', 's3Config', 'accessId', 'accessSecret', 'apiKey', 'token']

/** Nothing logs these on purpose; here they are masked should they ride along with what is, up to three levels down. */
export const redact = {
  paths: SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]),
  censor: '[masked]',
}

/** Logs to stderr, so that stdout stays what a command prints. Keys and secrets are masked wherever they turn up as fields. */
export async function createLogger(name: string): Promise<Logger> {
  const level = process.env['LONGSHORE_LOG_LEVEL'] || 'info'
  if (!LEVELS.includes(level)) {
    throw new CommandError(`LONGSHORE_LOG_LEVEL must be one of ${LEVELS.join(', ')}, got '${level}'.`)
  }
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
