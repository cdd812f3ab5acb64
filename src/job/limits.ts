// Every limit and default of a job, in one place. Sizes in bytes, times in ms.

/** A megabyte is decimal, so that a limit holds under either reading of the word. */
const MB = 1_000_000
const MiB = 1_048_576
const MINUTE = 60_000
const DAY = 86_400_000

export const limits = {
  /** Bodies are accepted up to the binary reading of 10 and 20 MB. */
  runBodyBytes: 10 * MiB,
  runsyncBodyBytes: 20 * MiB,
  /** One chunk on the wire, its envelope included. */
  chunkBytes: MB,
  outputBytes: 20 * MB,
  progressBytes: 64_000,
  /** What may ride beside one chunk. */
  metricsBytes: 64_000,
  /** One line of a handler's log, its fields included. */
  logBytes: 64_000,
  /** Levels of arrays and objects in an input or a body. */
  nestingLevels: 1000,
  executionTimeoutMs: { default: 10 * MINUTE, min: 5_000, max: 7 * DAY },
  ttlMs: { default: DAY, min: 10_000, max: 7 * DAY },
  waitMs: { default: 90_000, min: 1_000, max: 300_000 },
  retentionMs: { run: 30 * MINUTE, runsync: MINUTE, runsyncWithWait: 5 * MINUTE },
  /** The server ends a job that is silent for this long after its worker should have. */
  silentTimeoutMs: 5_000,
  maxAttempts: { default: 2, min: 1, max: 10 },
  streamWaitMs: { default: 5_000, min: 0, max: 300_000 },
  /** What one read of a stream answers at most; it always answers at least one chunk. */
  streamReadBytes: 8 * MB,
  /** Chunks of one job that were not yet acknowledged, before its generator has to wait. */
  unsentChunkBytes: 4 * MB,
  /** Jobs on one page of a list. */
  listJobs: { default: 100, min: 1, max: 1_000 },
  /** How long a request of the OpenAI kind waits for its job. */
  openaiWaitMs: 600_000,
  endpointIdChars: 64,
  idempotencyKeyChars: 255,
  webhookUrlChars: 2048,
  /** Tries of one delivery, the time from the end of one to the next, and the longest call. */
  webhook: { attempts: 3, pauseMs: 10_000, callMs: 10_000 },
  s3FieldChars: 2048,
  /** What a foreign worker may post: an output, its error text, and room for the envelope. */
  reportBodyBytes: 24 * MiB,
  errorTextChars: 32_000,
  /** What rates are counted over. */
  rateWindowMs: 10_000,
  /** What each running worker adds to a rate, where that comes to more than the rate itself. */
  requestsPerWorker: { default: 50, min: 0, max: 1_000_000 },
  /** Jobs of one worker at a time. */
  concurrency: 1_000,
} as const

/** How often a key may ask for what on one endpoint within 10 seconds, and how many of them at a time. */
export const rateLimits = {
  runsync: { requests: 2_000, concurrent: 400 },
  run: { requests: 1_000, concurrent: 200 },
  status: { requests: 2_000, concurrent: 400 },
  stream: { requests: 2_000, concurrent: 400 },
  cancel: { requests: 100, concurrent: 20 },
  'purge-queue': { requests: 2, concurrent: undefined },
  openai: { requests: 2_000, concurrent: 400 },
  requests: { requests: 10, concurrent: 2 },
} as const satisfies Record<string, { requests: number; concurrent: number | undefined }>

export type RatedOperation = keyof typeof rateLimits
