// A job's record as the typed client gives it, read from this service's words or from the hosted platform's.

import { z } from 'zod'
import { jobStatusSchema, type JobError } from '../job/job.ts'
import { jobRecordSchema, type JobRecordBody } from '../protocol/endpoint-api.ts'

/** `delayTime` and `executionTime` are ms. Of the hosted platform, an unfinished job has an `executionTime` of 0. */
export type JobRecord<Output = unknown> = Omit<JobRecordBody, 'output'> & {
  /** What the handler made; undefined for a job that is not COMPLETED. */
  output?: Output | undefined
}

export interface ReadRecord {
  record: JobRecord
  /** This service tells the attempt of every job; the hosted platform of none. */
  isHosted: boolean
}

/** Throws a ZodError for anything that is no record. */
export function readRecord(document: unknown): ReadRecord {
  const own = jobRecordSchema.safeParse(document)
  if (own.success) return { record: own.data, isHosted: false }
  // Where it is neither, the problem is told in this service's words.
  const hosted = hostedRecordSchema.safeParse(document)
  if (!hosted.success) throw own.error
  return { record: fromHosted(hosted.data), isHosted: true }
}

const ms = z.number().min(0).catch(0)

/** Lenient: little of it is written down. */
const hostedRecordSchema = z.object({
  id: z.string().min(1),
  status: jobStatusSchema,
  attempt: z.undefined().optional(),
  delayTime: ms,
  executionTime: ms,
  retries: z.int().min(0).catch(0),
  workerId: z.string().optional().catch(undefined),
  error: z.unknown().optional(),
  output: z.unknown().optional(),
})

function fromHosted(body: z.output<typeof hostedRecordSchema>): JobRecord {
  const { id, status, delayTime, executionTime, retries, workerId, error, output } = body
  const isRunning = status === 'IN_PROGRESS'
  return {
    id,
    status,
    delayTime,
    executionTime,
    attempt: retries + 1,
    ...(workerId !== undefined && { workerId }),
    ...(error !== undefined && error !== null && { error: errorOf(error) }),
    // A running job's progress goes by this name there.
    ...(output !== undefined && (isRunning ? { progress: output } : { output })),
  }
}

const reportedErrorSchema = z.object({
  error_type: z.string(),
  error_message: z.string(),
  error_traceback: z.string().optional(),
})

/** There an error is a text: JSON of the worker's own, `type: message`, or a sentence. */
function errorOf(told: unknown): JobError {
  const text = typeof told === 'string' ? told : JSON.stringify(told)
  const reported = reportedErrorSchema.safeParse(typeof told === 'string' ? parsedOrNothing(told) : told)
  if (reported.success) {
    const { error_type, error_message, error_traceback } = reported.data
    // A class of Python is printed as <class 'ValueError'>.
    const type = /^<class '(.+)'>$/.exec(error_type)?.[1] ?? error_type
    return { type, message: error_message, code, ...(error_traceback && { stack: error_traceback }) }
  }
  const [, type = 'Error', message = text] = /^([A-Za-z_][\w.]*(?:Error|Exception)): ([^]*)$/.exec(text) ?? []
  return { type, message, code }
}

/** The hosted platform has no codes. */
const code = 'HOSTED_ERROR'

function parsedOrNothing(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    // Most are sentences.
    return undefined
  }
}
