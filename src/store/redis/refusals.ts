// What Redis says to a user who may not do something, and the mend.

import { channelsOf, WAITED } from './channels.ts'

/** How Redis 7.0, its later versions and Valkey say it, within a script and outside. */
export const REFUSALS = ['NOPERM', 'ACL failure in script', 'The user executing the script can']

/** The error in which Redis refuses its user something, or that one is the cause of. */
export function refusalOf(cause: unknown): Error | undefined {
  if (!(cause instanceof Error)) return undefined
  return isRefusal(cause) ? cause : refusalOf(cause.cause)
}

export function isRefusal({ message }: Error): boolean {
  return REFUSALS.some((words) => message.replace(/^ERR /, '').startsWith(words))
}

export function permissionProblem({ message }: Error, database: number): string {
  return `does not let this user do what a server does: ${message}. Allow it with: redis-cli ACL SETUSER <user> '~longshore:*' '&${channelsOf(database)}' '&${WAITED}' +@all`
}
