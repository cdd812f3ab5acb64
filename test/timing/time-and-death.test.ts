// The bounds that the worker keeps whatever its handler does: the median of five, and none over four times as much.

import { describe, expect, it, vi } from 'vitest'
import type { Outcome } from '../../src/worker/outcome.ts'
import { startExecutor, type TestExecutor } from '../support/test-executor.ts'

const ROUNDS = 5

async function bounded(boundMs: number, measure: () => Promise<number>): Promise<void> {
  const taken: number[] = []
  for (let round = 0; round < ROUNDS; round += 1) taken.push(await measure())
  const median = taken.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)] ?? Number.NaN
  console.log(
    `median ${median.toFixed(0)} ms of ${taken.map((ms) => ms.toFixed(0)).join(', ')}; bound ${boundMs} ms`,
  )
  expect(median).toBeLessThanOrEqual(boundMs)
  expect(Math.max(...taken)).toBeLessThanOrEqual(4 * boundMs)
}

async function hasSpare({ executor }: TestExecutor): Promise<void> {
  await vi.waitUntil(() => executor.hasSpare, { timeout: 5_000 })
}

async function timed(from: number, outcome: Promise<Outcome>): Promise<number> {
  await outcome
  return performance.now() - from
}

describe('a handler that blocks its process', () => {
  it.each([0, 100])(
    'is reported TIMED_OUT within 250 ms of its deadline and a grace of %i ms',
    async (graceMs) => {
      const executor = await startExecutor('busy-loop.ts', { killGraceMs: graceMs })
      await bounded(250, async () => {
        await hasSpare(executor)
        const run = executor.run({ block: true }, { executionTimeoutMs: 200 })
        const took = await timed(performance.now(), run.outcome)
        expect(await run.outcome).toMatchObject({ kind: 'timedOut' })
        return took - 200 - graceMs
      })
    },
  )

  it('gives its slot to the next job within 300 ms more', async () => {
    const executor = await startExecutor('busy-loop.ts', { killGraceMs: 0 })
    await bounded(300, async () => {
      await hasSpare(executor)
      await executor.run({ block: true }, { executionTimeoutMs: 100 }).outcome
      const from = performance.now()
      return timed(from, executor.run({}).outcome)
    })
  })

  it('is ended by a cancel as soon', async () => {
    const executor = await startExecutor('busy-loop.ts', { killGraceMs: 0 })
    await bounded(250, async () => {
      await hasSpare(executor)
      const run = executor.run({ block: true })
      await executor.lines.first(({ line }) => line.startsWith('pid'))
      const from = performance.now()
      run.abort('cancelled')
      return timed(from, run.outcome)
    })
  })
})

describe('the death of a process', () => {
  it.each([
    ['exits.ts', { code: 0, late: true }, 'EXITED'],
    ['exits.ts', { code: 3, late: true }, 'EXITED'],
    ['kills-itself.ts', { signal: 'SIGSEGV' }, 'CRASHED'],
    ['kills-itself.ts', { signal: 'SIGKILL' }, 'CRASHED'],
    ['throws-in-a-timer.ts', { throw: true }, 'UNCAUGHT'],
    ['rejects-unhandled.ts', {}, 'UNCAUGHT'],
  ])('is reported within 50 ms: %s %j', async (handler, input, code) => {
    const executor = await startExecutor(handler)
    await bounded(50, async () => {
      await hasSpare(executor)
      const run = executor.run(input)
      const took = await timed(performance.now(), run.outcome)
      expect(await run.outcome).toMatchObject({ kind: 'failed', error: { code } })
      return took
    })
  })
})
