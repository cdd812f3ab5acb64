// What is said of a process that came to nothing without any job's doing.

import type { JobError } from '../job/job.ts'
import type { Death } from './death.ts'
import { UnreadyError } from './handler-process.ts'

export function diedBefore(what: string, { accident, signal, exitCode }: Death): UnreadyError {
  const how = signal ? `signal ${signal}` : `exit code ${exitCode}`
  const message = accident
    ? `An error outside of any job ended the handler's process: ${accident.type}: ${accident.message}${placeOf(accident)}. Look at what the handler's file or its setup() left running.`
    : `The handler's process ended before ${what} (${how}). Look at what the handler's file or its setup() left running.`
  return new UnreadyError('EXECUTOR_DIED', message)
}

/** Where it was thrown, in brackets. */
function placeOf({ stack }: JobError): string {
  const frame = stack?.split('\n').find((line) => /^\s+at /.test(line))
  return frame === undefined ? '' : ` (${frame.trim()})`
}
