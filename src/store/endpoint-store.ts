// The contract of the queues and their defaults.

/** A named queue and its defaults. */
export interface Endpoint {
  id: string
  executionTimeoutMs: number
  maxAttempts: number
}

export interface EndpointStore {
  /** Makes what there is not of the endpoint; true when that was anything. */
  ensureEndpoint(id: string): Promise<boolean>
  /** The same for one that should still be there: nothing is made of one that was removed. */
  keepEndpoint(id: string): Promise<boolean>
  /**
   * Deletes it with its jobs and all that is theirs, in rounds, between which others are served; whoever runs one of them
   * gets a stop. From the call on it is not found and nothing is submitted to it. Safe to repeat: after a crash, or an
   * error, that deletes what is left.
   */
  removeEndpoint(id: string): Promise<void>
  /** Whether it was removed, and not made anew since. */
  wasRemoved(id: string): Promise<boolean>
  /** For jobs that are leased from then on, and have no timeout of their own. Nothing happens where there is no such endpoint. */
  setEndpoint(id: string, limits: { executionTimeoutMs: number }): Promise<void>
  findEndpoint(id: string): Promise<Endpoint | undefined>
  listEndpoints(): Promise<Endpoint[]>
}
