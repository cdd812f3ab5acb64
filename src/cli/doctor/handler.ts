// Whether a handler loads and sets itself up, in a process like that of a worker.

import { problem, warning, type Finding } from '../../lib/finding.ts'
import { systemClock } from '../../lib/clock.ts'
import { createWorkerEvents } from '../../worker/events.ts'
import { Executor } from '../../worker/executor.ts'
import { findHandlerFile } from '../../worker/handler.ts'

export interface ExaminedHandler {
  handlerPath: string
  env: NodeJS.ProcessEnv
  importTimeoutMs: number
  setupTimeoutMs: number
}

export async function examineHandler(handler: ExaminedHandler): Promise<Finding[]> {
  const executor = new Executor({
    ...handler,
    clock: systemClock,
    events: createWorkerEvents(),
    output: 'lines',
    executors: 1,
    spare: 'none',
    killGraceMs: 0,
  })
  try {
    findHandlerFile(handler.handlerPath)
    await executor.start()
    const limit = executor.facts?.problem
    return limit === undefined ? [] : [warning(limit)]
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause) return [problem(cause.message.replaceAll('\n', ' '))]
    throw cause
  } finally {
    await executor.close()
  }
}
