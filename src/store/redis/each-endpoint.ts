// Asking of every endpoint: in a cluster each may be on another node, and one that does not answer holds up no other.

export interface Asked<T> {
  answers: { endpoint: string; answer: T }[]
  /** What the first that failed said; nothing when all answered. */
  failure: unknown
}

export async function askEach<T>(
  endpoints: readonly string[],
  ask: (endpoint: string) => Promise<T>,
): Promise<Asked<T>> {
  const asked: Asked<T> = { answers: [], failure: undefined }
  const settled = await Promise.allSettled(endpoints.map(ask))
  for (const [at, one] of settled.entries()) {
    if (one.status === 'fulfilled') asked.answers.push({ endpoint: endpoints[at]!, answer: one.value })
    else asked.failure ??= one.reason
  }
  return asked
}
