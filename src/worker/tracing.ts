// The trace of a submission as the surroundings of its handler, where the author uses OpenTelemetry.

import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import type { TraceContext } from '../job/job.ts'

/** Calls a function within the trace; without one, or without OpenTelemetry, as it is. */
export type WithinTrace = <T>(trace: TraceContext | undefined, call: () => T) => T

/** Uses the @opentelemetry/api that the handler file itself would import: the author's SDK is registered there. */
export async function findTracing(handlerFile: string): Promise<WithinTrace> {
  let path: string
  try {
    path = createRequire(handlerFile).resolve('@opentelemetry/api')
  } catch {
    // An optional peer: nobody traces here.
    return (_trace, call) => call()
  }
  const { context, propagation, ROOT_CONTEXT } = (await import(
    pathToFileURL(path).href
  )) as typeof import('@opentelemetry/api')
  return (trace, call) => (trace ? context.with(propagation.extract(ROOT_CONTEXT, trace), call) : call())
}
