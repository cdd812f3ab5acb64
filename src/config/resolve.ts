// From flags, variables, the config file and defaults to the settings that hold, and where each of them came from.

import { readFileSync } from 'node:fs'
import { didYouMean } from './did-you-mean.ts'
import { flagOf, fromText, variableOf, type Configured, type Place, type Setting } from './setting.ts'
import { configFileSchema, schemas } from './schema.ts'
import { keysOf, settingKeys, settings, type SettingKey, type Settled } from './settings.ts'

/** What was said, by place. */
export interface Sources {
  /** By key; texts as they were given, lists of them, and true or false of switches. Undefined is not given. A Stranger by itself. */
  flags: Record<string, unknown>
  env: NodeJS.ProcessEnv
  file?: ConfigFile
}

/** Of a flag that a command has none of, such as `--prot`: the command, and the flags it has. */
export interface Stranger {
  command: string
  known: readonly string[]
}

export interface ConfigFile {
  /** As it is named in messages. */
  name: string
  values: Record<string, unknown>
}

export interface Resolved<C extends Configured = Configured> {
  /** Those that are right. */
  values: Partial<Settled<C>>
  /** For each that was said somewhere, the place: `--port`, `LONGSHORE_PORT`, `port in longshore.config.ts`. */
  origins: Partial<Record<SettingKey, string>>
  /** Sentences; none when all is well. */
  problems: string[]
  warnings: string[]
}

/** Settings that are wrong: a sentence for each. */
export class ConfigError extends Error {}

interface Said {
  origin: string
  value: unknown
}

/** The settings of a command, or all of them. A flag is before a variable, that before the file, and that before the default. */
export function resolve<C extends Configured>(sources: Sources, command?: C): Resolved<C> {
  const resolved: Resolved<C> = { values: {}, origins: {}, problems: [], warnings: [] }
  const keys = keysOf(command)
  for (const key of keys) settle(key, sources, resolved)
  const mine = new Set<string>(keys)
  const strangers = Object.keys(sources.flags).filter(
    (key) => !mine.has(key) && sources.flags[key] !== undefined,
  )
  for (const key of strangers) {
    const given = sources.flags[key]
    const sentence = isStranger(given) ? noFlag(key, given) : strangeFlag(key, keys, command)
    resolved.problems.push(sentence)
  }
  if (sources.file) resolved.problems.push(...fileProblems(sources.file, resolved))
  resolved.warnings.push(...unknownVariables(sources.env))
  return resolved
}

/** The settings to go by. Throws ConfigError with every problem, one in a line. */
export function settled<C extends Configured>({ values, problems }: Resolved<C>): Settled<C> {
  if (problems.length > 0) throw new ConfigError(problems.join('\n'))
  return values as Settled<C>
}

function settle(
  key: SettingKey,
  sources: Sources,
  { values, origins, problems }: Pick<Resolved, 'origins' | 'problems'> & { values: object },
): void {
  const setting: Setting = settings[key]
  const assign = (value: unknown): unknown => Reflect.set(values, key, value)
  try {
    const said = byFlag(key, setting, sources) ?? byVariable(key, setting, sources) ?? byFile(key, sources)
    if (!said) {
      if (setting.default !== undefined) assign(setting.default)
      return
    }
    origins[key] = said.origin
    const parsed = schemas[key].safeParse(said.value)
    if (parsed.success) assign(parsed.data)
    else problems.push(...new Set(parsed.error.issues.map(({ message }) => `${said.origin} ${message}.`)))
  } catch (cause) {
    if (!(cause instanceof ConfigError)) throw cause
    problems.push(cause.message)
  }
}

function byFlag(key: string, setting: Setting, { flags }: Sources): Said | undefined {
  const given = flags[key]
  if (given === undefined) return undefined
  const origin = flagOf(key, setting)
  if (typeof given !== 'string') return { origin, value: given }
  return { origin, value: setting.isSecret ? secretIn(given, origin) : fromText(setting, given) }
}

/** What editors and shells put behind the last line is not part of it. */
function secretIn(path: string, origin: string): string {
  try {
    return readFileSync(path, 'utf8').replace(/\r?\n$/, '')
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new ConfigError(`${origin} names a file that cannot be read: ${why}.`)
  }
}

function byVariable(key: string, setting: Setting, { env }: Sources): Said | undefined {
  const origin = variableOf(key, setting)
  const given = env[origin]
  if (given === undefined || (given === '' && !setting.refusesEmpty)) return undefined
  if (isOfKubernetes(origin, given)) return undefined
  return { origin, value: fromText(setting, given) }
}

function byFile(key: string, { file }: Sources): Said | undefined {
  const value = file?.values[key]
  return value === undefined ? undefined : { origin: inFile(key, file!), value }
}

function inFile(key: string, { name }: ConfigFile): string {
  return `${key} in ${name}`
}

/** The file is checked whole, whatever command reads it and whatever is before it. */
function fileProblems(file: ConfigFile, { origins }: Pick<Resolved, 'origins'>): string[] {
  const parsed = configFileSchema.safeParse(file.values)
  if (parsed.success) return []
  const problems = parsed.error.issues.flatMap((issue) => {
    if (issue.code === 'unrecognized_keys') {
      return issue.keys.map((key) => `${inFile(key, file)} is no setting.${didYouMean(key, settingKeys)}`)
    }
    const key = String(issue.path[0]) as SettingKey
    const place = inFile(key, file)
    // What holds was judged already.
    return origins[key] === place ? [] : [`${place} ${issue.message}.`]
  })
  return [...new Set(problems)]
}

export function isStranger(given: unknown): given is Stranger {
  return typeof given === 'object' && given !== null && 'known' in given
}

function noFlag(flag: string, { command, known }: Stranger): string {
  return `${flag} is no flag of ${command}.${didYouMean(flag, known)}`
}

const NO_PLACE: Place = { commands: [], description: '' }

function strangeFlag(key: string, keys: readonly SettingKey[], command?: Configured): string {
  const shown = (one: string): string => flagOf(one, settings[one as SettingKey] ?? NO_PLACE)
  const owner =
    { start: 'a worker', serve: 'the service' }[String(command)] ?? `longshore ${command ?? 'config'}`
  return `${shown(key)} is no setting of ${owner}.${didYouMean(shown(key), keys.map(shown))}`
}

/** Between the command and the processes of handlers, and from the service to its pods; nobody sets them. */
const INTERNAL = ['LONGSHORE_LOCAL_BUCKET', 'LONGSHORE_VOLUME']

function unknownVariables(env: NodeJS.ProcessEnv): string[] {
  const known = settingKeys.map((key) => variableOf(key, settings[key]))
  return Object.entries(env)
    .filter(([name]) => name.startsWith('LONGSHORE_') && !known.includes(name) && !INTERNAL.includes(name))
    .filter(([name, value]) => !isOfKubernetes(name, value ?? ''))
    .map(([name]) => `${name} is no variable of longshore.${didYouMean(name, known)}`)
}

/** What Kubernetes puts into every container beside a service by the name of longshore. */
function isOfKubernetes(name: string, value: string): boolean {
  if (name === 'LONGSHORE_PORT') return /^(?:tcp|udp|sctp):\/\//.test(value)
  return /^LONGSHORE_(?:SERVICE_(?:HOST|PORT)|PORT_\d+_(?:TCP|UDP|SCTP))/.test(name)
}
