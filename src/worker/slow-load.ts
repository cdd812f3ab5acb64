// A load that takes its time is told of, at growing intervals, before its time-out: until then it looks like nothing at all.

import type { Clock, Timer } from '../lib/clock.ts'

export interface SlowLoad {
  stage: 'import' | 'setup'
  /** How long this stage has taken so far. */
  ms: number
}

/** Most loads are through before. */
const FIRST_MS = 2_000

/** Tells after 2 s, 4 s more, 8 s more and so on, until it is cleared. */
export function tellWhileSlow(clock: Clock, tell: (ms: number) => void): Timer {
  let waitMs = FIRST_MS
  let ms = 0
  const wait = (): Timer =>
    clock.after(
      waitMs,
      () => {
        ms += waitMs
        waitMs *= 2
        timer = wait()
        tell(ms)
      },
      { background: true },
    )
  let timer = wait()
  return { clear: () => timer.clear() }
}
