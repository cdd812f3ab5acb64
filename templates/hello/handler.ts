// Greets whoever the job names.

import { defineHandler } from 'longshore'
import { z } from 'zod'

export default defineHandler({
  input: z.object({ name: z.string().min(1).default('world') }),
  handler(job, context) {
    context.log.info('greeting somebody')
    return { greeting: `Hello, ${job.input.name}!` }
  },
})
