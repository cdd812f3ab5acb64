// Why a port cannot be listened on, in words.

import { CommandError } from './fail.ts'

export interface Listening {
  host: string
  port: number
  /** What chooses others. */
  flags: { host: string; port: string }
}

/** The CommandError of a port that cannot be listened on, by the flags of a service; else the cause itself. */
export function listenError(cause: unknown, { host, port }: { host: string; port: number }): unknown {
  const sentence = listenProblem(cause, { host, port, flags: { host: '--host', port: '--port' } })
  return sentence === undefined ? cause : new CommandError(sentence)
}

/** Undefined for what is no problem of the port. */
export function listenProblem(cause: unknown, { host, port, flags }: Listening): string | undefined {
  const code = (cause as NodeJS.ErrnoException).code
  if (code === 'EADDRINUSE')
    return `Port ${port} on ${host} is in use. Stop what listens there, or choose another with ${flags.port}.`
  if (code === 'EACCES')
    return `Port ${port} on ${host} may not be listened on by this user. Choose one above 1023 with ${flags.port}.`
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND')
    return `This machine has no address '${host}'. Choose another with ${flags.host}.`
  return undefined
}
