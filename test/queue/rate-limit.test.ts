import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rateLimits, type RatedOperation } from '../../src/job/limits.ts'
import { RateLimit, type RateAnswer } from '../../src/queue/rate-limit.ts'
import { FakeClock } from '../support/fake-clock.ts'

function setUp(requestsPerWorker = 50): {
  clock: FakeClock
  ask: (
    operation: RatedOperation,
    more?: { key?: string; endpoint?: string; runningWorkers?: number },
  ) => RateAnswer
} {
  const clock = new FakeClock()
  const rateLimit = new RateLimit({ clock, requestsPerWorker })
  return {
    clock,
    ask: (operation, more = {}) => {
      const answer = rateLimit.enter({ operation, key: 'k', endpoint: 'ep', runningWorkers: 0, ...more })
      return answer
    },
  }
}

/** Asks and is done at once. */
function pass(answer: RateAnswer): boolean {
  if (answer.kind === 'pass') answer.leave()
  return answer.kind === 'pass'
}

describe('a rate', () => {
  for (const [operation, { requests }] of Object.entries(rateLimits)) {
    it(`of ${operation} is ${requests} in 10 seconds`, () => {
      const { ask, clock } = setUp()
      const name = operation as RatedOperation
      for (let n = 0; n < requests; n += 1) expect(pass(ask(name))).toBe(true)
      const refused = ask(name)
      expect(refused).toMatchObject({ kind: 'refused', per: 'in 10 s', limit: requests, remaining: 0 })
      clock.advance(9_999)
      expect(pass(ask(name))).toBe(false)
      clock.advance(refused.resetSeconds * 1000 - 9_999)
      expect(pass(ask(name))).toBe(true)
    })
  }

  for (const [operation, { concurrent }] of Object.entries(rateLimits)) {
    if (concurrent === undefined) continue
    it(`of ${operation} is ${concurrent} at a time`, () => {
      const { ask } = setUp()
      const held = Array.from({ length: concurrent }, () => ask(operation as RatedOperation))
      expect(held.every(({ kind }) => kind === 'pass')).toBe(true)
      expect(ask(operation as RatedOperation)).toMatchObject({
        kind: 'refused',
        per: 'at a time',
        most: concurrent,
      })
      const [one] = held
      if (one?.kind === 'pass') one.leave()
      // One of them has left, but two in ten seconds more than the rate would be refused for that.
      const next = ask(operation as RatedOperation)
      expect(next.kind === 'pass' || next.per === 'in 10 s').toBe(true)
    })
  }

  it('is counted for each key, endpoint and operation by itself', () => {
    const { ask } = setUp()
    expect([pass(ask('purge-queue')), pass(ask('purge-queue')), pass(ask('purge-queue'))]).toEqual([
      true,
      true,
      false,
    ])
    expect(pass(ask('purge-queue', { key: 'other' }))).toBe(true)
    expect(pass(ask('purge-queue', { endpoint: 'other' }))).toBe(true)
    expect(pass(ask('cancel'))).toBe(true)
  })

  it('is what the running workers allow where that is more', () => {
    const { ask } = setUp(3)
    for (let n = 0; n < 6; n += 1) expect(pass(ask('purge-queue', { runningWorkers: 2 }))).toBe(true)
    expect(ask('purge-queue', { runningWorkers: 2 })).toMatchObject({ kind: 'refused', limit: 6 })
    const held = Array.from({ length: 4 }, () => ask('requests', { runningWorkers: 2 }))
    expect(held.map(({ kind }) => kind)).toEqual(['pass', 'pass', 'pass', 'pass'])
  })

  it('tells how many are left, and a pause after which one more is let in', () => {
    const { ask, clock } = setUp()
    expect(ask('purge-queue')).toMatchObject({ limit: 2, remaining: 1 })
    clock.advance(4_000)
    expect(ask('purge-queue')).toMatchObject({ limit: 2, remaining: 0, resetSeconds: 7 })
    const { resetSeconds } = ask('purge-queue')
    clock.advance(resetSeconds * 1000)
    expect(pass(ask('purge-queue'))).toBe(true)
  })

  it('never lets more than its number into any 10 seconds, and always some', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 3_000 }), { minLength: 1, maxLength: 200 }),
        (pauses) => {
          const { ask, clock } = setUp()
          const passed: number[] = []
          let refusedFor = 0
          for (const pause of pauses) {
            clock.advance(pause)
            if (pass(ask('requests'))) {
              passed.push(clock.now())
              refusedFor = 0
            } else refusedFor += pause
            expect(refusedFor).toBeLessThan(13_200)
          }
          for (const at of passed) {
            expect(passed.filter((other) => other >= at && other < at + 10_000).length).toBeLessThanOrEqual(
              10,
            )
          }
        },
      ),
    )
  })
})
