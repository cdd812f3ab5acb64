// One job without a queue: the same executor, its output handed to the caller as it comes.

import { joinChunks, pieceWeight, type Part } from '../job/chunk.ts'
import { policySchema, type S3Config } from '../job/job.ts'
import type { JobFailureCode } from '../protocol/errors.ts'
import type { Executor } from './executor.ts'
import type { RunChunk } from './run.ts'
import type { Outcome } from './outcome.ts'

export interface LocalJob {
  input: unknown
  s3Config?: S3Config
  executionTimeoutMs?: number
}

export interface LocalListener {
  /** A yielded value, put together again. */
  onValue(value: unknown): void
  onProgress(progress: unknown): void
}

/** Runs one job on an executor that has started; the job is stopped as at a shutdown when the signal aborts. */
export async function runLocally(
  executor: Executor,
  job: LocalJob,
  listener: LocalListener,
  stopping: AbortSignal,
): Promise<Outcome> {
  let pieces: { output: unknown; part: Part }[] = []
  const onChunk = ({ output, metrics, part }: RunChunk): void => {
    const value = parsed(output)
    run.stored(pieceWeight(output, metrics))
    if (!part) return listener.onValue(value)
    pieces.push({ output: value, part: { as: part.as, first: 0, last: part.last } })
    if (!part.last) return
    for (const whole of joinChunks(pieces)) listener.onValue(whole)
    pieces = []
  }
  const run = executor.run(
    {
      id: 'local',
      attempt: 1,
      policy: policySchema.parse({}),
      input: Buffer.from(JSON.stringify(job.input)),
      ...(job.s3Config && { s3Config: job.s3Config }),
      ...(job.executionTimeoutMs !== undefined && { executionTimeoutMs: job.executionTimeoutMs }),
    },
    {
      onStart: () => undefined,
      onChunk,
      onProgress: (progress) => listener.onProgress(parsed(progress)),
    },
  )
  const stop = (): void => run.abort('shutdown')
  if (stopping.aborted) stop()
  stopping.addEventListener('abort', stop, { once: true })
  return readable(await run.outcome)
}

/** The handler's process may have said anything: an output that cannot be read is a failure of its job. */
function readable(outcome: Outcome): Outcome {
  if (outcome.kind !== 'completed') return outcome
  try {
    parsed(outcome.output)
    return outcome
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    const message = `The output that the handler's process gave is not JSON: ${why}. Leave its descriptor 3 alone.`
    const error = { type: 'NotJsonError', message, code: 'OUTPUT_NOT_JSON' satisfies JobFailureCode }
    return { kind: 'failed', error, executionMs: outcome.executionMs }
  }
}

function parsed(bytes: Uint8Array): unknown {
  return JSON.parse(Buffer.from(bytes).toString('utf8'))
}
