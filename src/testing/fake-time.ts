// Time for a handler under test: its timers and its Date run ahead as fast as it waits for them.

import { syncBuiltinESMExports } from 'node:module'
import { mock } from 'node:test'

/** How many steps a stretch of time is made of: timers within one step fire together. */
const STEPS = 500

/** How long work may go on after it was called, as the worker's default grace has it. */
const GRACE_MS = 5_000

/**
 * Runs `work` while the timers of this process are fake; `at` calls back once so much of their time has passed. Resolves
 * once the work is over, or has gone on for a grace after the call as if nothing had been.
 */
export async function onFakeTime(
  work: () => Promise<void>,
  at: { ms: number; call: () => void },
): Promise<void> {
  const stepMs = Math.max(1, Math.ceil(at.ms / STEPS))
  const turn = setImmediate
  mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'], now: Date.now() })
  // Files that imported the functions by name see the fake ones only so.
  syncBuiltinESMExports()
  try {
    const result = work()
    const over = result.then(
      () => true,
      () => true,
    )
    const aTurn = (): Promise<boolean> =>
      Promise.race([over, new Promise<boolean>((done) => turn(done, false))])
    for (let passed = 0; passed < at.ms + GRACE_MS && !(await aTurn());) {
      // What is not a timer takes its real time meanwhile: nothing passes for a handler that reads a file.
      if (isBusy()) continue
      const isAt = passed < at.ms && passed + stepMs >= at.ms
      mock.timers.tick(isAt ? at.ms - passed : stepMs)
      if (isAt) at.call()
      passed += stepMs
    }
  } finally {
    mock.timers.reset()
    syncBuiltinESMExports()
  }
}

/** Whether this process waits for the system to do something that it was asked for. */
function isBusy(): boolean {
  return process.getActiveResourcesInfo().some((name) => /Req|Connect|Write|Zlib|ProcessWrap|Job$/.test(name))
}
