import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkPayload } from '../../src/worker/messages.ts'
import { openExecutor, type TestExecutor } from '../support/test-executor.ts'

// Seen: such a handler made reports that the queue refused, and its worker sent them again for ever: the leases of all
// its other jobs lapsed.
describe('a handler that replaces what the runtime uses', () => {
  let executor: TestExecutor
  beforeAll(async () => void (executor = await openExecutor('replaces-intrinsics.ts')))
  afterAll(() => executor.close())

  it.each([
    'a clock of the far future',
    'a clock that stands',
    'JSON.stringify',
    'JSON.parse',
    'setImmediate',
    'queueMicrotask',
    'Buffer.from',
    'Buffer.concat',
    'Buffer.byteLength',
  ])('reports what is true all the same, and so do the jobs after it: %s', async (replace) => {
    const from = performance.now()
    const run = executor.run({ replace })
    const outcome = await run.outcome
    expect(outcome).toMatchObject({ kind: 'completed' })
    expect(outcome.executionMs).toBeLessThanOrEqual(Math.round(performance.now() - from))
    expect(run.progress).toEqual([{ replaced: replace }])
    expect(await executor.outputOf({ replace: '' })).toEqual({ fine: true })
    expect(await executor.errorOf({ replace, fails: true })).toMatchObject({ message: 'thrown' })
    expect(executor.died.all).toEqual([])
  })
})

describe('a payload', () => {
  it.each([
    ['progress', 0],
    ['progress', 64_001],
    ['completed', 0],
    ['completed', 20_000_001],
    ['chunk', 0],
    ['chunk', 1_000_001],
  ] as const)('of a %s is refused with %i bytes', (type, bytes) => {
    const message = { type, run: 1, executionMs: 1 }
    expect(() => checkPayload(message, new Uint8Array(bytes))).toThrow(`${bytes} bytes; it has from 1 to`)
    expect(() => checkPayload(message, new Uint8Array(1))).not.toThrow()
  })
})
