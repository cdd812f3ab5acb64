// What the errors of Redis and of its client mean to whoever asked.

import { shownStore } from '../shown-store.ts'
import { StoreError } from '../store-error.ts'
import { isRefusal, permissionProblem } from './refusals.ts'

export interface Place {
  url: string
  database: number
}

/** A StoreError, or the cause as it is where that is a fault of ours. */
export function troubleOf(cause: unknown, place: Place): unknown {
  if (cause instanceof StoreError || !(cause instanceof Error)) return cause
  const { message } = cause
  // What was asked for has keys, passwords and inputs in it, and an error may be logged.
  if ('command' in cause) delete cause.command
  if (/^(?:READONLY|ERR .*\bcluster is down\b)/.test(message)) return unavailable(cause, place)
  if (/^OOM |^MISCONF .*No space/i.test(message)) {
    const words = `The store ${shownStore(place.url)} is full. Give Redis more memory or disk.`
    return new StoreError('STORE_FULL', words, { cause })
  }
  const mend = mendOf(cause, place.database)
  if (mend !== undefined) {
    const words = `The store ${shownStore(place.url)} ${mend}`
    return new StoreError('STORE_UNAVAILABLE', words, { cause })
  }
  // A fault of a script is ours, and not to be waited out.
  if (/^(?:ERR|WRONGTYPE|CROSSSLOT)/.test(message)) return cause
  return unavailable(cause, place)
}

export function unavailable(cause: Error, { url }: Place): StoreError {
  const words = `The store ${shownStore(url)} does not answer as it should: ${wordsOf(cause)}.`
  return new StoreError('STORE_UNAVAILABLE', words, { cause })
}

/** What the store is or has, and what to do, where that is known. */
export function mendOf(cause: Error, database: number): string | undefined {
  if (isRefusal(cause)) return permissionProblem(cause, database)
  if (cause.message.startsWith('ERR Protocol error: invalid bulk length'))
    return 'takes no value as large as one that it was sent. Raise its proto-max-bulk-len to 512mb.'
  if (cause.message.startsWith('MOVED '))
    return 'is a node of a cluster, and not all is kept there. Name the cluster: redis+cluster://<host>:<port>.'
  return undefined
}

/** Of the client library, which speaks of its own settings. */
const wordsOfClient: readonly [RegExp, string][] = [
  [/^Reached the max retries per request.*/, 'the connection was lost before it had answered'],
  [/^Stream isn't writeable.*/, 'there is no connection to it'],
  [/^All sentinels are unreachable.*? Last error: (.*)/, 'no sentinel tells its master: $1'],
  [/^All sentinels are unreachable.*/, 'no sentinel tells its master'],
]

/** Why, without a full stop. */
export function wordsOf(cause: unknown): string {
  const said = cause instanceof Error ? cause.message || cause.name : String(cause)
  const [theirs, ours] = wordsOfClient.find(([words]) => words.test(said)) ?? []
  return (theirs && ours ? said.replace(theirs, ours) : said).replace(/\.\s*$/, '')
}
