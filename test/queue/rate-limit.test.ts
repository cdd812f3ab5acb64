import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { rateLimits, type RatedOperation } from '../../src/job/limits.ts'
import { RateLimit, type RateAnswer } from '../../src/queue/rate-limit.ts'
import { LocalRates } from '../../src/store/local-traffic.ts'
import { FakeClock } from '../support/fake-clock.ts'

function setUp(requestsPerWorker = 50): {
  clock: FakeClock
  ask: (
    operation: RatedOperation,
    more?: { key?: string; endpoint?: string; runningWorkers?: number },
  ) => Promise<RateAnswer>
} {
  const clock = new FakeClock()
  const rateLimit = new RateLimit({
    rates: new LocalRates(),
    clock,
    requestsPerWorker,
    onError: (cause) => {
      throw cause
    },
  })
  return {
    clock,
    ask: (operation, more = {}) => {
      const answer = rateLimit.enter({ operation, key: 'k', endpoint: 'ep', runningWorkers: 0, ...more })
      return answer
    },
  }
}

/** Asks and is done at once. */
async function pass(asked: Promise<RateAnswer>): Promise<boolean> {
  const answer = await asked
  if (answer.kind === 'pass') answer.leave()
  return answer.kind === 'pass'
}

describe('a rate', () => {
  for (const [operation, { requests }] of Object.entries(rateLimits)) {
    it(`of ${operation} is ${requests} in 10 seconds`, async () => {
      const { ask, clock } = setUp()
      const name = operation as RatedOperation
      for (let n = 0; n < requests; n += 1) expect(await pass(ask(name))).toBe(true)
      const refused = await ask(name)
      expect(refused).toMatchObject({ kind: 'refused', per: 'in 10 s', limit: requests, remaining: 0 })
      clock.advance(9_999)
      expect(await pass(ask(name))).toBe(false)
      clock.advance(refused.resetSeconds * 1000 - 9_999)
      expect(await pass(ask(name))).toBe(true)
    })
  }

  for (const [operation, { concurrent }] of Object.entries(rateLimits)) {
    if (concurrent === undefined) continue
    it(`of ${operation} is ${concurrent} at a time`, async () => {
      const { ask } = setUp()
      const held = await Promise.all(
        Array.from({ length: concurrent }, () => ask(operation as RatedOperation)),
      )
      expect(held.every(({ kind }) => kind === 'pass')).toBe(true)
      expect(await ask(operation as RatedOperation)).toMatchObject({
        kind: 'refused',
        per: 'at a time',
        most: concurrent,
      })
      const [one] = held
      if (one?.kind === 'pass') one.leave()
      // One of them has left, but two in ten seconds more than the rate would be refused for that.
      const next = await ask(operation as RatedOperation)
      expect(next.kind === 'pass' || next.per === 'in 10 s').toBe(true)
    })
  }

  it('is counted for each key, endpoint and operation by itself', async () => {
    const { ask } = setUp()
    for (const passes of [true, true, false]) expect(await pass(ask('purge-queue'))).toBe(passes)
    expect(await pass(ask('purge-queue', { key: 'other' }))).toBe(true)
    expect(await pass(ask('purge-queue', { endpoint: 'other' }))).toBe(true)
    expect(await pass(ask('cancel'))).toBe(true)
  })

  it('is what the running workers allow where that is more', async () => {
    const { ask } = setUp(3)
    for (let n = 0; n < 6; n += 1) expect(await pass(ask('purge-queue', { runningWorkers: 2 }))).toBe(true)
    expect(await ask('purge-queue', { runningWorkers: 2 })).toMatchObject({ kind: 'refused', limit: 6 })
    const held = await Promise.all(Array.from({ length: 4 }, () => ask('requests', { runningWorkers: 2 })))
    expect(held.map(({ kind }) => kind)).toEqual(['pass', 'pass', 'pass', 'pass'])
  })

  it('tells how many are left, and a pause after which one more is let in', async () => {
    const { ask, clock } = setUp()
    expect(await ask('purge-queue')).toMatchObject({ limit: 2, remaining: 1 })
    clock.advance(4_000)
    expect(await ask('purge-queue')).toMatchObject({ limit: 2, remaining: 0, resetSeconds: 7 })
    const { resetSeconds } = await ask('purge-queue')
    clock.advance(resetSeconds * 1000)
    expect(await pass(ask('purge-queue'))).toBe(true)
  })

  it('never lets more than its number into any 10 seconds, and always some', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 3_000 }), { minLength: 1, maxLength: 200 }),
        async (pauses) => {
          const { ask, clock } = setUp()
          const passed: number[] = []
          let refusedFor = 0
          for (const pause of pauses) {
            clock.advance(pause)
            if (await pass(ask('requests'))) {
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
