import { describe, expect, it } from 'vitest'
import { afterDeath, startsAllowed, type RestartBackoff } from '../../src/fleet/rules/restart-backoff.ts'
import { NOW, some } from '../support/fleet-views.ts'

/** The record after so many deaths, each as soon as a start was allowed, 100 ms after it. */
function deathsInARow(count: number, jitter = 0): RestartBackoff {
  let backoff: RestartBackoff | undefined
  let at = NOW
  for (let n = 0; n < count; n += 1) {
    backoff = afterDeath(backoff, { version: 1, at: at + 100, startedAt: at, reason: 'exit code 1' }, jitter)
    at = backoff.until
  }
  if (!backoff) throw new Error('No death, no record.')
  return backoff
}

const waitOf = ({ at, until }: RestartBackoff): number => until - at

describe('a worker that died', () => {
  it('is replaced after waits that double up to a minute', () => {
    const waits = [1, 2, 3, 4, 5, 6, 7, 8, 20].map((count) => waitOf(deathsInARow(count, 0.999_999)))
    expect(waits.map((wait) => Math.round(wait / 1_000))).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60])
  })

  it('has its wait jittered over the upper half', () => {
    expect([0, 0.5].map((jitter) => waitOf(deathsInARow(4, jitter)))).toEqual([4_000, 6_000])
  })

  it('is told of with its reason while its successor waits', () => {
    expect(startsAllowed(deathsInARow(1), [], NOW + 100)).toEqual({
      most: 0,
      reason:
        'the next start of version 1 waits 0.5 s more: a worker died 0.1 s after its start, before it was ready: exit code 1',
    })
  })

  it('is one death together with those that died of the same', () => {
    const first = deathsInARow(1)
    const second = afterDeath(first, { version: 1, at: first.at + 1, startedAt: 0, reason: 'SIGKILL' }, 0)
    expect([second.deaths, second.until]).toEqual([1, first.until])
  })

  it('begins the count again where it had lived long', () => {
    const before = deathsInARow(5)
    const at = before.until + 70_000
    const after = afterDeath(
      before,
      { version: 1, at, startedAt: at - 61_000, readyAt: at - 60_000, reason: '' },
      0,
    )
    expect(after.deaths).toBe(1)
  })

  it('does not where it was never ready', () => {
    const before = deathsInARow(2)
    const at = before.until + 300_000
    expect(afterDeath(before, { version: 1, at, startedAt: at - 300_000, reason: '' }, 0).deaths).toBe(3)
  })
})

describe('after a wait', () => {
  it('all that are missing may start', () => {
    const backoff = deathsInARow(2)
    expect(startsAllowed(backoff, [], backoff.until).most).toBe(Infinity)
  })

  it('one at a time may after three deaths in a row', () => {
    const backoff = deathsInARow(3)
    expect(startsAllowed(backoff, [], backoff.until).most).toBe(1)
    expect(startsAllowed(backoff, some(1, 'starting'), backoff.until).most).toBe(0)
    expect(startsAllowed(backoff, some(1, 'starting', { version: 2 }), backoff.until).most).toBe(1)
  })

  it('the count is over once a worker has been ready for a minute, and none died', () => {
    const backoff = deathsInARow(9)
    const allowed = (waitedMs: number, forMs: number) =>
      startsAllowed({ ...backoff, until: NOW - waitedMs }, some(1, 'running', { forMs }), NOW).most
    expect([allowed(60_000, 60_000), allowed(60_000, 90_000)]).toEqual([Infinity, Infinity])
    expect([allowed(60_000, 59_999), allowed(59_999, 90_000)]).toEqual([1, 1])
  })
})
