// npm test: runs the handler as a worker would, in this process, beside a stand-in model server.

import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createTestWorker } from 'longshore/testing'
import { startModelServer } from './model-server.ts'

const { url, server } = await startModelServer()
process.env['MODEL_SERVER_URL'] = url
// It reads where the model server is when it is loaded.
const worker = createTestWorker((await import('./handler.ts')).default)
after(() => {
  server.closeAllConnections()
  server.close()
})

const chat = (content: string, more: object = {}): object => ({
  openai_route: '/v1/chat/completions',
  openai_input: { model: 'echo', messages: [{ role: 'user', content }], ...more },
})

test('passes an answer on', async () => {
  const { values } = await worker.run(chat('Hello there'))
  assert.equal(values.length, 1)
  const [answer] = values as [{ choices: { message: { content: string } }[] }]
  assert.equal(answer.choices[0]?.message.content, 'Hello there')
})

test('streams events as they come, each whole', async () => {
  const { values } = await worker.run(chat('Hello there', { stream: true }))
  const text = values.join('')
  assert.match(text, /"Hello ".*\n\n.*"there".*\n\n.*"stop".*\n\ndata: \[DONE\]\n\n$/s)
  for (const value of values) assert.match(String(value), /\n\n$/)
})

test('passes errors on with their status, and leads nowhere else', async () => {
  const { values } = await worker.run(chat('Hi', { model: 'other' }))
  const error = { message: 'There is no model other.', type: 'not_found_error', code: 'model_not_found' }
  assert.deepEqual(values, [{ status: 404, error }])
  const outside = await worker.run({ openai_route: '/v1/../secrets' })
  assert.equal((outside.values[0] as { status: number }).status, 404)
})

test('asks by GET where there is no body', async () => {
  const { values } = await worker.run({ openai_route: '/v1/models' })
  assert.equal((values[0] as { data: { id: string }[] }).data[0]?.id, 'echo')
})
