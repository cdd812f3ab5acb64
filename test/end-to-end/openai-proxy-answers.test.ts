// The handler of the template openai-proxy, and the answers that model servers give.

import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createTestWorker, type TestWorker } from 'longshore/testing'

type Answer = (response: ServerResponse) => void

const asked: string[] = []
let answer: Answer = (response) => void response.end()
const server = createServer((request, response) => {
  asked.push(request.url ?? '')
  if (request.url === '/v1/models') response.end('{}')
  else answer(response)
})
let worker: TestWorker

beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // The handler reads it when it is loaded.
  process.env['MODEL_SERVER_URL'] = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const { default: handler } = await import('../../templates/openai-proxy/handler.ts')
  worker = createTestWorker(handler)
})
afterAll(() => {
  delete process.env['MODEL_SERVER_URL']
  server.closeAllConnections()
  server.close()
})

const ask = (given: Answer, openai_route = '/v1/chat/completions'): ReturnType<TestWorker['run']> => {
  answer = given
  return worker.run({ openai_route, openai_input: { model: 'small' } })
}
const refuse =
  (status: number, body: string): Answer =>
  (response) =>
    void response.writeHead(status, { 'content-type': 'application/json' }).end(body)
const events =
  (text: string): Answer =>
  (response) =>
    void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(text)

describe('the answers of a model server', () => {
  it.each([
    { object: 'error', message: 'too long', type: 'BadRequestError', code: 400 },
    { detail: [{ msg: 'Field required' }] },
  ])('keep the status and the whole of an error that is the body itself: %j', async (body) => {
    const { values } = await ask(refuse(422, JSON.stringify(body)))
    expect(values).toEqual([{ status: 422, error: body }])
  })

  it.each([
    ['', 'The model server answered HTTP 200 with nothing'],
    ['<h1>Hi</h1>', 'The model server answered HTTP 200 with no JSON: <h1>Hi</h1>'],
  ])('are named when they are no JSON: %j', async (body, message) => {
    const { values } = await ask(refuse(200, body))
    expect(values).toEqual([
      { status: 502, error: { message, type: 'server_error', param: null, code: null } },
    ])
  })

  it.each(['\n\n', '\r\r', '\r\n\r\n'])('are streamed whatever ends their lines: %j', async (end) => {
    const text = `data: {"n":1}${end}data: [DONE]${end}`
    const { status, values } = await ask(events(text))
    expect([status, values.join('')]).toEqual(['COMPLETED', text])
  })

  it.each(['data: [DONE]', 'data: [DONE]\n', 'data: {"n":2}'])(
    'are whole where only the last empty line lacks: %j',
    async (last) => {
      const { status, values } = await ask(events(`data: {"n":1}\n\n${last}`))
      expect(status).toBe('COMPLETED')
      expect(values.join('')).toBe(`data: {"n":1}\n\n${last}\n\n`)
    },
  )

  it.each(['data: {"n":', 'dat'])('fail where the last event is cut: %j', async (last) => {
    const { status, error } = await ask(events(`data: {"n":1}\n\n${last}`))
    expect(status).toBe('FAILED')
    expect(error?.message).toMatch(
      /^The model server at http.+ ended its stream in the middle of an event\.$/,
    )
  })

  it('say whose stream was broken off', async () => {
    const { error } = await ask((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: {"n":1}\n\n', () => response.destroy())
    })
    expect(error?.message).toMatch(/^The model server at http.+ broke off its answer: (?!terminated).+\.$/)
  })

  it('lead nowhere else', async () => {
    const { values } = await ask((response) => void response.writeHead(307, { location: '/elsewhere' }).end())
    expect(values).toMatchObject([{ status: 502, error: { type: 'server_error' } }])
    expect(asked).not.toContain('/elsewhere')
    const before = asked.length
    for (const route of ['/v1/..%2fsecrets', '/v1/a%5C..%5csecrets']) {
      const outside = await ask(refuse(200, '{}'), route)
      expect(outside.values).toMatchObject([{ status: 404 }])
    }
    expect(asked).toHaveLength(before)
  })
})
