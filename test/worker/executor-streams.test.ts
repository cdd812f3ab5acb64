import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryDir } from '../support/processes.ts'
import { outputIn, startExecutor } from '../support/test-executor.ts'

describe('a generator', () => {
  it('streams what it yields; its output is null when it returns nothing', async () => {
    const executor = await startExecutor('yields.ts')
    const run = executor.run({ values: [1, 'two', { three: [3] }, null] })
    expect(outputIn(await run.outcome)).toBeNull()
    expect(run.values).toEqual([1, 'two', { three: [3] }, null])
  })

  it('may be async, behind a promise, and return an output', async () => {
    const executor = await startExecutor('yields-and-returns.ts')
    const run = executor.run({})
    expect(outputIn(await run.outcome)).toEqual({ total: 2 })
    expect(run.values).toEqual(['a', 'b'])
  })

  it('has all that it yields as its output, and not what it returns, when it aggregates', async () => {
    const executor = await startExecutor('yields-an-aggregate.ts')
    const run = executor.run({})
    expect(outputIn(await run.outcome)).toEqual(run.values)
    expect(run.values).toEqual(['a', { text: 'b' }])
  })

  it('never merges what it yields', async () => {
    const executor = await startExecutor('yields.ts')
    const run = executor.run({ values: Array.from({ length: 1000 }, () => 'x') })
    await run.outcome
    expect(run.chunks.all).toHaveLength(1000)
  })

  it('keeps what it has streamed when it throws', async () => {
    const executor = await startExecutor('throws-between-yields.ts')
    const run = executor.run({})
    expect(await run.outcome).toMatchObject({
      kind: 'failed',
      error: { message: 'broke off', code: 'HANDLER_ERROR' },
    })
    const error = { type: 'Error', message: 'broke off', code: 'HANDLER_ERROR' }
    expect(run.values).toEqual(['one', { error }])
  })

  // Seen: without aggregateStream every chunk was called "chunk 0".
  it('fails the job with the place of the chunk that JSON cannot say, counted from 1', async () => {
    const executor = await startExecutor('yields-what-is-not-json.ts')
    const run = executor.run({})
    const outcome = await run.outcome
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'OUTPUT_NOT_JSON' } })
    expect(outcome).toMatchObject({ error: { message: expect.stringContaining('chunk 3.three is NaN') } })
    expect(run.values).toEqual([
      'one',
      'two',
      { error: expect.objectContaining({ code: 'OUTPUT_NOT_JSON' }) },
    ])
  })

  // Seen: chunks waited for a turn of the event loop, which a generator that only computes never gives.
  it('is heard while it computes: a chunk leaves before the next one is asked for', async () => {
    const executor = await startExecutor('works-between-yields.ts')
    const file = join(temporaryDir(), 'received')
    const run = executor.run({ file })
    await run.chunks.first(() => true)
    writeFileSync(file, '')
    await run.outcome
    expect(existsSync(file)).toBe(true)
    expect(run.values).toEqual(['first', 'the first value was received by then'])
  })
})

describe('a chunk', () => {
  it('carries its metrics, on the first of its parts', async () => {
    const executor = await startExecutor('yields-with-metrics.ts')
    const run = executor.run({})
    await run.outcome
    const shown = run.chunks.all.map(({ metrics, part }) => [metrics, part?.as, part?.back, part?.last])
    expect(shown).toEqual([
      ['{"tokens":3,"model":"m"}', undefined, undefined, undefined],
      ['{"tokens":9}', 'text', 0, false],
      [undefined, 'text', 1, true],
      [undefined, undefined, undefined, undefined],
      ['{"pages":1}', 'bytes', 0, true],
    ])
    expect(run.values).toEqual(['first', 'x'.repeat(1_500_000), 'bare', new Uint8Array(Buffer.from('bytes'))])
  })

  // Seen: how much was unsent was looked at between two values only, and one of 300 MB was handed over at once.
  it('of any size waits for room piece by piece', async () => {
    const executor = await startExecutor('yields-thirty-mb.ts', { killGraceMs: 50 })
    const run = executor.run({}, { storesChunks: false })
    await run.chunks.first(() => run.chunks.all.length >= 4)
    // Its log line comes after what it has sent so far.
    await executor.lines.first(({ line }) => line === 'a second later')
    const unsent = run.chunks.all.reduce((bytes, { output }) => bytes + output.byteLength, 0)
    expect(unsent).toBeLessThanOrEqual(5_000_000)
    run.abort('cancelled')
    expect(await run.outcome).toMatchObject({ kind: 'stopped' })
  })

  it('of any size comes back whole from parts of 1 MB or less', async () => {
    const executor = await startExecutor('streams-three-mb.ts')
    const run = executor.run({})
    await run.outcome
    expect(Math.max(...run.chunks.all.map(({ output }) => output.byteLength))).toBeLessThanOrEqual(1_000_000)
    expect([...new Set(run.chunks.all.map(({ part }) => part?.as))]).toEqual([
      'text',
      'array',
      'json',
      'bytes',
    ])
    const [text, list, object, bytes] = run.values as [string, string[], { text: string }, Uint8Array]
    expect(text === '€'.repeat(1_000_000)).toBe(true)
    expect(list.map(({ length }) => length)).toEqual([900_000, 900_001, 900_002])
    expect(object.text === 'y'.repeat(3_000_000)).toBe(true)
    expect(Buffer.compare(bytes, Buffer.alloc(2_000_000, 7))).toBe(0)
  })

  // Seen: metrics of over 1 MB left no room for output, and cutting it never came to an end.
  it.each([64_001, 1_000_000])('fails its job when its metrics are over 64 kB: %i', async (bytes) => {
    const executor = await startExecutor('yields-huge-metrics.ts', { killGraceMs: 50 })
    const outcome = await executor.run({ bytes, of: 'x' }, { executionTimeoutMs: 3000 }).outcome
    expect(outcome).toMatchObject({
      kind: 'failed',
      error: { message: expect.stringContaining('metrics of chunk 1') },
    })
    expect(await executor.outputOf({ bytes: 1, of: 'x' })).toBeNull()
  })

  // Seen: it stood at its yield for ever, and what its finally would have freed stayed taken in a process that went on.
  it.each(['value', 'metrics'])(
    'closes the generator before it tells that its chunk is refused: %s',
    async (bad) => {
      const executor = await startExecutor('holds-something-while-it-streams.ts')
      const freed = join(temporaryDir(), 'freed')
      const outcome = await executor.run({ bad, freed, ms: 100 }).outcome
      expect(existsSync(freed)).toBe(true)
      expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'OUTPUT_NOT_JSON' } })
    },
  )

  it('does not wait for ever for one that does not close', async () => {
    const executor = await startExecutor('holds-something-while-it-streams.ts')
    const freed = join(temporaryDir(), 'freed')
    expect(await executor.errorOf({ bad: 'value', freed, ms: 60_000 })).toMatchObject({
      code: 'OUTPUT_NOT_JSON',
    })
    expect(existsSync(freed)).toBe(false)
  })

  it('carries metrics of almost 64 kB, also of characters that JSON writes longer', async () => {
    const executor = await startExecutor('yields-huge-metrics.ts')
    for (const [bytes, of] of [
      [63_980, 'x'],
      [31_990, '"'],
      [10_660, '\u0001'],
      [15_990, '😀'],
    ] as const) {
      const run = executor.run({ bytes, of })
      expect(await run.outcome).toMatchObject({ kind: 'completed' })
      expect(run.values).toEqual(['small'])
    }
  })
})

describe('a stream whose chunks are not stored yet', () => {
  it('is asked for no more once over 4 MB are unsent', async () => {
    const executor = await startExecutor('streams-for-ever.ts')
    const run = executor.run({}, { storesChunks: false })
    await run.chunks.first(() => run.chunks.all.length === 8)
    run.abort('cancelled')
    expect(await run.outcome).toMatchObject({ kind: 'stopped', reason: 'cancelled' })
    expect(executor.logs.all.map(({ message }) => message)).toEqual([
      ...Array.from({ length: 8 }, (_, at) => `asked for ${at + 1}`),
      'closed',
    ])
  })

  it('goes on as soon as they are', async () => {
    const executor = await startExecutor('streams-for-ever.ts')
    const run = executor.run({}, { storesChunks: false })
    await run.chunks.first(() => run.chunks.all.length === 8)
    for (const { output } of run.chunks.all) run.stored(output.byteLength)
    await run.chunks.first(() => run.chunks.all.length === 16)
    run.abort('cancelled')
    expect(await run.outcome).toMatchObject({ kind: 'stopped', reason: 'cancelled' })
    expect(executor.logs.all.at(-1)).toMatchObject({ message: 'closed' })
  })
})

describe('the aggregate', () => {
  // Seen: a handler that went on with the object it had yielded found its last state in every place.
  it('holds each value as it was when it was streamed', async () => {
    const executor = await startExecutor('yields-one-object.ts')
    const run = executor.run({})
    expect(outputIn(await run.outcome)).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
    expect(run.values).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
  })
})

describe('a process that dies in mid-stream', () => {
  it('says so in its last chunk, with what its job printed', async () => {
    const executor = await startExecutor('streams-then-exits.ts')
    const run = executor.run({})
    const outcome = await run.outcome
    expect(outcome).toMatchObject({ kind: 'failed', error: { code: 'EXITED' } })
    expect(JSON.stringify(outcome)).toContain('Its last lines: last words')
    expect(run.values).toEqual([1, 2, { error: expect.objectContaining({ code: 'EXITED' }) }])
  })
})
