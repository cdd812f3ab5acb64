// A leased job as the head of an answer tells it; its input travels among the payloads.

import type { LeaseHead } from '../protocol/exchange.ts'
import type { OpenedJob } from './lease-line.ts'

export function leaseHead(job: OpenedJob): LeaseHead {
  const { id, lease, attempt, executionTimeoutMs, policy, s3Config, trace, isAlone, input } = job
  const head: LeaseHead = { id, lease, attempt, executionTimeoutMs, policy, bytes: input.byteLength }
  if (s3Config) head.s3Config = s3Config
  if (trace) head.trace = trace
  if (isAlone) head.alone = true
  return head
}
