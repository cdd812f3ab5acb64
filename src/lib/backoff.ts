// How long to wait before trying again.

export interface BackoffOptions {
  baseMs: number
  maxMs: number
  /** From 0 up to 1; Math.random by default. */
  random?: () => number
}

/**
 * The wait before retry number `failures` (1 is the first): exponential, capped at maxMs, and jittered over
 * its upper half, so that many workers that lost one server do not return in step.
 */
export function backoffMs(failures: number, { baseMs, maxMs, random = Math.random }: BackoffOptions): number {
  const ceiling = Math.min(maxMs, baseMs * 2 ** Math.min(Math.max(0, failures - 1), 30))
  return ceiling / 2 + (random() * ceiling) / 2
}
