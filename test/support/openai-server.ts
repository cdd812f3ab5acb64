// A model server with an interface like OpenAI's: real server-sent events, words that a test chooses, errors by request.

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { z } from 'zod'
import { Facts } from './facts.ts'

export interface Asked {
  method: string
  path: string
  authorization: string | undefined
  body: unknown
}

export interface OpenAiServer {
  /** Ends in /v1. */
  url: string
  asked: Facts<Asked>
  /** Paths of requests whose client went before it had the answer. */
  gone: Facts<string>
}

const bodySchema = z.looseObject({
  messages: z.array(z.looseObject({ content: z.string() })).optional(),
  prompt: z.string().optional(),
  input: z.array(z.string()).optional(),
  stream: z.boolean().default(false),
})
type Body = z.output<typeof bodySchema>

/**
 * The first `busyLooks` times that its models are asked for it is still loading.
 * Says the last message or the prompt back. What it is told to do instead: `error 429`, an error with that status;
 * `page 502`, one that is no JSON; `hold …`, its first word and nothing more; `break …`, its first word and a broken
 * connection.
 */
export async function startOpenAiServer({ busyLooks = 0 } = {}): Promise<OpenAiServer> {
  let looks = 0
  const asked = new Facts<Asked>()
  const gone = new Facts<string>()
  const server = createServer((request, response) => void take(request, response))
  async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url: path = '' } = request
    const body = method === 'POST' ? bodySchema.parse(await json(request)) : undefined
    response.on('close', () => {
      if (!response.writableEnded) gone.add(path)
    })
    if (path === '/v1/models' && (looks += 1) <= busyLooks) send(response, 503, { error: 'loading' })
    else answer(path, body, response)
    asked.add({ method, path, authorization: request.headers.authorization, body })
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, asked, gone }
}

function answer(path: string, body: Body | undefined, response: ServerResponse): void {
  const text = body?.messages?.at(-1)?.content ?? body?.prompt ?? ''
  const status = Number(/^(?:error|page) (\d+)$/.exec(text)?.[1] ?? 200)
  if (text.startsWith('page')) return void response.writeHead(status).end('<h1>Bad Gateway</h1>')
  if (status !== 200) {
    return send(response, status, {
      error: { message: `told to say ${status}`, type: 'test_error', param: 'messages', code: 'told_to' },
    })
  }
  switch (path.replace(/\?.*$/, '')) {
    case '/v1/models':
      return send(response, 200, { object: 'list', data: [model('small'), model('large')] })
    case '/v1/models/small':
      return send(response, 200, model('small'))
    case '/v1/embeddings': {
      const data = (body?.input ?? []).map((one, index) => ({
        object: 'embedding',
        index,
        embedding: [one.length, 0.5],
      }))
      return send(response, 200, { object: 'list', data, model: 'small', usage: usage })
    }
    case '/v1/chat/completions':
      return body?.stream
        ? stream(response, text, 'chat.completion.chunk', chatDelta)
        : whole(response, text, 'chat')
    case '/v1/completions':
      return body?.stream
        ? stream(response, text, 'text_completion', textDelta)
        : whole(response, text, 'text')
    default:
      return send(response, 404, {
        error: { message: `no ${path}`, type: 'not_found_error', param: null, code: null },
      })
  }
}

const usage = { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 }
const chatDelta = (word: string): object => ({ delta: word === '' ? {} : { content: word } })
const textDelta = (word: string): object => ({ text: word })

function model(id: string): object {
  return { id, object: 'model', created: 1, owned_by: 'tests' }
}

function whole(response: ServerResponse, text: string, kind: 'chat' | 'text'): void {
  const said = kind === 'chat' ? { message: { role: 'assistant', content: text } } : { text }
  const choices = [{ index: 0, ...said, finish_reason: 'stop', logprobs: null }]
  const object = kind === 'chat' ? 'chat.completion' : 'text_completion'
  send(response, 200, { id: 'cmpl-1', object, created: 1, model: 'small', choices, usage })
}

function stream(
  response: ServerResponse,
  text: string,
  object: string,
  delta: (word: string) => object,
): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  const event = (word: string, finish_reason: string | null): string => {
    const choices = [{ index: 0, ...delta(word), finish_reason }]
    return `data: ${JSON.stringify({ id: 'cmpl-1', object, created: 1, model: 'small', choices })}\n\n`
  }
  const [order, ...words] = text.split(' ')
  if (order === 'hold' || order === 'break') {
    response.write(event(words[0] ?? '', null))
    // An event that is cut in its middle, and the connection with it.
    if (order === 'break') response.write('data: {"id', () => response.destroy())
    return
  }
  // In pieces that respect neither events nor characters, as networks have them.
  const bytes = Buffer.from(
    `: ready\n\n${text
      .split(' ')
      .map((word) => event(word, null))
      .join('')}${event('', 'stop')}data: [DONE]\n\n`,
  )
  for (let at = 0; at < bytes.byteLength; at += 7) response.write(bytes.subarray(at, at + 7))
  response.end()
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
