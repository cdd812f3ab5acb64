// The real executor with real handler processes, and what it tells; none of it outlives its test.

import { resolve } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { joinChunks, type Part } from '../../src/job/chunk.ts'
import { policySchema } from '../../src/job/job.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { createWorkerEvents, type WorkerEventMap } from '../../src/worker/events.ts'
import { Executor, type ExecutorSettings } from '../../src/worker/executor.ts'
import type { Assignment, Run, RunChunk } from '../../src/worker/run.ts'
import type { Outcome } from '../../src/worker/outcome.ts'
import { childrenLeft, childrenSoFar } from './children.ts'
import { Facts } from './facts.ts'
import { fixture } from './processes.ts'

export interface TestRun extends Run {
  chunks: Facts<RunChunk>
  progress: unknown[]
  /** The values that were streamed so far, put together again. */
  readonly values: unknown[]
}

export interface TestExecutor {
  executor: Executor
  died: Facts<WorkerEventMap['died'][0]>
  killing: Facts<WorkerEventMap['killing'][0]>
  lines: Facts<WorkerEventMap['line'][0]>
  logs: Facts<WorkerEventMap['log'][0]>
  unready: Facts<WorkerEventMap['unready'][0]>
  accidents: Facts<WorkerEventMap['accident'][0]>
  stalls: Facts<WorkerEventMap['stalled'][0]>
  resized: Facts<WorkerEventMap['resized'][0]>
  loaded: Facts<WorkerEventMap['loaded'][0]>
  files: Facts<WorkerEventMap['file'][0]>
  /** Begins a job with this input. Chunks are stored as they come, unless told otherwise. */
  run(input: unknown, options?: Partial<Assignment> & { storesChunks?: boolean }): TestRun
  /** Runs a job and gives its output; fails unless it is completed. */
  outputOf(input?: unknown, options?: Partial<Assignment>): Promise<unknown>
  /** Runs a job and gives its error; fails unless it has failed. */
  errorOf(input?: unknown, options?: Partial<Assignment>): Promise<(Outcome & { kind: 'failed' })['error']>
  /** Ends it, and fails when a process of it is left. */
  close(): Promise<void>
}

interface Options {
  killGraceMs?: number
  env?: NodeJS.ProcessEnv
  settings?: Partial<ExecutorSettings>
}

/** An executor that is ready. Whoever starts it outside of a test closes it. */
export async function openExecutor(handler: string, options: Options = {}): Promise<TestExecutor> {
  const before = childrenSoFar()
  const events = createWorkerEvents()
  const executor = new Executor({
    handlerPath: resolve(fixture('.'), handler),
    env: options.env ?? process.env,
    clock: systemClock,
    events,
    output: 'lines',
    executors: 1,
    spare: 'bare',
    importTimeoutMs: 60_000,
    setupTimeoutMs: 60_000,
    killGraceMs: 5000,
    ...options.settings,
    ...(options.killGraceMs !== undefined && { killGraceMs: options.killGraceMs }),
  })
  const facts = {
    died: new Facts<WorkerEventMap['died'][0]>(),
    killing: new Facts<WorkerEventMap['killing'][0]>(),
    lines: new Facts<WorkerEventMap['line'][0]>(),
    logs: new Facts<WorkerEventMap['log'][0]>(),
    unready: new Facts<WorkerEventMap['unready'][0]>(),
    accidents: new Facts<WorkerEventMap['accident'][0]>(),
    stalls: new Facts<WorkerEventMap['stalled'][0]>(),
    resized: new Facts<WorkerEventMap['resized'][0]>(),
    loaded: new Facts<WorkerEventMap['loaded'][0]>(),
    files: new Facts<WorkerEventMap['file'][0]>(),
  }
  events.on('died', (fact) => facts.died.add(fact))
  events.on('killing', (fact) => facts.killing.add(fact))
  events.on('line', (fact) => facts.lines.add(fact))
  events.on('log', (fact) => facts.logs.add(fact))
  events.on('unready', (fact) => facts.unready.add(fact))
  events.on('accident', (fact) => facts.accidents.add(fact))
  events.on('stalled', (fact) => facts.stalls.add(fact))
  events.on('resized', (fact) => facts.resized.add(fact))
  events.on('loaded', (fact) => facts.loaded.add(fact))
  events.on('file', (fact) => facts.files.add(fact))
  await executor.start()
  const run: TestExecutor['run'] = (input, { storesChunks = true, ...given } = {}) =>
    begin(executor, assignment(input, given), storesChunks)
  return {
    ...facts,
    executor,
    run,
    async outputOf(input = {}, given = {}) {
      const outcome = await run(input, given).outcome
      expect(outcome).toMatchObject({ kind: 'completed' })
      return outputIn(outcome)
    },
    async errorOf(input = {}, given = {}) {
      const outcome = await run(input, given).outcome
      expect(outcome).toMatchObject({ kind: 'failed' })
      return (outcome as Outcome & { kind: 'failed' }).error
    },
    async close() {
      await executor.close()
      expect(childrenLeft(before), 'processes left behind').toEqual([])
    },
  }
}

/** An executor for one test, closed when that is over. */
export async function startExecutor(handler: string, options: Options = {}): Promise<TestExecutor> {
  const opened = await openExecutor(handler, options)
  onTestFinished(() => opened.close())
  return opened
}

export function outputIn(outcome: Outcome): unknown {
  return outcome.kind === 'completed' ? parsed(outcome.output) : undefined
}

function assignment(input: unknown, given: Partial<Assignment>): Assignment {
  const policy = policySchema.parse({})
  return { id: 'job-1', attempt: 1, policy, input: Buffer.from(JSON.stringify(input)), ...given }
}

function begin(executor: Executor, job: Assignment, storesChunks: boolean): TestRun {
  const chunks = new Facts<RunChunk>()
  const progress: unknown[] = []
  const run = executor.run(job, {
    onStart: () => undefined,
    onChunk(chunk) {
      chunks.add(chunk)
      if (storesChunks) run.stored(chunk.output.byteLength)
    },
    onProgress: (bytes) => progress.push(parsed(bytes)),
  })
  return {
    ...run,
    chunks,
    progress,
    get values() {
      return joinChunks(chunks.all.map(({ output, part }, at) => withPart(parsed(output), part, at)))
    },
  }
}

function withPart(output: unknown, part: RunChunk['part'], at: number): { output: unknown; part?: Part } {
  return part ? { output, part: { as: part.as, first: at - part.back, last: part.last } } : { output }
}

function parsed(bytes: Uint8Array): unknown {
  return JSON.parse(Buffer.from(bytes).toString('utf8'))
}
