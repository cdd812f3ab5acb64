// A run: one lease in a handler's process, what it is given and what it says.

import type { Policy, S3Config, TraceContext } from '../job/job.ts'
import type { AbortReason } from './define-handler.ts'
import type { FromChild } from './messages.ts'
import type { Outcome } from './outcome.ts'

export interface Assignment {
  id: string
  attempt: number
  policy: Policy
  s3Config?: S3Config
  trace?: TraceContext
  /** JSON text. */
  input: Uint8Array
  /** ms; without it the job may run as long as it likes. */
  executionTimeoutMs?: number
  /** It may have been what ended its process before: no other job shares its process this time. */
  isAlone?: boolean
}

export type RunChunk = Omit<Extract<FromChild, { type: 'chunk' }>, 'type' | 'run'> & { output: Uint8Array }

export interface RunListener {
  /** The handler is called now: there was a process for it. */
  onStart(): void
  /** The chunk counts as unsent until `stored` is called with its bytes. */
  onChunk(chunk: RunChunk): void
  onProgress(progress: Uint8Array): void
}

export interface Run {
  readonly outcome: Promise<Outcome>
  /** Aborts the handler's signal, then ends its process after the grace. The first reason counts. */
  abort(reason: AbortReason): void
  stored(bytes: number): void
}
