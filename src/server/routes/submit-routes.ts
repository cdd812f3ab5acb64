// Submitting: POST /run and /runsync. Parse, call the queue, reply.

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod'
import { submissionSchema } from '../../job/job.ts'
import { limits } from '../../job/limits.ts'
import {
  endpointParamsSchema,
  hostedRecordSchema,
  jobRecordSchema,
  runsyncQuerySchema,
  submissionHeadersSchema,
  submittedSchema,
} from '../../protocol/endpoint-api.ts'
import type { Queue } from '../../queue/queue.ts'
import { recordBody } from '../../queue/record-body.ts'
import type { Dialect } from '../../store/job-store.ts'
import { delivery, sendJson } from '../replies.ts'
import { submitHeaders } from '../submit-headers.ts'

const tags = ['Jobs']

export interface SubmitRoutesOptions {
  queue: Queue
  /** Whose words are spoken; those of this service when left out. */
  dialect?: Dialect
}

export const submitRoutes: FastifyPluginAsyncZod<SubmitRoutesOptions> = async (app, { queue, dialect }) => {
  const spoken = dialect ? { dialect } : {}

  app.post('/run', {
    bodyLimit: limits.runBodyBytes,
    config: { body: 'submission', permission: 'write', operation: 'run' },
    schema: {
      summary: 'Submits a job and answers its id at once',
      tags,
      params: endpointParamsSchema,
      headers: submissionHeadersSchema,
      body: submissionSchema,
      response: { 200: submittedSchema },
    },
    handler: (request) =>
      queue.submit(request.params.endpointId, request.body, {
        operation: 'run',
        ...spoken,
        ...submitHeaders(request, request.bodyBytes),
      }),
  })

  app.post('/runsync', {
    bodyLimit: limits.runsyncBodyBytes,
    config: { body: 'submission', permission: 'write', operation: 'runsync' },
    schema: {
      summary: 'Submits a job and answers its record when it has ended, or when the wait is over',
      tags,
      params: endpointParamsSchema,
      headers: submissionHeadersSchema,
      querystring: runsyncQuerySchema,
      body: submissionSchema,
      response: { 200: dialect === 'hosted' ? hostedRecordSchema : jobRecordSchema },
    },
    async handler(request, reply) {
      const { endpointId } = request.params
      const { wait } = request.query
      const { gone } = delivery(reply)
      const { id } = await queue.submit(endpointId, request.body, {
        operation: 'runsync',
        ...spoken,
        hasWait: wait !== undefined,
        ...submitHeaders(request, request.bodyBytes),
      })
      const record = await queue.waitForEnd(endpointId, id, wait ?? limits.waitMs.default, gone)
      return sendJson(reply, recordBody(record, dialect))
    },
  })
}
