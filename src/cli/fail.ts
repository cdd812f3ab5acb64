// The last words of a command that cannot do what was asked.

/** A sentence for a person; no stack belongs to it. */
export class CommandError extends Error {}

/** Something is not waited for any longer and goes on: nothing but an exit ends the process. */
export class StuckError extends CommandError {}

/** Says why on stderr and sets exit code 1. Unknown errors are bugs and show their stack. */
export function fail(cause: unknown): void {
  process.exitCode = 1
  process.stderr.write(`${isForPeople(cause) ? forPeople(cause) : inspect(cause)}\n`)
  if (cause instanceof StuckError) process.exit()
}

export function isForPeople(cause: unknown): cause is Error {
  if (!(cause instanceof Error)) return false
  return cause instanceof CommandError || ('code' in cause && typeof cause.code === 'string')
}

function forPeople(error: Error): string {
  if (isCommandLeftOut(error))
    return 'This is the worker alone, with the commands start, run and doctor --live. Install the whole package for the others: npm install longshore.'
  return 'code' in error ? `${error.message} [${String(error.code)}]` : error.message
}

/** The images of workers hold no file of another command. */
function isCommandLeftOut(error: Error): boolean {
  return 'url' in error && /\/cli\/[\w-]+\.js$/.test(String(error.url))
}

function inspect(cause: unknown): string {
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause)
}
