import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Latch } from '../../src/lib/latch.ts'
import { FakeClock } from '../support/fake-clock.ts'

describe('Latch', () => {
  let clock: FakeClock
  let latch: Latch

  beforeEach(() => {
    clock = new FakeClock()
    latch = new Latch()
  })

  afterEach(() => expect(clock.pending, 'timers left behind').toBe(0))

  /** Tells whether the wait has ended once everything that was due has run. */
  function watch(wait: Promise<void>): () => Promise<boolean> {
    let isOver = false
    void wait.then(() => (isOver = true))
    return async () => {
      await new Promise((resolve) => setImmediate(resolve))
      return isOver
    }
  }

  it('wakes all who wait, and each who gave up before leaves the others waiting', async () => {
    const gone = new AbortController()
    const [first, second] = [watch(latch.wait(clock, 1000, [gone.signal])), watch(latch.wait(clock, 1000))]
    const third = watch(latch.wait(clock, 1000))
    gone.abort()
    expect([await first(), await second(), await third()]).toEqual([true, false, false])
    latch.set()
    expect([await second(), await third()]).toEqual([true, true])
  })

  it('wakes whoever waits when it is set', async () => {
    const isOver = watch(latch.wait(clock, 1000))
    expect(await isOver()).toBe(false)
    latch.set()
    expect(await isOver()).toBe(true)
  })

  it('lets a wait pass at once when it was set before', async () => {
    latch.set()
    await latch.wait(clock, 1000)
  })

  it('lets one wait pass for any number of sets', async () => {
    latch.set()
    latch.set()
    await latch.wait(clock, 1000)
    const isOver = watch(latch.wait(clock, 1000))
    expect(await isOver()).toBe(false)
    clock.advance(1000)
  })

  it('forgets a set that ended a wait', async () => {
    const first = latch.wait(clock, 1000)
    latch.set()
    await first
    const isOver = watch(latch.wait(clock, 1000))
    expect(await isOver()).toBe(false)
    latch.set()
    expect(await isOver()).toBe(true)
  })

  it('ends a wait after its time and no sooner', async () => {
    const isOver = watch(latch.wait(clock, 1000))
    clock.advance(999)
    expect(await isOver()).toBe(false)
    clock.advance(1)
    expect(await isOver()).toBe(true)
  })

  it('remembers a set that comes after a wait ended by time', async () => {
    const wait = latch.wait(clock, 10)
    clock.advance(10)
    await wait
    latch.set()
    await latch.wait(clock, 1000)
  })

  it('ends a wait when any of its signals aborts, and lets go of all of them', async () => {
    const [one, two] = [new AbortController(), new AbortController()]
    const isOver = watch(latch.wait(clock, 1000, [one.signal, two.signal]))
    expect(await isOver()).toBe(false)
    two.abort()
    expect(await isOver()).toBe(true)
    const next = watch(latch.wait(clock, 1000))
    one.abort()
    expect(await next()).toBe(false)
    latch.set()
    expect(await next()).toBe(true)
  })

  it('does not wait for a signal that has aborted already', async () => {
    await latch.wait(clock, 1000, [AbortSignal.abort()])
  })
})
