import { describe, expect, it } from 'vitest'
import { childrenLeft } from '../support/children.ts'
import { startExecutor } from '../support/test-executor.ts'

const waiting = ({ message }: { message: string }): boolean => message.startsWith('waiting')

describe('an abort', () => {
  it.each(['cancelled', 'lease-lost', 'shutdown'] as const)(
    'is seen by the handler with its reason: %s',
    async (reason) => {
      const executor = await startExecutor('ends-on-abort.ts')
      const run = executor.run({})
      await executor.logs.first(waiting)
      run.abort(reason)
      expect(await run.outcome).toMatchObject({ kind: 'stopped', reason })
      const messages = executor.logs.all.map(({ message }) => message)
      expect(messages).toContain(`reason AbortError: ${reason}`)
      expect(messages).toContain('tidied up')
      expect(executor.killing.all).toEqual([])
      expect(executor.died.all).toEqual([])
    },
  )

  it('decides the outcome, whatever the handler still does', async () => {
    const executor = await startExecutor('ends-on-abort.ts')
    for (const input of [{}, { stream: true }, { fail: true }]) {
      const seen = executor.logs.all.length
      const run = executor.run(input)
      await executor.logs.first((log) => waiting(log) && executor.logs.all.indexOf(log) >= seen)
      run.abort('cancelled')
      expect(await run.outcome).toMatchObject({ kind: 'stopped', reason: 'cancelled' })
    }
  })

  it('has the first reason, not a later one', async () => {
    const executor = await startExecutor('ends-on-abort.ts')
    const run = executor.run({}, { executionTimeoutMs: 60_000 })
    await executor.logs.first(waiting)
    run.abort('lease-lost')
    run.abort('cancelled')
    run.abort('timeout')
    expect(await run.outcome).toMatchObject({ kind: 'stopped', reason: 'lease-lost' })
  })

  it('of a job that has ended changes nothing', async () => {
    const executor = await startExecutor('echo.ts', { killGraceMs: 0 })
    const run = executor.run({ a: 1 })
    expect(await run.outcome).toMatchObject({ kind: 'completed' })
    run.abort('cancelled')
    expect(await executor.outputOf({ b: 2 })).toEqual({ b: 2 })
    expect(executor.killing.all).toEqual([])
  })

  it('stops one job and not its neighbour', async () => {
    const executor = await startExecutor('ends-on-abort.ts')
    const [one, two] = [executor.run({}, { id: 'one' }), executor.run({}, { id: 'two' })]
    for (const id of ['one', 'two']) await executor.logs.first((log) => log.id === id && waiting(log))
    one.abort('cancelled')
    expect(await one.outcome).toMatchObject({ kind: 'stopped' })
    expect(executor.logs.all.some(({ id, message }) => id === 'two' && message.startsWith('reason'))).toBe(
      false,
    )
    two.abort('shutdown')
    expect(await two.outcome).toMatchObject({ kind: 'stopped', reason: 'shutdown' })
  })

  it.each(['ignores-the-abort.ts', 'ignores-sigterm.ts'])(
    'that the handler ignores ends its process after the grace, and the next job runs: %s',
    async (handler) => {
      const executor = await startExecutor(handler, { killGraceMs: 50 })
      const run = executor.run({ stay: true })
      await executor.logs.first(waiting)
      run.abort('cancelled')
      expect(await run.outcome).toMatchObject({ kind: 'stopped', reason: 'cancelled' })
      expect(executor.killing.all).toEqual([{ id: 'job-1', reason: 'cancelled', graceMs: 50 }])
      expect(await executor.outputOf({})).toBe('done')
    },
  )

  it('reaches a job that waits for a process', async () => {
    const executor = await startExecutor('ignores-the-abort.ts', { killGraceMs: 50 })
    const first = executor.run({ stay: true })
    await executor.logs.first(waiting)
    first.abort('cancelled')
    await first.outcome
    const second = executor.run({ stay: true })
    second.abort('lease-lost')
    expect(await second.outcome).toMatchObject({ kind: 'stopped', reason: 'lease-lost' })
  })
})

describe('a job past its time', () => {
  it('has timed out when its handler listens to its signal, and keeps its process', async () => {
    const executor = await startExecutor('ends-on-abort.ts')
    const outcome = await executor.run({}, { executionTimeoutMs: 100 }).outcome
    expect(outcome).toMatchObject({ kind: 'timedOut', error: { type: 'TimeoutError', code: 'TIMED_OUT' } })
    expect(outcome).toMatchObject({
      error: { message: 'The handler ran longer than 100 ms; its signal was aborted, and it ended in time.' },
    })
    expect(outcome.executionMs).toBeGreaterThanOrEqual(99)
    expect(executor.logs.all.map(({ message }) => message)).toContain('reason AbortError: timeout')
    expect(executor.died.all).toEqual([])
  })

  it.each([{}, { stream: true }, { fail: true }])(
    'has timed out, whatever its handler still does: %j',
    async (input) => {
      const executor = await startExecutor('ends-on-abort.ts')
      expect(await executor.run(input, { executionTimeoutMs: 100 }).outcome).toMatchObject({
        kind: 'timedOut',
      })
    },
  )

  it('has timed out when its handler blocks the process, and the next job runs', async () => {
    const executor = await startExecutor('busy-loop.ts', { killGraceMs: 50 })
    const outcome = await executor.run({ block: true }, { executionTimeoutMs: 100 }).outcome
    expect(outcome).toMatchObject({
      kind: 'timedOut',
      error: {
        code: 'TIMED_OUT',
        message:
          'The handler ran longer than 100 ms; its signal was aborted, and its process was ended after 50 ms more.',
      },
    })
    expect(outcome.executionMs).toBeGreaterThanOrEqual(149)
    expect(await executor.outputOf({})).toBe('done')
  })

  it('has timed out when its handler awaits something else, and the next job runs', async () => {
    const executor = await startExecutor('ignores-the-abort.ts', { killGraceMs: 50 })
    expect(await executor.run({ stay: true }, { executionTimeoutMs: 100 }).outcome).toMatchObject({
      kind: 'timedOut',
    })
    expect(await executor.outputOf({})).toBe('done')
  })

  it('takes no neighbour with it: that is given back, not failed', async () => {
    const executor = await startExecutor('busy-loop.ts', { killGraceMs: 50 })
    const neighbour = executor.run({ wait: true }, { id: 'neighbour' })
    await executor.logs.first(waiting)
    const blocking = executor.run({ block: true }, { id: 'blocking', executionTimeoutMs: 100 })
    expect(await blocking.outcome).toMatchObject({ kind: 'timedOut' })
    expect(await neighbour.outcome).toMatchObject({ kind: 'stopped', reason: 'shutdown' })
    const { ids } = await executor.died.first(() => true)
    expect(ids.toSorted()).toEqual(['blocking', 'neighbour'])
  })

  it('is timed from its own start when it had to wait for a process', async () => {
    const executor = await startExecutor('busy-loop.ts', { killGraceMs: 50 })
    await executor.run({ block: true }, { executionTimeoutMs: 100 }).outcome
    expect(await executor.run({}, { executionTimeoutMs: 5000 }).outcome).toMatchObject({ kind: 'completed' })
  })
})

describe('closing', () => {
  it('ends an idle process', async () => {
    const executor = await startExecutor('echo.ts')
    await executor.outputOf({})
    await executor.close()
  })

  it.each(['ignores-the-abort.ts', 'ignores-sigterm.ts'])(
    'ends a process with a job in it, which is stopped: %s',
    async (name) => {
      const executor = await startExecutor(name)
      const run = executor.run({ stay: true })
      await executor.logs.first(waiting)
      await executor.close()
      expect(await run.outcome).toMatchObject({ kind: 'stopped', reason: 'shutdown' })
    },
  )

  it('ends a replacement that is about to start', async () => {
    const executor = await startExecutor('ignores-the-abort.ts', { killGraceMs: 0 })
    const run = executor.run({ stay: true })
    await executor.logs.first(waiting)
    run.abort('cancelled')
    await run.outcome
    await executor.close()
    expect(childrenLeft()).toEqual([])
  })

  it('stops a job that waits for a process', async () => {
    const executor = await startExecutor('ignores-the-abort.ts', { killGraceMs: 0 })
    const run = executor.run({ stay: true })
    await executor.logs.first(waiting)
    run.abort('cancelled')
    await run.outcome
    const late = executor.run({ stay: true })
    await executor.close()
    expect(await late.outcome).toMatchObject({ kind: 'stopped', reason: 'shutdown' })
  })
})
