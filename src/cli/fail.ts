// The last words of a command that cannot do what was asked.

/** A sentence for a person; no stack belongs to it. */
export class CommandError extends Error {}

/** Says why on stderr and sets exit code 1. Unknown errors are bugs and show their stack. */
export function fail(cause: unknown): void {
  process.exitCode = 1
  process.stderr.write(`${isForPeople(cause) ? forPeople(cause) : inspect(cause)}\n`)
}

function isForPeople(cause: unknown): cause is Error {
  if (!(cause instanceof Error)) return false
  return cause instanceof CommandError || ('code' in cause && typeof cause.code === 'string')
}

function forPeople(error: Error): string {
  return 'code' in error ? `${error.message} [${String(error.code)}]` : error.message
}

function inspect(cause: unknown): string {
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)
}
