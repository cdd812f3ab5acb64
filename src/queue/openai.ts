// Requests of the OpenAI interface as jobs: what the handler is given, and what its values are as an HTTP answer.

import { isEnded } from '../job/lifecycle.ts'
import { limits } from '../job/limits.ts'
import { policySchema } from '../job/job.ts'
import { joinChunks, type Chunk } from '../job/chunk.ts'
import { jsonWithRaw, RawJson, sliceElements } from '../lib/raw-json.ts'
import type { JobRecord, StoredChunk } from '../store/job-store.ts'
import { OpenAiError, openAiErrorOf, openAiFailure } from './openai-error.ts'
import type { JobNews } from './job-follow.ts'
import type { Queue, SubmitOptions } from './queue.ts'

export interface OpenAiRequest {
  /** JSON text: `openaiInput` makes it. */
  input: Uint8Array
  options: Pick<SubmitOptions, 'trace'>
  /** Aborts when the client has gone: nobody wants the job any more. */
  gone: AbortSignal
  /** For a job that could not be cancelled when its client had gone. */
  onError: (cause: unknown) => void
}

/** What the handler is given: the path below /openai, with its query, and the body as it came; a GET has none. */
export function openaiInput(route: string, body?: Uint8Array): Uint8Array {
  return jsonWithRaw({ openai_route: route }, { openai_input: body })
}

/** The handler's one object, as JSON text. Throws OpenAiError, and a Refusal as Queue does. */
export async function askOpenAi(queue: Queue, endpoint: string, request: OpenAiRequest): Promise<Uint8Array> {
  const id = await submit(queue, endpoint, request)
  const record = await queue.waitForEnd(endpoint, id, limits.openaiWaitMs, request.gone)
  if (!isEnded(record.status)) {
    await queue.cancel(endpoint, id)
    throw new OpenAiError(
      504,
      'timeout_error',
      'TIMED_OUT',
      `The job ${id} did not end while it was waited for.`,
    )
  }
  return answerOf(record, await allChunks(queue, endpoint, record))
}

/**
 * The handler's strings as they are made, which are server-sent events already; any other value becomes one. Resolves
 * with the first of them, so that what fails before it still has a status: throws as `askOpenAi` does.
 */
export async function streamOpenAi(
  queue: Queue,
  endpoint: string,
  request: OpenAiRequest,
): Promise<AsyncGenerator<Uint8Array>> {
  const id = await submit(queue, endpoint, request)
  const pieces = piecesOf(await queue.follow(endpoint, id, { after: 0, gone: request.gone }))
  // Whoever hangs up has no use for the rest.
  const cancelWhenGone = (): void => void queue.cancel(endpoint, id).catch(request.onError)
  if (request.gone.aborted) cancelWhenGone()
  else request.gone.addEventListener('abort', cancelWhenGone, { once: true })
  const first = await pieces.next()
  return withFirst(first, pieces)
}

async function* withFirst(
  first: IteratorResult<Uint8Array>,
  rest: AsyncGenerator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  if (first.done) return
  yield first.value
  try {
    yield* rest
  } catch (cause) {
    // The status is sent: the error is the last event.
    if (!(cause instanceof OpenAiError)) throw cause
    yield asEvent(Buffer.from(JSON.stringify(cause.body)))
  }
}

async function submit(queue: Queue, endpoint: string, { input, options }: OpenAiRequest): Promise<string> {
  const submission = { input: new RawJson(input), policy: policySchema.parse({}) }
  const { id } = await queue.submit(endpoint, submission, { operation: 'runsync', ...options })
  return id
}

async function* piecesOf(news: AsyncGenerator<JobNews>): AsyncGenerator<Uint8Array> {
  let open: StoredChunk[] = []
  let sent = 0
  for await (const one of news) {
    switch (one.kind) {
      case 'chunk': {
        open.push(one.chunk)
        if (one.chunk.part && !one.chunk.part.last && one.chunk.part.as !== 'text') break
        const piece = pieceOf(open)
        open = []
        sent += 1
        yield piece
        break
      }
      case 'restart':
        if (sent > 0)
          throw new OpenAiError(502, 'server_error', 'WORKER_LOST', 'The worker was lost half-way.')
        open = []
        break
      case 'end':
        yield* lastPiecesOf(one.record, sent)
        return
      case 'deleted':
        throw new OpenAiError(504, 'timeout_error', 'TTL_PASSED', `The ttl of job ${one.id} has passed.`)
      default:
    }
  }
  throw new OpenAiError(503, 'server_error', 'STORE_UNAVAILABLE', 'The service is stopping.')
}

/** One value of the handler as the client reads it. An object with an error ends the stream. */
function pieceOf(chunks: readonly StoredChunk[]): Uint8Array {
  const [first] = chunks
  // Text is passed on piece by piece, the last of its value or not.
  const [value] = first?.part?.as === 'text' ? [parsed(first).output] : joinChunks(chunks.map(parsed))
  if (typeof value === 'string') return Buffer.from(value)
  if (value instanceof Uint8Array) return value
  const text = chunks.length === 1 && first ? first.output : Buffer.from(JSON.stringify(value))
  const error = openAiErrorOf(text)
  if (error) throw error
  return asEvent(text)
}

function parsed({ output, part }: StoredChunk): Pick<Chunk, 'output' | 'part'> {
  return { output: JSON.parse(Buffer.from(output).toString('utf8')) as unknown, ...(part && { part }) }
}

function* lastPiecesOf(record: JobRecord, sent: number): Generator<Uint8Array> {
  const failure = openAiFailure(record)
  if (failure) throw failure
  if (sent > 0) return
  // A handler that does not stream: its object is the only event.
  yield asEvent(answerOf(record, []))
  yield asEvent(Buffer.from('[DONE]'))
}

/** What the job came to, be it an object or an error to throw. */
function answerOf(record: JobRecord, chunks: readonly StoredChunk[]): Uint8Array {
  const failure = openAiFailure(record)
  if (failure) throw failure
  const value = oneValueOf(record, chunks)
  const error = openAiErrorOf(value)
  if (error) throw error
  return value
}

/** The output, or the one element of a list of values, or the one value that was streamed. */
function oneValueOf({ id, output }: JobRecord, chunks: readonly StoredChunk[]): Uint8Array {
  const text = output && Buffer.from(output).toString('latin1', 0, 4)
  if (output && text !== 'null' && !text?.startsWith('[')) return output
  const listed = text?.startsWith('[') && output ? sliceElements(output) : []
  const values = listed.length > 0 ? listed : valuesOf(chunks)
  const [only, ...more] = values
  if (only && more.length === 0) return only
  const message = `The handler of job ${id} made ${values.length} values, and the answer is one object. Return that, or yield it alone.`
  throw new OpenAiError(500, 'server_error', 'NOT_ONE_OBJECT', message)
}

function valuesOf(chunks: readonly StoredChunk[]): Uint8Array[] {
  if (chunks.every(({ part }) => !part)) return chunks.map(({ output }) => output)
  return joinChunks(chunks.map(parsed)).map((value) => Buffer.from(JSON.stringify(value)))
}

/** Read only where the record itself has no answer. */
async function allChunks(queue: Queue, endpoint: string, record: JobRecord): Promise<StoredChunk[]> {
  if (record.output && record.output.byteLength > 4) return []
  const chunks: StoredChunk[] = []
  const gone = new AbortController().signal
  for await (const news of await queue.follow(endpoint, record.id, { after: 0, gone })) {
    if (news.kind === 'chunk') chunks.push(news.chunk)
  }
  return chunks
}

function asEvent(data: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from('data: '), data, Buffer.from('\n\n')])
}
