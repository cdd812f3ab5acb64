// Streams a text word by word, the way a language model would.

import { setTimeout as pause } from 'node:timers/promises'
import { defineHandler } from 'longshore'
import { z } from 'zod'

export default defineHandler({
  input: z.object({ text: z.string().min(1), delayMs: z.number().int().min(0).max(10_000).default(50) }),
  aggregateStream: true,
  async *handler(job, context) {
    const words = job.input.text.match(/\S+\s*/g) ?? []
    for (const [at, word] of words.entries()) {
      yield word
      context.progress({ words: at + 1, of: words.length })
      await pause(job.input.delayMs, undefined, { signal: context.signal })
    }
  },
})
