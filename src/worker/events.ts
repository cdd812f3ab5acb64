// What a worker tells about itself, typed; who listens decides on the words.

import { EventEmitter } from 'node:events'
import type { JobError } from '../job/job.ts'
import type { ImportedFile, StartFacts } from './messages.ts'
import type { SlowLoad } from './slow-load.ts'

export interface WorkerEventMap {
  ready: [{ endpointUrl: string; workerId: string; concurrency: number; startMs: number }]
  /** `/health` and `/metrics` are answered there. */
  watched: [{ host: string; port: number }]
  leased: [{ id: string; attempt: number }]
  ended: [{ id: string; outcome: string; executionMs: number; code?: string; message?: string }]
  /** A job was told to stop. */
  stopping: [{ id: string; reason: string }]
  /** A handler keeps its process from doing anything else; `frames` says where, innermost first. */
  stalled: [{ ids: string[]; blockedMs: number; frames: string[] }]
  /** Code of a job that had ended already is ending the process of these. */
  accident: [{ error: JobError; ids: string[] }]
  /** What the definition's function makes of the concurrency, or why that is none. */
  resized: [{ concurrency?: number | undefined; problem?: string | undefined }]
  concurrency: [{ from: number; to: number }]
  killing: [{ id: string; reason: string; graceMs: number }]
  died: [
    {
      exitCode: number | null
      signal: string | null
      wasKilled: boolean
      ids: string[]
      lastLines: string[]
    },
  ]
  /**
   * A process did not get ready, or ended by an error that is no job's doing. Nobody waited for a spare; one that
   * was loaded beside the process it was to replace is tried again when that has ended.
   */
  unready: [{ cause: unknown; failures: number; isSpare?: boolean; isBeside?: boolean }]
  /** A process has its handler ready. */
  loaded: [StartFacts]
  /** A process is still getting ready. */
  slow: [SlowLoad]
  /** A process that is developed on imports a file, or looks for one. */
  file: [ImportedFile]
  unreachable: [{ cause: unknown; failures: number; retryInMs: number }]
  reachable: [{ afterFailures: number }]
  /** The queue refuses what is reported of this job; also that it has failed, when it is forgotten. */
  untellable: [{ id: string; cause: unknown; isForgotten: boolean }]
  stale: [{ id: string }]
  /** Something is odd about the queue or, with an id, went wrong with what a job said. */
  warned: [{ message: string; id?: string }]
  line: [{ stream: 'stdout' | 'stderr'; line: string; ids: string[] }]
  log: [
    {
      id: string
      level: 'debug' | 'info' | 'warn' | 'error'
      fields: Record<string, unknown>
      message: string
    },
  ]
  draining: [{ signal: string; running: number; drainMs: number }]
  stopped: [{ jobs: number }]
}

export type WorkerEvents = EventEmitter<WorkerEventMap>

export function createWorkerEvents(): WorkerEvents {
  return new EventEmitter<WorkerEventMap>()
}
