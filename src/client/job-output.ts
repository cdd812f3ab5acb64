// A record's output, or why there is none.

import { isEnded } from '../job/lifecycle.ts'
import { JobFailedError, JobNotEndedError } from './client-errors.ts'
import type { JobRecord } from './job-record.ts'

/** The output of a job that is COMPLETED. Throws JobFailedError for one that ended otherwise, JobNotEndedError for others. */
export function outputOf<Output>(record: JobRecord<Output>): Output {
  if (record.status === 'COMPLETED') return record.output as Output
  throw isEnded(record.status) ? new JobFailedError(record) : new JobNotEndedError(record)
}
