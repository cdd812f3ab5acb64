// The channels of a store, as they are subscribed to and as a user has to be let in to them.

/** A channel that nobody hears. */
export const WAITED = 'longshore:waited'

/** The pattern of the channels: one for all databases of a Redis, the name says of which one a message is. */
export function channelsOf(database: number): string {
  return `longshore:{*}:events:${database}`
}
