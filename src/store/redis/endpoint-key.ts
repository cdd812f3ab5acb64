// The keys of an endpoint in Redis: its own begins all that is its jobs'.

/** The set of the names. */
export const ENDPOINTS = 'longshore:endpoints'

/** The hash of an endpoint; its braces keep all that begins with it on one node of a cluster. */
export function endpointKey(endpoint: string): string {
  return `longshore:{${endpoint}}`
}
