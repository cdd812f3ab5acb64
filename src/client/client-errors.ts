// What the typed client throws besides QueueRefusedError and QueueUnreachableError.

import type { JobStatus } from '../job/lifecycle.ts'
import type { JobRecord } from './job-record.ts'

/** The job ended without an output: it failed, timed out or was cancelled. `record` has it all. */
export class JobFailedError extends Error {
  /** Of the job's error; a cancelled job's is `CANCELLED`. */
  readonly code: string
  readonly status: JobStatus
  readonly record: JobRecord

  constructor(record: JobRecord) {
    const { id, status, error } = record
    super(`Job ${id} is ${status}${error ? `: ${error.type}: ${error.message}` : '.'}`)
    this.name = 'JobFailedError'
    this.code = error?.code ?? status
    this.status = status
    this.record = record
  }
}

/** The wait was over before the job. It goes on: wait again, or cancel it. */
export class JobNotEndedError extends Error {
  readonly code = 'JOB_NOT_ENDED'
  /** As it was last seen. */
  readonly record: JobRecord

  constructor(record: JobRecord, options?: ErrorOptions) {
    super(`Job ${record.id} is still ${record.status}. Wait for it again, or cancel it.`, options)
    this.name = 'JobNotEndedError'
    this.record = record
  }
}

/** A queue that hands out each chunk once was cut off while it did: what came last may be missing. */
export class StreamBrokenError extends Error {
  readonly code = 'STREAM_BROKEN'
  /** Chunks that came before. */
  readonly chunks: number

  constructor(id: string, chunks: number, cause: Error) {
    super(
      `The connection broke after ${chunks} chunks of job ${id}, and its queue hands out each of them once: some may be missing. Wait for the job and read its output.`,
      { cause },
    )
    this.name = 'StreamBrokenError'
    this.chunks = chunks
  }
}

/** The client was closed, before the call or while it was under way; what a queue has begun goes on. */
export class ClientClosedError extends Error {
  readonly code = 'CLIENT_CLOSED'

  constructor() {
    super('The client is closed. Make a new one, or close this one later.')
    this.name = 'ClientClosedError'
  }
}

/** An answer that is none of a queue's. */
export class UnexpectedAnswerError extends Error {
  readonly code = 'UNEXPECTED_ANSWER'

  constructor(place: string, cause: unknown) {
    super(
      `What ${place} answered is no answer of a queue. Check the endpoint's URL: it ends in /v2/{endpointId}.`,
      { cause },
    )
    this.name = 'UnexpectedAnswerError'
  }
}
