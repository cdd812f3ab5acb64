import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { pause, systemClock } from '../../src/lib/clock.ts'
import { FakeClock } from '../support/fake-clock.ts'

async function isOver(wait: Promise<unknown>): Promise<boolean> {
  const later = new Promise<false>((resolve) => setImmediate(() => resolve(false)))
  return Promise.race([wait.then(() => true), later])
}

describe('pause', () => {
  it('ends after its time and no sooner', async () => {
    const clock = new FakeClock()
    const wait = pause(clock, 1000)
    clock.advance(999)
    expect(await isOver(wait)).toBe(false)
    clock.advance(1)
    expect(await isOver(wait)).toBe(true)
  })

  it('ends when its signal aborts, and takes its timer back', async () => {
    const clock = new FakeClock()
    const controller = new AbortController()
    const wait = pause(clock, 1000, controller.signal)
    expect(await isOver(wait)).toBe(false)
    controller.abort(new Error('a reason that is not thrown'))
    await wait
    expect(clock.pending).toBe(0)
  })

  it('does not begin when its signal has aborted already', async () => {
    const clock = new FakeClock()
    await pause(clock, 1000, AbortSignal.abort())
    expect(clock.pending).toBe(0)
  })

  it('lets go of its signal when its time is over', async () => {
    const clock = new FakeClock()
    const { signal } = new AbortController()
    const wait = pause(clock, 1000, signal)
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    clock.advance(1000)
    await wait
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })
})

describe('systemClock', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  /** The times after which a callback fired, of those it was looked at. */
  function firings(delayMs: number, lookedAtMs: readonly number[]): number[] {
    let hasFired = false
    systemClock.after(delayMs, () => (hasFired = true))
    let passedMs = 0
    return lookedAtMs.filter((at) => {
      vi.advanceTimersByTime(at - passedMs)
      passedMs = at
      return hasFired
    })
  }

  it('calls back once the time is over', () => {
    expect(firings(1000, [1, 999, 1000])).toEqual([1000])
  })

  it('takes a negative delay for none', () => {
    expect(firings(-1000, [0, 1])).toContain(1)
  })

  // Node fires a timer of 2 ** 31 ms or more after 1 ms.
  it('does not fire a delay that is longer than Node can count at once', () => {
    expect(firings(2 ** 31, [1, 1_000_000, 2 ** 31])).toEqual([2 ** 31])
  })

  it('does not call back once its timer is cleared', () => {
    let hasFired = false
    systemClock.after(1000, () => (hasFired = true)).clear()
    vi.advanceTimersByTime(2000)
    expect(hasFired).toBe(false)
  })

  it('never goes back when it measures', () => {
    const before = systemClock.monotonic()
    vi.setSystemTime(0)
    expect(systemClock.now()).toBe(0)
    expect(systemClock.monotonic()).toBeGreaterThanOrEqual(before)
  })
})
