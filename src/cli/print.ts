// What a command has to say, to whoever reads it.

/** Writes to stdout. Its reader may have had enough, as "head" has: not a fault, and nothing is left to be said. */
export function print(text: string): void {
  process.stdout.once('error', (cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'EPIPE') throw cause
    process.exit()
  })
  process.stdout.write(text)
}
