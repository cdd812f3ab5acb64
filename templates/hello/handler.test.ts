// npm test: runs the handler as a worker would, in this process.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestWorker } from 'longshore/testing'
import handler from './handler.ts'

const worker = createTestWorker(handler)

test('greets by name, and the world without one', async () => {
  assert.deepEqual((await worker.run({ name: 'Ada' })).output, { greeting: 'Hello, Ada!' })
  assert.deepEqual((await worker.run({})).output, { greeting: 'Hello, world!' })
})

test('refuses a name that is none', async () => {
  const { status, error } = await worker.run({ name: '' })
  assert.deepEqual([status, error?.code], ['FAILED', 'INVALID_INPUT'])
})
