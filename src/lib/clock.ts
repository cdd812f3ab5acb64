// Time as a port: everything that waits or measures takes a Clock, so that tests can move it.

/** A timer that has not fired yet. */
export interface Timer {
  clear(): void
}

export interface Clock {
  /** Wall time, epoch ms. For what is stored or shown. */
  now(): number
  /** A clock that never goes back, ms with fractions. For durations. */
  monotonic(): number
  /** Calls back once after `ms`. The timer keeps the process alive unless `background`. */
  after(ms: number, callback: () => void, options?: { background?: boolean }): Timer
}

// Node truncates longer delays to 1 ms; a job may run for up to 7 days, so this is a guard, not a limit.
const LONGEST_DELAY_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, callback, options) {
    const timer = setTimeout(callback, Math.min(Math.max(0, ms), LONGEST_DELAY_MS))
    if (options?.background) timer.unref()
    return { clear: () => clearTimeout(timer) }
  },
}

/** Resolves after `ms`, or at once when the signal aborts. Never rejects. */
export function pause(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const finish = (): void => {
      timer.clear()
      signal?.removeEventListener('abort', finish)
      resolve()
    }
    const timer = clock.after(ms, finish)
    signal?.addEventListener('abort', finish, { once: true })
  })
}

/** Until it has settled, or this long. Never rejects. */
export async function within(clock: Clock, mostMs: number, done: Promise<unknown>): Promise<void> {
  const waiting = new AbortController()
  const end = (): void => waiting.abort()
  await Promise.race([done.then(end, end), pause(clock, mostMs, waiting.signal)])
}
