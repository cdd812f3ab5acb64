// A stand-in for a model server, for trying and testing: it says the last message back, word by word when asked to
// stream. "node model-server.ts command …" runs a command beside it.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { z } from 'zod'

const chatSchema = z.object({
  model: z.string(),
  messages: z.array(z.object({ content: z.string() })).min(1),
  stream: z.boolean().default(false),
})

/** Listens on a free port of loopback; `url` is what MODEL_SERVER_URL is to be. */
export async function startModelServer(): Promise<{ url: string; server: Server }> {
  const server = createServer((request, response) => {
    if (request.url === '/v1/models') {
      sendJson(response, 200, {
        object: 'list',
        data: [{ id: 'echo', object: 'model', created: 1, owned_by: 'me' }],
      })
    } else if (request.url === '/v1/chat/completions') {
      void json(request).then((body) => chat(chatSchema.parse(body), response))
    } else {
      sendJson(response, 404, { error: { message: `There is no ${request.url}.`, type: 'not_found_error' } })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, server }
}

function chat({ model, messages, stream }: z.output<typeof chatSchema>, response: ServerResponse): void {
  const content = messages.at(-1)?.content ?? ''
  const head = { id: 'chatcmpl-1', created: 1, model }
  if (model !== 'echo') {
    const message = `There is no model ${model}.`
    return sendJson(response, 404, { error: { message, type: 'not_found_error', code: 'model_not_found' } })
  }
  if (!stream) {
    const choice = { index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }
    return sendJson(response, 200, { ...head, object: 'chat.completion', choices: [choice] })
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const say = (delta: object, finish_reason: string | null): void => {
    const choices = [{ index: 0, delta, finish_reason }]
    response.write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices })}\n\n`)
  }
  for (const word of content.match(/\S+\s*/g) ?? []) say({ content: word }, null)
  say({}, 'stop')
  response.end('data: [DONE]\n\n')
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

const [command, ...args] = process.argv.slice(2)
if (import.meta.main && command !== undefined) {
  const { url, server } = await startModelServer()
  const child = spawn(command, args, { stdio: 'inherit', env: { ...process.env, MODEL_SERVER_URL: url } })
  const [code] = (await once(child, 'exit')) as [number | null]
  process.exitCode = code ?? 1
  server.closeAllConnections()
  server.close()
}
