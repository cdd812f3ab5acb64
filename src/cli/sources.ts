// What was said of the settings on the command line, in the environment and in the config file.

import { ConfigError, resolve, settled, type Sources } from '../config/resolve.ts'
import type { Configured } from '../config/setting.ts'
import type { Settled } from '../config/settings.ts'
import { CommandError } from './fail.ts'
import { readConfigFile } from './config-file.ts'

/** By key, as they were typed; `config` names the config file. */
export type Flags = Record<string, unknown>

export async function gather({ config, ...flags }: Flags): Promise<Sources> {
  const file = await readConfigFile(typeof config === 'string' ? config : undefined)
  return { flags, env: process.env, ...(file && { file }) }
}

/** The settings of a command, with what is odd told to `warn`. Throws CommandError with every problem, one in a line. */
export function settingsFor<C extends Configured>(
  command: C,
  sources: Sources,
  warn: (sentence: string) => void = warnOnStderr,
): Settled<C> {
  const resolved = resolve(sources, command)
  const values = orCommandError(() => settled(resolved))
  for (const sentence of resolved.warnings) warn(sentence)
  return values
}

export function warnOnStderr(sentence: string): void {
  process.stderr.write(`Warning: ${sentence}\n`)
}

export function orCommandError<T>(act: () => T): T {
  try {
    return act()
  } catch (cause) {
    if (cause instanceof ConfigError) throw new CommandError(cause.message)
    throw cause
  }
}

/** The handler file that was named. Throws CommandError where none was. */
export function namedHandler({ handler }: { handler?: string }, command: string): string {
  if (handler !== undefined) return handler
  throw new CommandError(
    `No handler is named. Give its file, as in longshore ${command} handler.ts, or set handler in longshore.config.ts.`,
  )
}
