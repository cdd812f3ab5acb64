// The words of a worker's log: one subscriber to its events.

import type { Logger } from 'pino'
import type { WorkerEvents } from './events.ts'

export function logWorkerEvents(events: WorkerEvents, log: Logger): void {
  logLife(events, log)
  logJobs(events, log)
  logProcesses(events, log)
}

function logLife(events: WorkerEvents, log: Logger): void {
  events.on('ready', ({ endpointUrl, workerId, concurrency, startMs }) =>
    log.info(
      { endpointUrl, workerId, concurrency, startMs },
      `ready after ${startMs} ms, leasing from ${endpointUrl}`,
    ),
  )
  events.on('watched', ({ host, port }) =>
    log.info({ healthPort: port }, `health and metrics at http://${host}:${port}`),
  )
  events.on('unreachable', ({ cause, failures, retryInMs }) =>
    // The first failure is news; the ones after it would only bury the rest of the log.
    log[failures === 1 || failures % 10 === 0 ? 'warn' : 'debug'](
      { failures, retryInMs, error: textOf(cause) },
      'queue cannot be reached, trying again',
    ),
  )
  events.on('untellable', ({ id, cause, isForgotten }) =>
    log.error(
      { jobId: id, error: textOf(cause) },
      isForgotten
        ? 'queue refuses even that the job has failed: its lease is left to lapse'
        : 'queue refuses what was reported of the job: it is told as failed',
    ),
  )
  events.on('reachable', ({ afterFailures }) => log.info({ afterFailures }, 'queue answers again'))
  events.on('warned', ({ message, id }) => log.warn(id === undefined ? {} : { jobId: id }, message))
  events.on('resized', ({ problem }) => {
    if (problem !== undefined) log.error({ problem }, 'the concurrency stays as it is')
  })
  events.on('concurrency', ({ from, to }) => log.info({ from, to }, `concurrency is now ${to}, was ${from}`))
  events.on('draining', ({ signal, running, drainMs }) =>
    log.info({ signal, running, drainMs }, 'leaving: takes no more jobs'),
  )
  events.on('stopped', ({ jobs }) => log.info({ jobs }, 'left'))
}

function logJobs(events: WorkerEvents, log: Logger): void {
  events.on('leased', ({ id, attempt }) => log.debug({ jobId: id, attempt }, 'leased'))
  events.on('ended', ({ id, outcome, executionMs, code, message }) => {
    const level = outcome === 'failed' || outcome === 'timedOut' || outcome === 'lost' ? 'warn' : 'debug'
    const why = code === undefined ? {} : { code, error: message }
    log[level]({ jobId: id, outcome, executionMs, ...why }, `job ${outcome}`)
  })
  events.on('stopping', ({ id, reason }) => log.info({ jobId: id, reason }, 'job is told to stop'))
  events.on('killing', ({ id, reason, graceMs }) =>
    log.warn({ jobId: id, reason }, `handler did not stop within ${graceMs} ms, ending its process`),
  )
  events.on('stalled', ({ ids, blockedMs, frames }) => {
    const place = frames[0] === undefined ? '' : ` in ${frames[0]}`
    const fields = { ...whose(ids), blockedMs, frames }
    log.warn(fields, `handler has blocked its event loop for ${blockedMs} ms${place}`)
  })
  events.on('line', ({ stream, line, ids }) => log.info({ ...whose(ids), stream }, line))
  // An error comes from the handler's process as what describes it, and is not to be described again.
  const ofHandlers = log.child({}, { serializers: { err: (err: unknown) => err } })
  events.on('log', ({ id, level, fields, message }) =>
    ofHandlers[level]({ ...renamed(fields), jobId: id }, message),
  )
}

/** What a line says of itself, in the words of pino and ours. */
const OWN_KEYS = new Set(['level', 'time', 'pid', 'hostname', 'name', 'msg', 'jobId'])

/** An author's fields of these names would be second keys of the same name, and readers take the last one. */
function renamed(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [OWN_KEYS.has(key) ? `${key}_` : key, value]),
  )
}

function logProcesses(events: WorkerEvents, log: Logger): void {
  events.on('died', ({ exitCode, signal, ids, lastLines }) =>
    log.warn(
      { ...whose(ids), exitCode, signal, lastLines },
      `handler process ended (${signal ?? `code ${exitCode}`}), replacing it`,
    ),
  )
  events.on('accident', ({ error, ids }) =>
    log.error(
      { ...whose(ids), error },
      'what an earlier job left behind ends the handler process; jobs in it are handed back',
    ),
  )
  events.on('unready', ({ cause, failures, isSpare = false, isBeside = false }) =>
    log[isSpare || isBeside ? 'warn' : 'error'](
      { failures, error: textOf(cause) },
      isBeside
        ? 'handler process cannot be used beside the one that it is to replace, trying again when that has ended'
        : `${isSpare ? 'spare handler process' : 'handler process'} cannot be used, trying again after a while`,
    ),
  )
}

/** A line that belongs to a job carries its id. */
function whose(ids: string[]): { jobId?: string; jobIds?: string[] } {
  const [only] = ids
  if (only === undefined) return {}
  return ids.length === 1 ? { jobId: only } : { jobIds: ids }
}

function textOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}
