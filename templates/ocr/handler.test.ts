// npm test: reads the page beside it as a worker would, in this process.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { createTestWorker } from 'longshore/testing'
import handler from './handler.ts'

const worker = createTestWorker(handler)
const page = readFileSync(new URL('./page.png', import.meta.url)).toString('base64')

// Its thread has nothing more to do.
after(() => setImmediate(() => process.exit()))

test('reads a page and says how far it is', async () => {
  const { status, values, progress } = await worker.run({ pages: [page] })
  assert.equal(status, 'COMPLETED')
  assert.match((values[0] as { text: string }).text, /Call me Ishmael/)
  assert.equal((progress.at(-1) as { percent: number }).percent, 100)
})

test('names the page that is no picture', async () => {
  const { error } = await worker.run({ pages: [page, Buffer.from('text').toString('base64')] })
  assert.match(error?.message ?? '', /^Page 2 is not a PNG or JPEG image/)
})
