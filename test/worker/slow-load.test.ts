import { expect, it } from 'vitest'
import { tellWhileSlow } from '../../src/worker/slow-load.ts'
import { FakeClock } from '../support/fake-clock.ts'

it('a load that goes on is told of at growing intervals, until it is through', () => {
  const clock = new FakeClock()
  const told: number[] = []
  const timer = tellWhileSlow(clock, (ms) => told.push(ms))
  clock.advance(1_999)
  expect(told).toEqual([])
  clock.advance(28_001)
  expect(told).toEqual([2_000, 6_000, 14_000, 30_000])
  timer.clear()
  clock.advance(600_000)
  expect(told).toHaveLength(4)
  expect(clock.pending).toBe(0)
})
