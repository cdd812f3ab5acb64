import { describe, expect, it } from 'vitest'
import { LeaseAhead } from '../../src/worker/lease-ahead.ts'

function measured(executionMs: readonly number[]): LeaseAhead {
  const ahead = new LeaseAhead()
  for (const each of executionMs) ahead.note(each)
  return ahead
}

/** How many it leases ahead after jobs that took so long. */
function after(executionMs: readonly number[], concurrency = 1): number {
  return measured(executionMs).countFor(concurrency)
}

function times(count: number, executionMs: number): number[] {
  return Array.from({ length: count }, () => executionMs)
}

describe('LeaseAhead', () => {
  it('leases nothing ahead until it has seen some jobs', () => {
    expect(after([])).toBe(0)
    expect(after(times(7, 1))).toBe(0)
  })

  it('leases ahead once the median is under 20 ms', () => {
    expect(after(times(8, 19))).toBe(2)
    expect(after(times(8, 20))).toBe(0)
    expect(after(times(8, 0))).toBe(8)
  })

  it('goes by the median, not by the mean', () => {
    expect(after([...times(5, 1), ...times(3, 60_000)])).toBe(8)
    expect(after([...times(3, 1), ...times(5, 30)])).toBe(0)
  })

  it('leases ahead eight of the shortest, and no more than there are slots when those are more', () => {
    for (const concurrency of [1, 8, 9, 100, 1000]) {
      const count = after(times(8, 1), concurrency)
      expect(count).toBeGreaterThanOrEqual(Math.max(8, concurrency / 4))
      expect(count).toBeLessThanOrEqual(Math.max(8, concurrency))
    }
  })

  it('leases no more than will have begun within 20 ms', () => {
    expect(after(times(8, 5))).toBe(4)
    expect(after(times(8, 10), 3)).toBe(6)
  })

  it('stops once jobs have become long', () => {
    const ahead = measured(times(8, 1))
    for (const executionMs of times(32, 500)) ahead.note(executionMs)
    expect(ahead.countFor(1)).toBe(0)
  })

  it('forgets jobs of long ago', () => {
    const ahead = measured(times(1000, 500))
    for (const executionMs of times(24, 1)) ahead.note(executionMs)
    expect(ahead.countFor(1)).toBe(8)
  })

  it('measures anew after a pause', () => {
    const ahead = measured(times(32, 1))
    ahead.pause()
    expect(ahead.countFor(1)).toBe(0)
    for (const executionMs of times(7, 1)) ahead.note(executionMs)
    expect(ahead.countFor(1)).toBe(0)
    ahead.note(1)
    expect(ahead.countFor(1)).toBe(8)
  })

  it('lets a job wait for a slot for a moment only', () => {
    expect(measured([]).patienceMs).toBeGreaterThan(0)
    expect(measured([]).patienceMs).toBeLessThanOrEqual(100)
  })
})
