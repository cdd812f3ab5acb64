import { expect, it } from 'vitest'
import { runSweeper } from '../../src/queue/sweeper.ts'
import { FakeClock } from '../support/fake-clock.ts'

const LEASE_MS = 10_000

/** What each of these rounds, which take so long or fail, was told of how late it may be. */
async function toldOf(rounds: readonly (number | 'fails')[]): Promise<number[]> {
  const clock = new FakeClock()
  const stopping = new AbortController()
  const told: number[] = []
  const sweep = async (_now: number, { servedMs }: { servedMs: number }): Promise<number> => {
    told.push(servedMs)
    const round = rounds[told.length - 1]
    if (told.length === rounds.length) stopping.abort()
    if (round === 'fails') throw new Error('The store is away.')
    clock.advance(round ?? 0)
    return 0
  }
  const store = { jobs: { sweep } }
  const running = runSweeper(
    { store, clock, leaseMs: LEASE_MS, everyMs: 500, onError: () => {} },
    stopping.signal,
  )
  while (!stopping.signal.aborted) {
    await new Promise(setImmediate)
    clock.advance(500)
  }
  await running
  expect(clock.pending).toBe(0)
  return told
}

it('takes a store that is slow for one that was there', async () => {
  expect(await toldOf([2_400, 2_400, 0, 0])).toEqual([1_500, 3_900, 3_900, 1_500])
})

it('takes no longer than half a lease for slowness, and no time in which the store failed', async () => {
  expect(await toldOf([60_000, 'fails', 0])).toEqual([1_500, 6_500, 1_500])
})
