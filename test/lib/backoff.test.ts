import { describe, expect, it } from 'vitest'
import { backoffMs } from '../../src/lib/backoff.ts'

describe('backoffMs', () => {
  it('doubles from the base and stops at the cap', () => {
    const random = (): number => 1
    const waits = [1, 2, 3, 10, 1000].map((failures) =>
      backoffMs(failures, { baseMs: 100, maxMs: 1500, random }),
    )
    expect(waits).toEqual([100, 200, 400, 1500, 1500])
  })

  it('spreads over the upper half of each wait', () => {
    expect(backoffMs(1, { baseMs: 100, maxMs: 1500, random: () => 0 })).toBe(50)
  })
})
