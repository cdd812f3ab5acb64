import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { isRunning } from '../support/children.ts'
import { fixture, longshore, temporaryDir } from '../support/processes.ts'
import { startExecutor, type TestExecutor } from '../support/test-executor.ts'

async function pidOf(executor: TestExecutor, input: object = {}): Promise<number> {
  const output = (await executor.outputOf(input)) as number | { pid: number }
  return typeof output === 'number' ? output : output.pid
}

describe('several executors', () => {
  it('share the jobs evenly', async () => {
    const executor = await startExecutor('tells-its-process.ts', {
      settings: { executors: 3, spare: 'none' },
    })
    await vi.waitUntil(() => executor.executor.readyProcesses === 3, { timeout: 10_000 })
    const pids = await Promise.all(Array.from({ length: 6 }, () => pidOf(executor, { ms: 100 })))
    const counts = [...new Set(pids)].map((pid) => pids.filter((one) => one === pid).length)
    expect(counts).toEqual([2, 2, 2])
  })

  it('do not end with one of them', async () => {
    const executor = await startExecutor('dies-with-neighbours.ts', { settings: { executors: 2 } })
    await vi.waitUntil(() => executor.executor.readyProcesses === 2, { timeout: 10_000 })
    const bystander = executor.run({}, { id: 'bystander' })
    await executor.logs.first(({ id }) => id === 'bystander')
    expect(await executor.run({ kill: true }, { id: 'victim' }).outcome).toMatchObject({
      kind: 'failed',
      error: { code: 'CRASHED' },
    })
    bystander.abort('cancelled')
    expect(await bystander.outcome).toMatchObject({ kind: 'stopped', reason: 'cancelled' })
    expect(executor.killing.all).toEqual([])
  })
})

describe('a process is replaced between jobs', () => {
  it('when the definition says so', async () => {
    const executor = await startExecutor('refreshes.ts')
    const pids = [await pidOf(executor), await pidOf(executor), await pidOf(executor)]
    expect(new Set(pids).size).toBe(3)
    await vi.waitUntil(() => pids.every((pid) => !isRunning(pid)), { timeout: 5_000 })
  })

  // Seen: a job that came while another one ran in a process that is for one job only was put beside it.
  it('when the definition says so, also where several jobs run at a time', async () => {
    const executor = await startExecutor('refreshes.ts')
    const outputs = await Promise.all([1, 2, 3].map(() => executor.outputOf({ ms: 300 })))
    expect(new Set(outputs).size).toBe(3)
  })

  // Seen: their processes were loaded one after the other, so that the last of many jobs waited for all of these loads.
  it('when the definition says so, those of waiting jobs loaded side by side, and no more of them', async () => {
    const env = { ...process.env, LOADED: join(temporaryDir(), 'loaded') }
    const executor = await startExecutor('refreshes-slowly.ts', { env, settings: { spare: 'none' } })
    const runs = [1, 2, 3, 4].map((n) => executor.run({}, { id: `job-${n}` }))
    for (const n of [1, 2, 3, 4]) await executor.logs.first(({ id }) => id === `job-${n}`)
    expect(executor.executor.processes).toBe(4)
    for (const run of runs) run.abort('cancelled')
    await Promise.all(runs.map(({ outcome }) => outcome))
    await vi.waitUntil(() => executor.executor.processes === 1, { timeout: 10_000 })
  })

  it('when the handler asks for it, which is no part of its output', async () => {
    const executor = await startExecutor('tells-its-process.ts')
    const first = await pidOf(executor)
    expect(await executor.outputOf({ refresh: true })).toEqual({ pid: first })
    expect(await pidOf(executor)).not.toBe(first)
  })

  it('after so many jobs', async () => {
    const executor = await startExecutor('tells-its-process.ts', { settings: { maxJobsPerExecutor: 2 } })
    const pids = []
    for (let n = 0; n < 6; n += 1) pids.push(await pidOf(executor))
    expect(pids[1]).toBe(pids[0])
    expect(pids[3]).toBe(pids[2])
    expect(new Set(pids).size).toBe(3)
  })

  it('when it has grown too large', async () => {
    const executor = await startExecutor('tells-its-process.ts', { settings: { maxMemoryMb: 300 } })
    const first = await pidOf(executor)
    expect(await pidOf(executor, { mb: 400 })).toBe(first)
    expect(await pidOf(executor)).not.toBe(first)
  })

  it('and lets the jobs that run in it end there', async () => {
    const executor = await startExecutor('tells-its-process.ts')
    const slow = executor.run({ ms: 600 })
    const first = await pidOf(executor, { refresh: true })
    const second = await pidOf(executor)
    expect(second).not.toBe(first)
    expect(await slow.outcome).toMatchObject({ kind: 'completed' })
    await vi.waitUntil(() => !isRunning(first), { timeout: 5_000 })
  })
})

describe('a process that is to be replaced while a job still runs in it', () => {
  function withLock(): { env: NodeJS.ProcessEnv; setups: () => number } {
    const file = join(temporaryDir(), 'setups')
    const env = { ...process.env, LOCK: `longshore-test-${process.pid}-${Date.now()}`, SETUPS: file }
    return { env, setups: () => readFileSync(file, 'utf8').split('\n').length - 1 }
  }

  // Seen: its successor was set up beside it, failed five times for want of its port, and the worker gave up and ended the job.
  it.each<[string, { maxJobsPerExecutor?: number; maxMemoryMb?: number }, object]>([
    ['after so many jobs', { maxJobsPerExecutor: 1 }, {}],
    ['as a job has asked for', {}, { refresh: true }],
    ['as it has grown too large', { maxMemoryMb: 1 }, {}],
  ])('has no successor before that job has ended: %s', async (_when, settings, input) => {
    const { env, setups } = withLock()
    const executor = await startExecutor('has-a-lock.ts', { env, settings })
    const slow = executor.run({ ms: 1_200 })
    if (settings.maxJobsPerExecutor === undefined) await executor.outputOf(input)
    expect(await slow.outcome).toMatchObject({ kind: 'completed' })
    expect(setups()).toBe(1)
    expect(await executor.outputOf({})).toBe('done')
    expect(setups()).toBeGreaterThan(1)
    expect(executor.unready.all.every(({ isBeside }) => isBeside)).toBe(true)
  })

  it('is waited for when its successor cannot be set up beside it, which is no failed start', async () => {
    const { env, setups } = withLock()
    const executor = await startExecutor('has-a-lock.ts', { env, settings: { maxJobsPerExecutor: 1 } })
    const slow = executor.run({ ms: 2_500 })
    const waiting = executor.run({})
    const also = executor.run({})
    expect(await slow.outcome).toMatchObject({ kind: 'completed' })
    expect(executor.unready.all).toMatchObject([{ failures: 1, isBeside: true }])
    expect(setups()).toBe(2)
    expect(await waiting.outcome).toMatchObject({ kind: 'completed' })
    expect(await also.outcome).toMatchObject({ kind: 'completed' })
  })

  it('keeps no job waiting whose process can be loaded beside it', async () => {
    const executor = await startExecutor('tells-its-process.ts', { settings: { maxJobsPerExecutor: 1 } })
    const slow = executor.run({ ms: 60_000 })
    const [one, other] = await Promise.all([pidOf(executor), pidOf(executor)])
    expect(one).not.toBe(other)
    slow.abort('cancelled')
    await slow.outcome
  })
})

describe('the spare', () => {
  it.each(['none', 'bare', 'warm'] as const)('%s takes the place of a process that died', async (spare) => {
    const executor = await startExecutor('busy-loop.ts', { killGraceMs: 0, settings: { spare } })
    if (spare !== 'none') await vi.waitUntil(() => executor.executor.processes === 2, { timeout: 5_000 })
    expect(await executor.run({ block: true }, { executionTimeoutMs: 50 }).outcome).toMatchObject({
      kind: 'timedOut',
    })
    expect(await executor.outputOf({})).toBe('done')
    const expected = spare === 'none' ? 1 : 2
    await vi.waitUntil(() => executor.executor.processes === expected, { timeout: 5_000 })
  })

  it.each([
    ['bare', 1],
    ['warm', 2],
  ] as const)('has imported the handler only when it is warm: %s', async (spare, imports) => {
    const file = join(temporaryDir(), 'imports')
    const env = { ...process.env, IMPORTS: file }
    const executor = await startExecutor('notes-its-imports.ts', { env, settings: { spare } })
    await vi.waitUntil(() => executor.executor.processes === 2, { timeout: 5_000 })
    const count = (): number => readFileSync(file, 'utf8').split('\n').length - 1
    await vi.waitUntil(() => count() === imports, { timeout: 5_000 })
    expect(await executor.outputOf({})).toBe('done')
    expect(count()).toBe(imports)
  })
})

describe('a warm spare that cannot be set up beside the process that has what it needs', () => {
  // Seen: its setup() ran again without a pause and in silence, and its failures held up the jobs that waited.
  it('is tried a few times, told of, and never in the way of a replacement', async () => {
    const file = join(temporaryDir(), 'setups')
    const env = { ...process.env, LOCK: `longshore-test-${process.pid}-${Date.now()}`, SETUPS: file }
    const executor = await startExecutor('has-a-lock.ts', { env, settings: { spare: 'warm' } })
    await vi.waitUntil(() => executor.unready.all.length === 3, { timeout: 10_000 })
    expect(executor.unready.all.map(({ failures, isSpare }) => [failures, isSpare])).toEqual([
      [1, true],
      [2, true],
      [3, true],
    ])
    // The next one is bare: it runs no setup() until it is needed.
    await vi.waitUntil(() => executor.executor.hasSpare, { timeout: 10_000 })
    expect(readFileSync(file, 'utf8').split('\n').length - 1).toBe(4)
    for (let round = 0; round < 3; round += 1) {
      await executor.errorOf({ exit: true })
      const from = performance.now()
      expect(await executor.outputOf({})).toBe('done')
      expect(performance.now() - from).toBeLessThan(2_500)
    }
    // One may have been tried before the process that it replaces had ended.
    expect(executor.unready.all.every(({ isSpare, isBeside }) => isSpare || isBeside)).toBe(true)
  })
})

describe('a handler that gets ready only once', () => {
  it('is given up after some tries, with the reason, and its jobs go back', async () => {
    const env = { ...process.env, READY_ONCE: join(temporaryDir(), 'mark') }
    const executor = await startExecutor('ready-only-once.ts', { env, settings: { spare: 'none' } })
    expect(await executor.errorOf({})).toMatchObject({ code: 'EXITED' })
    const waiting = executor.run({})
    const cause = await executor.executor.hopeless
    expect(cause.message).toContain('the model is gone')
    // One may have been tried before the process that it replaces had ended.
    expect(executor.unready.all.filter(({ isBeside }) => !isBeside).length).toBe(5)
    waiting.abort('shutdown')
    expect(await waiting.outcome).toMatchObject({ kind: 'stopped', reason: 'shutdown' })
  })
})

describe('a death that cannot be traced', () => {
  it("is nobody's where several jobs ran, and the next attempt of each runs alone", async () => {
    const executor = await startExecutor('dies-with-neighbours.ts')
    const one = executor.run({}, { id: 'one' })
    await executor.logs.first(({ id }) => id === 'one')
    const two = executor.run({ kill: true }, { id: 'two' })
    for (const run of [one, two]) {
      expect(await run.outcome).toMatchObject({ kind: 'lost', error: { code: 'CRASHED' } })
    }
    const seen = executor.logs.all.length
    const alone = executor.run({}, { id: 'alone', isAlone: true })
    const behind = executor.run({}, { id: 'behind' })
    await executor.logs.first((log) => log.id === 'alone' && executor.logs.all.indexOf(log) >= seen)
    expect(executor.logs.all.some(({ id }) => id === 'behind')).toBe(false)
    alone.abort('cancelled')
    await executor.logs.first(({ id }) => id === 'behind')
    behind.abort('cancelled')
    expect(await behind.outcome).toMatchObject({ kind: 'stopped' })
  })

  it('lets a job that must be alone wait for its neighbours to end, and no longer', async () => {
    const executor = await startExecutor('dies-with-neighbours.ts')
    const first = executor.run({}, { id: 'first' })
    await executor.logs.first(({ id }) => id === 'first')
    const alone = executor.run({}, { id: 'alone', isAlone: true })
    expect(executor.logs.all.some(({ id }) => id === 'alone')).toBe(false)
    first.abort('cancelled')
    await executor.logs.first(({ id }) => id === 'alone')
    alone.abort('cancelled')
    await alone.outcome
  })
})

describe('what a job leaves behind', () => {
  // Seen: the accident of a job that had ended failed whichever job was next in its process.
  it('fails nobody else when it throws', async () => {
    const executor = await startExecutor('leaves-a-timer.ts')
    expect(await executor.outputOf({ ms: 200 })).toBe('returned')
    const next = executor.run({}, { id: 'next' })
    await executor.logs.first(({ id }) => id === 'next')
    expect(await next.outcome).toMatchObject({ kind: 'stopped', reason: 'shutdown' })
    expect(executor.accidents.all).toMatchObject([{ error: { message: 'left behind' }, ids: ['next'] }])
  })
})

describe('a scratch folder', () => {
  // Seen: what could not be removed ended the worker, and a process that was replaced left its folders behind.
  it('is removed though its job has locked it and its process has gone', async () => {
    const executor = await startExecutor('leaves-a-locked-folder.ts')
    const { scratchDir } = (await executor.outputOf({})) as { scratchDir: string }
    await vi.waitUntil(() => !existsSync(scratchDir), { timeout: 5_000 })
    await executor.outputOf({})
  })
})

describe('the next job in a process', () => {
  // Seen: it was sent into a process that nothing could be said to any more, and timed out there.
  it('is not harmed by one that closed the descriptor of the supervisor', async () => {
    const executor = await startExecutor('closes-its-socket.ts')
    expect(await executor.outputOf({ close: true })).toBe('done')
    await executor.died.first(() => true)
    expect(await executor.outputOf({})).toBe('done')
  })

  // Seen: a job's record said what another one had printed, and late lines bore the wrong job's id.
  it('is not told what an earlier one printed, nor is that called its own', async () => {
    const executor = await startExecutor('prints-late.ts')
    const s3Config = {
      accessId: 'id-id',
      accessSecret: 'hush-hush',
      bucketName: 'b',
      endpointUrl: 'http://h',
    }
    await executor.outputOf({ text: 'private hush-hush' }, { id: 'a', s3Config })
    const error = await executor.errorOf({ die: true }, { id: 'b' })
    expect(error.code).toBe('CRASHED')
    expect(error.message).not.toContain('private')
    const late = await executor.lines.first(({ line }) => line.startsWith('late'))
    expect(late).toMatchObject({ ids: ['a'], line: 'late: private [masked]' })
  })
})

describe("an accident of nobody's", () => {
  // Seen: a process that took its time to end was killed, and its job went back uncounted, again and again.
  // Nor did it deserve to fail: the next job there would have met the same.
  it('gives back the job that ran alone, the attempt counted, however long its process takes to end', async () => {
    const executor = await startExecutor('dies-slowly.ts')
    expect(await executor.run({}).outcome).toMatchObject({
      kind: 'lost',
      error: { code: 'UNCAUGHT', message: 'the connection is gone' },
    })
  })

  // Seen: a process whose file left something that threw was replaced at once, for ever, and nobody was told why.
  it.each([
    ['the file', 'throws-when-idle.ts', {}],
    ['setup()', 'throws-when-idle.ts', { FROM_SETUP: '1' }],
  ])(
    'counts as a failed start when the process is idle, and ends in giving up: %s',
    async (_of, name, more) => {
      const executor = await startExecutor(name, { env: { ...process.env, ...more } })
      const cause = await executor.executor.hopeless
      expect(cause.message).toContain('Error: the database refuses')
      expect(cause.message).toContain('throws-when-idle.ts:')
      expect(executor.unready.all.map(({ failures }) => failures)).toEqual([1, 2, 3, 4, 5])
      expect(executor.died.all).toHaveLength(5)
    },
  )

  // Seen: five executors that lost one database together were five tries, and the worker ended without another.
  it('counts once for all the processes that it ends together', async () => {
    const executor = await startExecutor('throws-when-idle.ts', { settings: { executors: 5 } })
    let isHopeless = false
    void executor.executor.hopeless.then(() => (isHopeless = true))
    await vi.waitUntil(() => executor.died.all.length >= 10, { timeout: 20_000 })
    expect(isHopeless).toBe(false)
    await executor.executor.hopeless
    expect(new Set(executor.unready.all.map(({ failures }) => failures))).toEqual(new Set([1, 2, 3, 4, 5]))
  })

  it('is forgiven as long as jobs end in between', async () => {
    const executor = await startExecutor('throws-when-idle.ts', { env: { ...process.env, AFTER_JOB: '1' } })
    for (let round = 1; round <= 6; round += 1) {
      expect(await executor.outputOf({})).toBe('done')
      await vi.waitUntil(() => executor.died.all.length >= round, { timeout: 10_000 })
    }
    expect(Math.max(...executor.unready.all.map(({ failures }) => failures))).toBe(1)
  })
})

describe('a program that a handler left behind', () => {
  it('does not keep the worker by its output', async () => {
    const run = longshore(['run', fixture('leaves-a-daemon.ts'), '--test-input', '{"input":{}}'])
    const from = performance.now()
    expect(await run.exited).toBe(0)
    expect(performance.now() - from).toBeLessThan(10_000)
  })
})

describe('a blocked event loop', () => {
  it('is told once per job, with the place, before any timeout', async () => {
    const executor = await startExecutor('busy-loop.ts', { killGraceMs: 0 })
    const run = executor.run({ block: true }, { id: 'stuck', executionTimeoutMs: 60_000 })
    const stall = await executor.stalls.first(() => true)
    expect(stall).toMatchObject({ ids: ['stuck'], frames: [expect.stringMatching(/busy-loop\.ts:\d+/)] })
    expect(stall.blockedMs).toBeGreaterThanOrEqual(750)
    expect(stall.blockedMs).toBeLessThan(2_500)
    run.abort('cancelled')
    await run.outcome
    expect(executor.stalls.all).toHaveLength(1)
  })

  // Seen: a file that goes through tsx was told with the line of what that makes of it.
  it('is told with the line that the author wrote, also where the code was compiled', async () => {
    const executor = await startExecutor('blocks-beside-an-enum.ts', { killGraceMs: 0 })
    const run = executor.run({}, { id: 'stuck', executionTimeoutMs: 60_000 })
    const { frames } = await executor.stalls.first(() => true)
    expect(frames[0]).toMatch(/^crunch \(.*\/blocks-beside-an-enum\.ts:16\)$/)
    run.abort('cancelled')
    await run.outcome
  })

  it('is told of a job with neighbours that come and go, and of one that is over soon after', async () => {
    const executor = await startExecutor('blocks-for-a-while.ts')
    // It is seen by a second and a quarter, and later on a machine that is busy.
    const run = executor.run({ ms: 2_500 }, { id: 'busy' })
    const others = Array.from({ length: 4 }, (_, n) => executor.run({ ms: 0 }, { id: `other-${n}` }))
    await Promise.all([run, ...others].map(({ outcome }) => outcome))
    const told = await executor.stalls.first(() => true)
    expect(told.ids).toContain('busy')
  })

  it('is told again of another job, also after one that blocked in native code', async () => {
    const executor = await startExecutor('blocks-natively.ts', { killGraceMs: 0 })
    expect(await executor.outputOf({ by: 'a short program' }, { id: 'native' })).not.toBeNull()
    const pid = (await executor.lines.first(({ line }) => line.startsWith('pid'))).line
    const run = executor.run({ by: 'an expression' }, { id: 'stuck', executionTimeoutMs: 60_000 })
    await executor.stalls.first(({ ids }) => ids.includes('stuck'))
    expect(executor.lines.all.filter(({ line }) => line === pid)).toHaveLength(2)
    run.abort('cancelled')
    await run.outcome
  })

  it('is not seen in a job that waits', async () => {
    const executor = await startExecutor('tells-its-process.ts')
    await executor.outputOf({ ms: 2_600 })
    expect(executor.stalls.all).toEqual([])
  })
})

describe('printed lines', () => {
  // Seen: each byte of a character that came in two writes was a character of its own that says nothing.
  it('are whole, also where a character comes in several writes', async () => {
    const executor = await startExecutor('prints-in-pieces.ts')
    await executor.outputOf({ text: 'grüße 😀' }, { id: 'a' })
    for (const stream of ['stdout', 'stderr'] as const)
      expect(await executor.lines.first((line) => line.stream === stream)).toEqual({
        stream,
        line: 'grüße 😀',
        ids: ['a'],
      })
  })

  it('carry the job that printed them, whole, its secrets masked', async () => {
    const executor = await startExecutor('prints-beside-others.ts')
    const s3Config = {
      accessId: 'id-id',
      accessSecret: 'hush-hush',
      bucketName: 'b',
      endpointUrl: 'http://h',
    }
    await Promise.all(['a', 'b'].map((id) => executor.outputOf({}, { id, s3Config })))
    for (const id of ['a', 'b']) await executor.lines.first(({ line }) => line === `${id} error 2`)
    const lines = executor.lines.all.map(({ ids, stream, line }) => [ids.join(), stream, line])
    for (const id of ['a', 'b']) {
      const own = lines.filter(([owner]) => owner === id)
      expect(own.filter(([, stream]) => stream === 'stderr').map(([, , line]) => line)).toEqual([
        `${id} error 0`,
        `${id} error 1`,
        `${id} error 2`,
      ])
      expect(own.every(([, , line]) => line?.startsWith(id) || line?.startsWith('line'))).toBe(true)
    }
    expect(JSON.stringify(lines)).not.toContain('hush')
    expect(JSON.stringify(lines)).toContain('[masked]')
  })
})

describe('a supervisor that is killed', () => {
  it.each([
    ['busy-loop.ts', { block: true }],
    ['blocks-natively.ts', { by: 'a program' }],
    ['blocks-natively.ts', { by: 'a lock' }],
    ['blocks-natively.ts', { by: 'an expression' }],
    ['takes-a-while.ts', { ms: 3_600_000 }],
  ])('takes its executor with it: %s %j', async (name, input) => {
    const run = longshore(['run', fixture(name), '--test-input', JSON.stringify({ input })])
    const pid = Number(await run.says(/pid (\d+)/))
    onTestFinished(() => void (isRunning(pid) && process.kill(-pid, 'SIGKILL')))
    await run.kill('SIGKILL')
    await vi.waitUntil(() => !isRunning(pid), { timeout: 2_000 })
  })
})
