// What the helpers know beside the bucket: the job that they work for, and its bounds.

import type { Clock } from '../lib/clock.ts'
import type { Bucket } from './bucket.ts'
import type { TransferProgress } from './transfers.ts'

export interface Scope {
  /** Opened when it is first needed. */
  bucket: () => Promise<Bucket>
  /** In front of every key that is not given: `objectPath/{jobId}`, as far as they are known. */
  prefix: string
  signal: AbortSignal
  clock: Clock
  /** Where downloads go that say no other place. */
  folder: () => Promise<string>
  tell: ((progress: TransferProgress) => void) | undefined
  /** Streams that were uploaded: a second time they would give nothing. */
  spent: WeakSet<object>
  /** Keys that were uploaded to. */
  used: Set<string>
  /** Paths that downloads of this job have taken, so that two of one name do not meet. */
  taken: Set<string>
  /** Counts what was uploaded without a name. */
  nextNumber: () => number
}

/** The job's signal and that of one call. */
export function eitherSignal(scope: Scope, signal: AbortSignal | undefined): AbortSignal {
  return signal ? AbortSignal.any([scope.signal, signal]) : scope.signal
}
