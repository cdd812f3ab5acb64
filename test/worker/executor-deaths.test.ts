import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { isRunning } from '../support/children.ts'
import { temporaryDir } from '../support/processes.ts'
import { startExecutor } from '../support/test-executor.ts'

describe('a handler that ends its process', () => {
  it.each([
    [0, false],
    [3, false],
    [0, true],
    [3, true],
  ])('with process.exit(%i) fails its job and says so (late: %s)', async (code, late) => {
    const executor = await startExecutor('exits.ts')
    const error = await executor.errorOf({ code, late })
    expect(error.code).toBe('EXITED')
    expect(error.message).toContain(`process.exit(${code})`)
    expect(error.message).toContain('Return or throw instead.')
  })

  it('is replaced, and the next job runs', async () => {
    const executor = await startExecutor('exits.ts')
    await executor.errorOf({ code: 3 })
    await executor.died.first(({ exitCode }) => exitCode === 3)
    expect(await executor.outputOf({})).toBe('stayed')
  })

  // Seen: a job that began between the last words of a process and its end was sent there, and failed with it.
  it('does not take the next job with it, however soon that begins', async () => {
    const executor = await startExecutor('exits.ts')
    for (let round = 0; round < 3; round += 1) {
      await executor.errorOf({ code: 3 })
      expect(await executor.run({}).outcome).toMatchObject({ kind: 'completed' })
    }
  })

  // The death can be traced to one job, so the other has done nothing.
  it('fails its own job only: a neighbour is given back', async () => {
    const executor = await startExecutor('exits-beside-others.ts')
    const neighbour = executor.run({}, { id: 'neighbour' })
    await executor.logs.first(({ id }) => id === 'neighbour')
    const culprit = executor.run({ exit: true }, { id: 'culprit' })
    expect(await culprit.outcome).toMatchObject({ kind: 'failed', error: { code: 'EXITED' } })
    expect(await neighbour.outcome).toMatchObject({ kind: 'stopped', reason: 'shutdown' })
  })

  it('is charged with the exit of a timer that its file has set, when it ran alone', async () => {
    const env = { ...process.env, EXIT: join(temporaryDir(), 'exit') }
    const executor = await startExecutor('exits-by-itself.ts', { env })
    expect(await executor.errorOf({})).toMatchObject({
      code: 'EXITED',
      message: expect.stringContaining('exited with code 7'),
    })
  })

  // Seen: with output on its way nobody was told whose exit it was, and both jobs went back, counted.
  it('fails its own job only, also while what it said is not all sent', async () => {
    const executor = await startExecutor('exits-in-mid-stream.ts')
    const neighbour = executor.run({}, { id: 'neighbour' })
    await executor.logs.first(({ id }) => id === 'neighbour')
    const culprit = executor.run({ exit: true }, { id: 'culprit' })
    expect(await culprit.outcome).toMatchObject({
      kind: 'failed',
      error: { code: 'EXITED', message: expect.stringContaining('process.exit(3)') },
    })
    expect(await neighbour.outcome).toMatchObject({ kind: 'stopped', reason: 'shutdown' })
  })
})

describe('an accident outside of the handler call', () => {
  it('fails the job whose timer threw, with the error and its stack', async () => {
    const executor = await startExecutor('throws-in-a-timer.ts')
    const error = await executor.errorOf({ throw: true })
    expect(error).toMatchObject({ code: 'UNCAUGHT', type: 'TypeError', message: 'thrown by a timer' })
    expect(error.stack).toContain('throws-in-a-timer.ts')
  })

  it('fails the job whose promise nobody awaits', async () => {
    const executor = await startExecutor('rejects-unhandled.ts')
    const error = await executor.errorOf({})
    expect(error).toMatchObject({ code: 'UNCAUGHT', type: 'RangeError', message: 'nobody awaits this' })
  })

  // Seen: what was said after the last word broke it off: the process exited with 0, and its neighbours were charged.
  it('fails its own job only, with the error, also while what it said is not all sent and others speak on', async () => {
    const executor = await startExecutor('rejects-in-mid-stream.ts')
    const neighbour = executor.run({}, { id: 'neighbour' })
    await executor.logs.first(({ id }) => id === 'neighbour')
    const culprit = executor.run({ fail: true }, { id: 'culprit' })
    expect(await culprit.outcome).toMatchObject({
      kind: 'failed',
      error: { code: 'UNCAUGHT', type: 'RangeError', message: 'the first' },
    })
    expect(await neighbour.outcome).toMatchObject({ kind: 'stopped', reason: 'shutdown' })
  })

  it('has the process replaced, and the next job runs', async () => {
    const executor = await startExecutor('throws-in-a-timer.ts')
    await executor.errorOf({ throw: true })
    await executor.died.first(() => true)
    expect(await executor.outputOf({})).toBe('calm')
  })

  it('does not take the next job with it, however soon that begins', async () => {
    const executor = await startExecutor('throws-in-a-timer.ts')
    await executor.errorOf({ throw: true })
    expect(await executor.run({}).outcome).toMatchObject({ kind: 'completed' })
  })
})

describe('a process that is killed from outside', () => {
  it.each(['SIGKILL', 'SIGSEGV', 'SIGTERM'] as const)(
    'fails the job that ran alone in it: %s',
    async (signal) => {
      const executor = await startExecutor('kills-itself.ts')
      const error = await executor.errorOf({ signal })
      expect(error.code).toBe('CRASHED')
      expect(error.message).toContain(`The handler's process was ended by ${signal} while the job ran.`)
      expect(error.message).toContain('last words')
      expect(await executor.outputOf({})).toBe('alive')
    },
  )

  it('tells who it was that died, and of what', async () => {
    const executor = await startExecutor('kills-itself.ts')
    await executor.errorOf({ signal: 'SIGKILL' }, { id: 'job-9' })
    expect(executor.died.all).toMatchObject([
      { signal: 'SIGKILL', exitCode: null, ids: ['job-9'], wasKilled: false },
    ])
  })

  // Seen: where native code was deep the engine's words stood further up than anybody looked.
  it.each([
    [{}, 24],
    [{ by: 'cloning' }, 300],
  ])('is told from one that ran out of memory: %j', async (input, mb) => {
    const env = { ...process.env, NODE_OPTIONS: `--max-old-space-size=${mb}` }
    const executor = await startExecutor('fills-its-memory.ts', { env })
    expect(await executor.errorOf(input)).toMatchObject({ code: 'OUT_OF_MEMORY' })
  })

  // Seen: the end of a process was told only once everybody had let go of its output, which a program that it had
  // started may hold for as long as it runs: its job never ended, and its slot was never free again.
  it('fails its job at once, also when a program it started lives on and shares its output', async () => {
    const executor = await startExecutor('leaves-a-grandchild.ts')
    const run = executor.run({ die: true })
    const { line } = await executor.lines.first((said) => said.line.startsWith('pids '))
    const [leader, grandchild] = line.split(' ').slice(1).map(Number) as [number, number]
    onTestFinished(() => endGroup(leader))
    const late = new Promise<'nothing within two seconds'>((resolve) => {
      const timer = setTimeout(() => resolve('nothing within two seconds'), 2000)
      onTestFinished(() => clearTimeout(timer))
    })
    expect(await Promise.race([run.outcome, late])).toMatchObject({
      kind: 'failed',
      error: { code: 'CRASHED' },
    })
    expect(await executor.outputOf({})).toBe('alive')
    await vi.waitUntil(() => !isRunning(leader) && !isRunning(grandchild), { timeout: 3000 })
  })
})

function endGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL')
  } catch {
    // It is gone, as it should be.
  }
}
