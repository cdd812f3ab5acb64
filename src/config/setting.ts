// What a setting is, and the kinds of values there are. Data alone: every command reads it, also one that has to be quick.

/** The commands that have settings. */
export const configured = [
  'dev',
  'serve',
  'start',
  'run',
  'keys',
  'doctor',
  'deploy',
  'endpoints',
  'pods',
  'logs',
] as const
export type Configured = (typeof configured)[number]

/** What a text may be, beyond not empty. */
export type Format =
  | 'endpointUrl'
  | 'endpointName'
  | 'header'
  | 'headerOfRequests'
  | 'workerId'
  | 'socketPath'
  | 'storeUrl'
  | 'serviceUrl'
  | 'httpUrl'
  | 'ipAddress'

interface Named {
  /** What the value is called behind its flag. */
  valueName: string
}
export interface NumberKind extends Named {
  kind: 'number'
  min: number
  max: number
  /** What it must be, as it goes on after the name of the setting. */
  error: string
}
export interface TextKind extends Named {
  kind: 'text' | 'file'
  format?: Format
}
export interface ChoiceKind<C extends string = string> extends Named {
  kind: 'choice'
  choices: readonly C[]
  error: string
}
export interface SwitchKind extends Named {
  kind: 'switch'
}
export interface ListKind extends Named {
  kind: 'list'
  format: Format
}
export type Kind = NumberKind | TextKind | ChoiceKind | SwitchKind | ListKind

/** What a value of the kind is in a config file and in the program. */
export type ValueOfKind<K> = K extends { kind: 'number' }
  ? number
  : K extends { kind: 'switch' }
    ? boolean
    : K extends { kind: 'list' }
      ? string[]
      : K extends { choices: readonly (infer C)[] }
        ? C
        : string

export type Setting = Kind & Place

export interface Place {
  commands: readonly Configured[]
  description: string
  default?: string | number | boolean | readonly string[]
  /** For people, where there is no default that could be told as a value. */
  defaultWords?: string
  /** Where it is not made from the key: `--health-port` of `healthPort`. */
  flag?: string
  /** Where it is not made from the key: `LONGSHORE_HEALTH_PORT` of `healthPort`. */
  variable?: string
  /** Given without a flag, by its place in the command. */
  isArgument?: true
  /** Never shown; its flag names a file that holds it, since other users can see command lines. */
  isSecret?: true
  /** An empty variable is a wrong value; elsewhere it counts as not set. */
  refusesEmpty?: true
}

export function wholeNumber(
  { min, max }: { min: number; max: number },
  error = `must be a whole number from ${min} to ${max}`,
  valueName = 'number',
): NumberKind {
  return { kind: 'number', min, max, error, valueName }
}

const A_WEEK_MS = 604_800_000

export const milliseconds = wholeNumber(
  { min: 0, max: A_WEEK_MS },
  `must be a whole number of ms from 0 to ${A_WEEK_MS}`,
  'ms',
)

export const port = wholeNumber({ min: 0, max: 65_535 }, 'must be a port from 0 to 65535')

export function text(valueName: string, format?: Format): TextKind {
  return { kind: 'text', valueName, ...(format && { format }) }
}

export function file(): TextKind {
  return { kind: 'file', valueName: 'file' }
}

export function choice<const C extends string>(
  valueName: string,
  choices: readonly C[],
  words: string,
): ChoiceKind<C> {
  return { kind: 'choice', choices, error: `must be ${words}`, valueName }
}

export function onOff(): SwitchKind {
  return { kind: 'switch', valueName: '' }
}

export function list(valueName: string, format: Format): ListKind {
  return { kind: 'list', format, valueName }
}

/** A value from a flag or a variable, for the schema to judge. */
export function fromText({ kind }: Setting, given: string): unknown {
  if (kind === 'number') return /^\d+$/.test(given) ? Number(given) : Number.NaN
  if (kind === 'switch') return { true: true, 1: true, false: false, 0: false }[given] ?? given
  if (kind === 'list') return given.split(/[\s,]+/).filter(Boolean)
  return given
}

export function flagOf(key: string, { flag, isSecret, isArgument }: Place): string {
  if (isArgument) return `<${key}>`
  return (
    flag ?? `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}${isSecret ? '-file' : ''}`
  )
}

export function variableOf(key: string, { variable }: Place): string {
  return variable ?? `LONGSHORE_${key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`
}
