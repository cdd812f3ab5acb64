// npm test: runs the handler as a worker would, in this process.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTestWorker } from 'longshore/testing'
import handler from './handler.ts'

const worker = createTestWorker(handler)
const text = 'three small words'

test('streams word by word, and says how far it is', async () => {
  const words = []
  for await (const { output } of worker.stream({ text, delayMs: 0 })) words.push(output)
  assert.deepEqual(words, ['three ', 'small ', 'words'])
  const { output, progress } = await worker.run({ text, delayMs: 0 })
  assert.deepEqual(output, words)
  assert.deepEqual(progress.at(-1), { words: 3, of: 3 })
})

test('stops between two words when it is cancelled', async () => {
  const { status, values } = await worker.cancelAfter(15_000).run({ text, delayMs: 10_000 })
  assert.deepEqual([status, values], ['CANCELLED', ['three ', 'small ']])
})
