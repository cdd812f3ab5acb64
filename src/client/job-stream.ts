// Reading what a job streams, over connections that break.

import { z } from 'zod'
import { joinChunks, type Chunk } from '../job/chunk.ts'
import { jobStatusSchema } from '../job/job.ts'
import { isEnded, type JobStatus } from '../job/lifecycle.ts'
import { backoffMs } from '../lib/backoff.ts'
import { chunkSchema } from '../protocol/endpoint-api.ts'
import { checkAfter, checkId } from './client-checks.ts'
import { StreamBrokenError } from './client-errors.ts'
import type { HttpAnswer, QueueUnreachableError } from './http.ts'
import type { RepeatedRequests } from './repeated-request.ts'

export interface StreamOptions {
  /** Chunks of a higher index only; 0 by default. The hosted platform goes on where the last reader ended. */
  after?: number | undefined
  signal?: AbortSignal | undefined
}

const WAIT_MS = 20_000
const MARGIN_MS = 15_000
/** An answer with nothing new that came sooner was not held: the next one is asked for later and later. */
const HELD_MS = 1_000
const EMPTY_BACKOFF = { baseMs: 250, maxMs: 5_000 }

/**
 * Every chunk of the job after an index, as they come, each once and in order; ends when the job has. A connection that
 * breaks is made again and goes on behind the last chunk. Where the queue hands out each chunk once, as the hosted
 * platform does, that cannot be: then it throws StreamBrokenError.
 */
export async function* streamChunks(
  requests: RepeatedRequests,
  id: string,
  { after = 0, signal }: StreamOptions,
): AsyncGenerator<Chunk> {
  checkId(id)
  checkAfter(after)
  const { clock } = requests
  let last = after
  let count = 0
  let empties = 0
  let lost: QueueUnreachableError | undefined
  for (;;) {
    const askedAt = clock.monotonic()
    const answer = await requests.ask({
      method: 'GET',
      path: `/stream/${encodeURIComponent(id)}?after=${last}&wait=${WAIT_MS}`,
      timeoutMs: WAIT_MS + MARGIN_MS,
      read: readAnswer,
      onTrouble: (cause) => {
        if (cause.mayHaveArrived) lost = cause
      },
      signal,
    })
    if (lost && !answer.isRepeatable) throw new StreamBrokenError(id, count, lost)
    lost = undefined
    let hasNew = false
    for (const { index = last + 1, metrics = {}, ...chunk } of answer.chunks) {
      // Had before: the answer is that of a queue that does not heed where it was asked to go on.
      if (index <= last) continue
      last = index
      hasNew = true
      count += 1
      yield { ...chunk, index, metrics } as Chunk
    }
    if (hasNew) {
      empties = 0
      continue
    }
    if (isEnded(answer.status)) return
    empties = clock.monotonic() - askedAt >= HELD_MS ? 0 : empties + 1
    if (empties > 0) await requests.pause(backoffMs(empties, EMPTY_BACKOFF), signal)
  }
}

/** The values that the handler yielded, each whole; one whose last piece never came is left out. */
export async function* streamValues(chunks: AsyncIterable<Chunk>): AsyncGenerator {
  let open: Chunk[] = []
  for await (const chunk of chunks) {
    // Another attempt began: what is open has no end.
    if (chunk.part?.first !== open[0]?.part?.first) open = []
    open.push(chunk)
    if (chunk.part?.last === false) continue
    yield* joinChunks(open)
    open = []
  }
}

interface StreamAnswer {
  status: JobStatus
  chunks: readonly AnyChunk[]
  /** The same request would bring the same chunks again. */
  isRepeatable: boolean
}

const anyChunkSchema = chunkSchema.partial({ index: true, metrics: true })
type AnyChunk = z.output<typeof anyChunkSchema>
const hostedAnswerSchema = z.object({ status: jobStatusSchema, stream: z.array(anyChunkSchema) })

function readAnswer(document: unknown, { headers }: HttpAnswer): StreamAnswer {
  // Only this service tells it in a header, in both of its dialects; it drains nothing of whoever asks by index.
  const status = jobStatusSchema.optional().parse(headers['x-job-status'])
  if (Array.isArray(document)) {
    return {
      status: jobStatusSchema.parse(status),
      chunks: z.array(chunkSchema).parse(document),
      isRepeatable: true,
    }
  }
  const hosted = hostedAnswerSchema.parse(document)
  return { status: hosted.status, chunks: hosted.stream, isRepeatable: status !== undefined }
}
