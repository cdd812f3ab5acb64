// Time for a handler under test: its timers and its Date run ahead as fast as it waits for them.

import { createHook } from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'
import { mock } from 'node:test'

/** How many steps a stretch of time is made of: timers within one step fire together. */
const STEPS = 500

/** How long work may go on after it was called, as the worker's default grace has it. */
export const GRACE_MS = 5_000

/** How long to wait in all for real timers and threads, ms: one that never ends must not keep a test. */
const REAL_MS = 1_000

/** There is one clock in a process to be faked: works that want it take their turns. */
let turns: Promise<void> = Promise.resolve()
/** The work whose time is faked now. */
let faked: Promise<void> | undefined
/** Works that go by the real time: on a fake clock their timers would never fire, or fire too early. */
const real = new Set<Promise<unknown>>()

/**
 * Runs `work` while no timers are fake; several such works run side by side. It waits for a work on fake time that has begun,
 * and not for one that waits itself: that may be waiting for whoever called this.
 */
export async function onRealTime(work: () => Promise<void>): Promise<void> {
  for (let before = faked; before; before = faked) await before
  const own = work()
  const ended = own.catch(() => undefined)
  real.add(ended)
  try {
    await own
  } finally {
    real.delete(ended)
  }
}

/**
 * Runs `work` while the timers of this process are fake; `at` calls back once so much of their time has passed. Resolves
 * once the work is over, or has gone on for a grace after the call as if nothing had been.
 */
export function onFakeTime(work: () => Promise<void>, at: { ms: number; call: () => void }): Promise<void> {
  const own = turns.then(() => inTurn(work, at))
  turns = own.catch(() => undefined)
  return own
}

async function inTurn(work: () => Promise<void>, at: { ms: number; call: () => void }): Promise<void> {
  while (real.size > 0) await Promise.all(real)
  const own = runOnFakeTime(work, at)
  faked = own.catch(() => undefined)
  try {
    await own
  } finally {
    faked = undefined
  }
}

async function runOnFakeTime(work: () => Promise<void>, at: { ms: number; call: () => void }): Promise<void> {
  const stepMs = Math.max(1, Math.ceil(at.ms / STEPS))
  const turn = setImmediate
  const meter = busyMeter()
  mock.timers.enable({ apis: ['setTimeout', 'setInterval', 'Date'], now: Date.now() })
  // Files that imported the functions by name see the fake ones only so.
  syncBuiltinESMExports()
  const signals = mock.method(AbortSignal, 'timeout', fakeSignalAfter)
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
      if (meter.isBusy()) continue
      const isAt = passed < at.ms && passed + stepMs >= at.ms
      mock.timers.tick(isAt ? at.ms - passed : stepMs)
      if (isAt) at.call()
      passed += stepMs
    }
  } finally {
    meter.close()
    signals.mock.restore()
    mock.timers.reset()
    syncBuiltinESMExports()
  }
}

/** As AbortSignal.timeout, on the timers of the moment. */
function fakeSignalAfter(ms: number): AbortSignal {
  const abort = new AbortController()
  const reason = new DOMException('The operation was aborted due to timeout', 'TimeoutError')
  setTimeout(() => abort.abort(reason), ms)
  return abort.signal
}

/** Timers that are not the fake ones (of a file that took setTimeout when it was imported), and threads. */
const REAL = new Set(['Timeout', 'MESSAGEPORT', 'WORKER'])

interface BusyMeter {
  isBusy(): boolean
  close(): void
}

/**
 * Tells whether something is under way that takes its real time: what the system was asked for, and, for a while, real
 * timers and threads that were begun since.
 */
function busyMeter(): BusyMeter {
  const begun = new Set<number>()
  const hook = createHook({
    init(id, type) {
      if (REAL.has(type)) begun.add(id)
    },
    destroy: (id) => void begun.delete(id),
  }).enable()
  const until = performance.now() + REAL_MS
  return {
    isBusy: () =>
      process.getActiveResourcesInfo().some((name) => /Req|Connect|Write|Zlib|ProcessWrap|Job$/.test(name)) ||
      (begun.size > 0 && performance.now() < until),
    close: () => void hook.disable(),
  }
}
