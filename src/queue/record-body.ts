// A job's record as JSON, in the words of this service or of the hosted platform.

import { isEnded } from '../job/lifecycle.ts'
import { jsonWithRaw } from '../lib/raw-json.ts'
import type { Dialect, JobRecord } from '../store/job-store.ts'
import type { Delivery } from '../store/webhook-store.ts'

/** The record as `jobRecordSchema` or `hostedRecordSchema` has it; payloads are spliced in as they were stored. */
export function recordBody(record: JobRecord, dialect?: Dialect): Buffer {
  const { fields, payloads } = membersOf(record, dialect)
  return jsonWithRaw(fields, payloads)
}

/** What a webhook is sent: the record, the input that led to it, and its own URL. */
export function deliveryBody({ record, dialect, input, url }: Delivery): Buffer {
  const { fields, payloads } = membersOf(record, dialect)
  return jsonWithRaw({ ...fields, webhook: url }, { ...payloads, input })
}

interface Members {
  fields: Record<string, unknown>
  payloads: Record<string, Uint8Array | undefined>
}

function membersOf(record: JobRecord, dialect: Dialect | undefined): Members {
  return dialect === 'hosted' ? hostedMembers(record) : ownMembers(record)
}

function ownMembers(record: JobRecord): Members {
  const { id, status, delayTime, executionTime, attempt, workerId, reason, error, progress, output } = record
  return {
    fields: { id, status, delayTime, executionTime, attempt, workerId, reason, error },
    payloads: { progress, output },
  }
}

/** There an error is a text, a running job's progress is its output, and a lost attempt is a retry. */
function hostedMembers(record: JobRecord): Members {
  const { id, status, delayTime, executionTime, attempt, workerId, error, errorText, progress, output } =
    record
  const fields = {
    id,
    status,
    delayTime,
    executionTime: isEnded(status) ? executionTime : undefined,
    workerId,
    retries: attempt > 1 ? attempt - 1 : undefined,
    error: error && (errorText ?? `${error.type}: ${error.message}`),
  }
  return { fields, payloads: { output: output ?? progress } }
}
