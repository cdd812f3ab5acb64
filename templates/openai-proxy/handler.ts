// Passes requests of the OpenAI interface on to a model server beside it, and streams back what that says.

import { setTimeout as pause } from 'node:timers/promises'
import { defineHandler } from 'longshore'
import { z } from 'zod'

/** Where the model server has its `/v1`. */
const base = (process.env['MODEL_SERVER_URL'] ?? 'http://127.0.0.1:8001/v1').replace(/\/$/, '')
const apiKey = process.env['MODEL_SERVER_API_KEY']
/** Weights take their time. Below the 600 s that the worker gives to setup. */
const waitMs = z.coerce
  .number()
  .int()
  .min(0)
  .max(590_000)
  .parse(process.env['MODEL_SERVER_WAIT_MS'] ?? 540_000)
const LOOK_MS = 5_000
const PAUSE_MS = 250

export default defineHandler({
  input: z.object({
    /** The path below /openai, with its query. */
    openai_route: z.string().startsWith('/'),
    /** The body of a POST. */
    openai_input: z.record(z.string(), z.unknown()).optional(),
  }),
  // The model server batches by itself: give it as many requests as it can take.
  concurrency: 32,
  // The hosted platform answers from the job's output.
  aggregateStream: true,
  setup: waitForServer,
  async *handler({ input }, { signal }) {
    const { openai_route: route, openai_input: body } = input
    const response = await ask(route, { signal, ...(body && { body }) })
    if (!response.ok) yield await errorOf(response, signal)
    else if (isStream(response)) yield* eventsOf(response, signal)
    else yield await documentOf(response, signal)
  },
})

async function ask(
  route: string,
  { body, signal }: { body?: Record<string, unknown>; signal: AbortSignal },
): Promise<Response> {
  const url = new URL(base + route.replace(/^\/v1(?=\/|$)/, ''))
  // No ".." leads to other pages of that server, nor a slash that only it decodes.
  const root = new URL(base).pathname.replace(/\/$/, '')
  if (!url.pathname.startsWith(`${root}/`) || /%2f|%5c/i.test(url.pathname)) {
    return Response.json(
      { error: { message: `There is no ${route}.`, type: 'not_found_error' } },
      { status: 404 },
    )
  }
  const headers = new Headers(apiKey ? { authorization: `Bearer ${apiKey}` } : {})
  if (body) headers.set('content-type', 'application/json')
  try {
    return await fetch(url, {
      headers,
      signal,
      // The key goes to that server alone.
      redirect: 'manual',
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    })
  } catch (cause) {
    if (signal.aborted) throw cause
    throw new Error(`The model server at ${base} cannot be reached: ${wordsOf(cause)}.`, { cause })
  }
}

function isStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') === true
}

/** Whole events, as many at a time as have come: they are sent on as they are. */
async function* eventsOf(response: Response, signal: AbortSignal): AsyncGenerator<string> {
  let open = ''
  for await (const text of textOf(response, signal)) {
    open += text
    // Two ends of a line, each of them CR LF, LF or CR.
    const end = /^[^]*(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))/.exec(open)?.[0].length ?? 0
    if (end > 0) yield open.slice(0, end)
    open = open.slice(end)
  }
  if (open.trim() === '') return
  if (!isWhole(open))
    throw new Error(`The model server at ${base} ended its stream in the middle of an event.`)
  yield `${open}\n\n`
}

/** Whether an event that no empty line ends has all of its data. */
function isWhole(event: string): boolean {
  const lines = event.split(/\r\n|\n|\r/).filter((line) => line !== '')
  const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5))
  const isRead = lines.every((line) => /^(?:data|event|id|retry)?:/.test(line))
  return isRead && (data.length === 0 || data.join('').trim() === '[DONE]' || isJson(data.join('\n')))
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** The body as it comes. One that breaks off says whose it was. */
async function* textOf(response: Response, signal: AbortSignal): AsyncGenerator<string> {
  try {
    yield* response.body?.pipeThrough(new TextDecoderStream()) ?? []
  } catch (cause) {
    if (signal.aborted) throw cause
    throw new Error(`The model server at ${base} broke off its answer: ${wordsOf(cause)}.`, { cause })
  }
}

async function wholeText(response: Response, signal: AbortSignal): Promise<string> {
  let whole = ''
  for await (const text of textOf(response, signal)) whole += text
  return whole
}

/** The answer's JSON, or the error that it is none. */
async function documentOf(response: Response, signal: AbortSignal): Promise<unknown> {
  const text = await wholeText(response, signal)
  if (isJson(text)) return JSON.parse(text)
  const what = text === '' ? 'nothing' : `no JSON: ${text.slice(0, 500)}`
  return failure(502, `The model server answered HTTP ${response.status} with ${what}`)
}

interface ModelError {
  status: number
  error: unknown
}

/** The model server's own error, with its status. */
async function errorOf(response: Response, signal: AbortSignal): Promise<ModelError> {
  const { status } = response
  const text = await wholeText(response, signal)
  if (status < 400) {
    return failure(502, `The model server answered HTTP ${status}, and redirects are not followed.`)
  }
  try {
    const document = z.looseObject({ error: z.unknown().optional() }).parse(JSON.parse(text))
    // Some have the error itself for a body.
    return { status, error: document.error ?? document }
  } catch {
    return failure(status, `The model server answered HTTP ${status}: ${text.slice(0, 500)}`)
  }
}

function failure(status: number, message: string): ModelError {
  return { status, error: { message, type: 'server_error', param: null, code: null } }
}

/** Resolves once the model server answers: no job is taken before. */
async function waitForServer(): Promise<void> {
  const until = performance.now() + waitMs
  for (;;) {
    const problem = await problemOf()
    if (problem === undefined) return
    if (performance.now() >= until) {
      throw new Error(
        `The model server at ${base} did not answer /models within ${waitMs} ms: ${problem}. Start it before this worker, or set MODEL_SERVER_URL.`,
      )
    }
    await pause(PAUSE_MS)
  }
}

async function problemOf(): Promise<string | undefined> {
  try {
    const response = await ask('/models', { signal: AbortSignal.timeout(LOOK_MS) })
    await response.body?.cancel()
    // One that wants a key or has no such page is up all the same.
    return response.status < 500 ? undefined : `HTTP ${response.status}`
  } catch (cause) {
    return wordsOf(cause).replace(/\.$/, '')
  }
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // What fetch itself says is no more than "fetch failed" or "terminated".
  return error.cause instanceof Error && /^(?:fetch failed|terminated)$/.test(error.message)
    ? wordsOf(error.cause)
    : error.message
}
