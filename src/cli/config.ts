// longshore config: prints what each setting is and where it came from, as a command would take it.

import { resolve, type Sources } from '../config/resolve.ts'
import { type Configured, type Setting } from '../config/setting.ts'
import { keysOf, settings, type SettingKey } from '../config/settings.ts'
import { shownStore } from '../store/shown-store.ts'
import { meansHosted, missingOf, readHosted } from '../worker/config.ts'
import { print } from './print.ts'
import { gather, warnOnStderr, type Flags } from './sources.ts'

const MASKED = '[masked]'

/** Undefined when it is not set. */
type Value = string | number | boolean | readonly string[] | undefined

interface Shown {
  name: string
  value: Value
  /** The place where it was said, or `default`. */
  from: string
}

export interface ShowOptions {
  flags: Flags
  /** The command whose settings are wanted; all without it. */
  of: Configured | undefined
  asJson: boolean
}

/** The settings on stdout; what is wrong with them on stderr, and exit code 1 then. */
export async function showConfig({ flags, of: command, asJson }: ShowOptions): Promise<void> {
  const sources = await gather(flags)
  const { values, origins, problems, warnings } = resolve(sources, command)
  const shown = keysOf(command).map((key) => ({
    name: key,
    value: shownValue(key, values[key]),
    from: origins[key] ?? 'default',
  }))
  const queue = command === undefined || command === 'start' ? ofQueue(sources, command) : NOTHING
  const lines = [...shown, ...queue.shown]
  print(asJson ? asDocument(lines) : asTable(lines))
  for (const sentence of warnings) warnOnStderr(sentence)
  for (const sentence of [...queue.problems, ...problems]) {
    process.exitCode = 1
    process.stderr.write(`${sentence}\n`)
  }
}

const NOTHING = { shown: [] as Shown[], problems: [] as string[] }

/** What a worker of the hosted platform goes by, or what one of ours still needs. */
function ofQueue(sources: Sources, command: Configured | undefined): typeof NOTHING {
  if (!meansHosted(sources)) return { shown: [], problems: command === 'start' ? missingOf(sources) : [] }
  const { values, problems } = readHosted(sources.env)
  const shown = Object.entries(values ?? {}).map(([name, value]) => ({
    name,
    value: name === 'RUNPOD_AI_API_KEY' ? MASKED : withoutSecrets(value),
    from: sources.env[name] ? name : 'default',
  }))
  return { shown, problems }
}

function shownValue(key: SettingKey, value: Value): Value {
  const setting: Setting = settings[key]
  if (value === undefined) return undefined
  if (setting.isSecret) return MASKED
  return (key === 'store' || key === 'devStore') && typeof value === 'string'
    ? shownStore(value)
    : withoutSecrets(value)
}

/** Addresses may carry a password, and those of the platform a key behind a `?`. */
function withoutSecrets(value: Value): Value {
  if (typeof value !== 'string') return value
  const url = URL.parse(value)
  if (!url || !/^https?:$/.test(url.protocol)) return value
  return value.replace(/\/\/[^/?#]*@/, `//${MASKED}@`).replace(/\?.*$/s, `?${MASKED}`)
}

function asDocument(lines: readonly Shown[]): string {
  const entries = lines.map(({ name, value = null, from }) => [name, { value, from }])
  return `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`
}

function asTable(lines: readonly Shown[]): string {
  const rows = lines.map(({ name, value, from }) => [name, words(name, value), from] as const)
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows
    .map(([name, value, from]) => `${name.padEnd(widths[0]!)}  ${value.padEnd(widths[1]!)}  ${from}\n`)
    .join('')
}

/** Without a value there may be words for what holds then. */
function words(name: string, value: Value): string {
  if (typeof value === 'object') return value.length > 0 ? value.join(',') : defaultWords(name)
  return value === undefined ? defaultWords(name) : String(value)
}

function defaultWords(name: string): string {
  const { defaultWords: said } = (settings as Record<string, Setting>)[name] ?? {}
  return said === undefined ? '-' : `(${said.replaceAll('`', '')})`
}
