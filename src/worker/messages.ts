// What the supervisor and the handler's process say to each other: the heads of their frames.

import { z } from 'zod'
import { jobErrorSchema, type Policy, type S3Config, type TraceContext } from '../job/job.ts'
import { limits } from '../job/limits.ts'

/** Supervisor to child. The payload of `run` is the input as JSON. */
export type ToChild =
  /** Import this file and set it up; the process has only its own runtime loaded until then. */
  | { type: 'load'; handlerPath: string; reportsMemory: boolean; reportsFiles: boolean }
  | {
      type: 'run'
      run: number
      id: string
      attempt: number
      policy: Policy
      s3Config?: S3Config
      trace?: TraceContext
      scratchDir: string
    }
  | { type: 'abort'; run: number; reason: string }
  /** So many bytes of this run's chunks are stored: the generator may go on. */
  | { type: 'stored'; run: number; bytes: number }
  /** How many jobs should run at a time, now that it is `current`? */
  | { type: 'resize'; current: number }
  | { type: 'leave' }

const run = z.int().min(0)
const ended = {
  run,
  executionMs: z.number().min(0),
  /** Whether the handler made a generator, also one that yielded nothing. */
  isStream: z.boolean().optional(),
  /** The handler wants the next job to begin in a fresh process. */
  refresh: z.boolean().optional(),
  /** Whether it made its scratch folder, which is to be removed. */
  scratch: z.boolean().optional(),
  /** Resident memory of the process after the job, bytes. */
  rssBytes: z.number().min(0).optional(),
}

/** What the definition says beside the handler. */
const factsSchema = z.object({
  refresh: z.boolean(),
  concurrency: z.int().min(1).max(limits.concurrency).optional(),
  /** What is wrong with it, when it was refused. */
  problem: z.string().optional(),
  /** Whether the definition has a function for its concurrency. */
  resizes: z.boolean(),
})
export type HandlerFacts = z.output<typeof factsSchema>

/** What it took to get a process ready for its first job. */
const startSchema = z.object({
  /** From the start of the process until its own runtime was loaded. */
  runtimeMs: z.number().min(0),
  importMs: z.number().min(0),
  setupMs: z.number().min(0),
  /** Resident memory once it was ready. */
  rssBytes: z.number().min(0),
})
export type StartFacts = z.output<typeof startSchema>

/** A line of the author's code. */
const placeSchema = z.object({ file: z.string(), line: z.int().min(1) })
export type SourcePlace = z.output<typeof placeSchema>

/** A file that importing the handler has to do with, as it was at that moment. */
const importedFileSchema = z.object({
  path: z.string(),
  /** By `versionOf`. */
  version: z.string(),
  /** Not loaded: a folder that an import looked in for what is not there. */
  isSearched: z.boolean().optional(),
})
export type ImportedFile = z.output<typeof importedFileSchema>

/** Child to supervisor: the author's code runs there, so what comes is checked. Payloads are JSON text. */
export const fromChildSchema = z.discriminatedUnion('type', [
  /** Its own runtime is loaded: it can be told to load a handler. */
  z.object({ type: z.literal('up') }),
  z.object({ type: z.literal('imported') }),
  /** Told only where it was asked for; also while jobs run. */
  z.object({ type: z.literal('file'), file: importedFileSchema }),
  z.object({ type: z.literal('ready'), facts: factsSchema, start: startSchema }),
  z.object({
    type: z.literal('unready'),
    code: z.string(),
    message: z.string(),
    place: placeSchema.optional(),
  }),
  z.object({
    type: z.literal('resized'),
    concurrency: z.int().min(1).max(limits.concurrency).optional(),
    /** Why there is no number. */
    problem: z.string().optional(),
  }),
  /** An accident is ending the process; `run` is on whose behalf the code ran, where that can be told. */
  z.object({ type: z.literal('dying'), run: run.optional(), error: jobErrorSchema }),
  z.object({
    type: z.literal('chunk'),
    run,
    metrics: z.string().optional(),
    part: z
      .object({ as: z.enum(['text', 'array', 'bytes', 'json']), back: z.int().min(0), last: z.boolean() })
      .optional(),
  }),
  z.object({ type: z.literal('progress'), run }),
  z.object({ type: z.literal('completed'), ...ended }),
  z.object({ type: z.literal('failed'), ...ended, error: jobErrorSchema }),
  z.object({
    type: z.literal('log'),
    run,
    level: z.enum(['debug', 'info', 'warn', 'error']),
    fields: z.record(z.string(), z.unknown()),
    message: z.string(),
  }),
])
export type FromChild = z.output<typeof fromChildSchema>

/** The most that the payload of each may have; JSON text has at least one byte. */
const PAYLOAD_BYTES: Partial<Record<FromChild['type'], number>> = {
  chunk: limits.chunkBytes,
  progress: limits.progressBytes,
  completed: limits.outputBytes,
}

/** Throws when the payload is not one that the queue would take: it would refuse what other jobs report beside it, too. */
export function checkPayload({ type }: FromChild, { byteLength }: Uint8Array): void {
  const most = PAYLOAD_BYTES[type]
  if (most !== undefined && (byteLength === 0 || byteLength > most))
    throw new Error(`A message '${type}' came with ${byteLength} bytes; it has from 1 to ${most}.`)
}

/** What belongs to one job. */
export type RunMessage = Extract<FromChild, { type: 'chunk' | 'progress' | 'completed' | 'failed' | 'log' }>

/** The watchdog thread's word about a main thread that does not turn; one line of JSON. */
export const stallSchema = z.object({
  blockedMs: z.number().min(0),
  /** Innermost frames of the author's code, as `function (file:line)`; empty when it could not be told. */
  frames: z.array(z.string()),
})
export type Stall = z.output<typeof stallSchema>

/**
 * That some code ends the process, by process.exit or by an error that nobody caught, and for which run: on the watchdog's
 * socket, where it can be said while the other one is in the middle of a frame. One line of JSON.
 */
export const endSchema = z.union([
  z.object({ exitCode: z.int(), run: run.optional() }),
  z.object({ error: jobErrorSchema, run }),
])
export type EndNote = z.output<typeof endSchema>
