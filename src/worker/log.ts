// The words of a worker's log: one subscriber to its events.

import type { Logger } from 'pino'
import type { WorkerEvents } from './events.ts'

export function logWorkerEvents(events: WorkerEvents, log: Logger): void {
  events.on('ready', ({ endpointUrl, workerId, concurrency, startMs }) =>
    log.info(
      { endpointUrl, workerId, concurrency, startMs },
      `ready after ${startMs} ms, leasing from ${endpointUrl}`,
    ),
  )
  events.on('leased', ({ id, attempt }) => log.debug({ jobId: id, attempt }, 'leased'))
  events.on('ended', ({ id, outcome, executionMs, code, message }) => {
    const level = outcome === 'failed' || outcome === 'timedOut' ? 'warn' : 'debug'
    log[level](
      { jobId: id, outcome, executionMs, ...(code !== undefined && { code, error: message }) },
      `job ${outcome}`,
    )
  })
  events.on('stopping', ({ id, reason }) => log.info({ jobId: id, reason }, 'job is told to stop'))
  events.on('killing', ({ id, reason, graceMs }) =>
    log.warn({ jobId: id, reason }, `handler did not stop within ${graceMs} ms, ending its process`),
  )
  events.on('died', ({ exitCode, signal, ids, lastLines }) =>
    log.warn(
      { exitCode, signal, jobIds: ids, lastLines },
      `handler process ended (${signal ?? `code ${exitCode}`}), replacing it`,
    ),
  )
  events.on('unready', ({ cause, failures }) =>
    log.error(
      { failures, error: cause instanceof Error ? cause.message : String(cause) },
      'handler process did not become ready',
    ),
  )
  events.on('unreachable', ({ cause, failures, retryInMs }) =>
    // The first failure is news; the ones after it would only bury the rest of the log.
    log[failures === 1 || failures % 10 === 0 ? 'warn' : 'debug'](
      { failures, retryInMs, error: cause instanceof Error ? cause.message : String(cause) },
      'queue cannot be reached, trying again',
    ),
  )
  events.on('reachable', ({ afterFailures }) => log.info({ afterFailures }, 'queue answers again'))
  events.on('line', ({ stream, line, ids }) =>
    log.info({ stream, ...(ids.length === 1 ? { jobId: ids[0] } : ids.length > 1 && { jobIds: ids }) }, line),
  )
  events.on('log', ({ id, level, fields, message }) => log[level]({ ...fields, jobId: id }, message))
  events.on('draining', ({ signal, running, drainMs }) =>
    log.info({ signal, running, drainMs }, 'leaving: takes no more jobs'),
  )
  events.on('stopped', ({ jobs }) => log.info({ jobs }, 'left'))
}
