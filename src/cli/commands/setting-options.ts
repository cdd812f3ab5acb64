// The options of a command that are settings, made from their table, and what was typed of them.

import { Option, type Command } from 'commander'
import type { Stranger } from '../../config/resolve.ts'
import { flagOf, variableOf, type Configured, type Setting } from '../../config/setting.ts'
import { keysOf, settings, type SettingKey } from '../../config/settings.ts'
import type { Flags } from '../sources.ts'

/** Adds the settings of a command, or all there are, and --config. Their values stay texts: the table judges them. */
export function addSettings(command: Command, of?: Configured): Command {
  noteStrangers(command)
  for (const key of keysOf(of)) {
    const setting: Setting = settings[key]
    if (setting.isArgument) command.argument(`[${key}]`, plain(setting.description))
    else for (const option of optionsOf(key, setting)) if (!has(command, option)) command.addOption(option)
  }
  return command.addOption(
    new Option('--config <file>', 'the config file (default: longshore.config.ts, .js or .mjs here, if any)'),
  )
}

const STRANGER = 'stranger'

/**
 * Has the command take flags that it does not know, with what may be their values, so that they are told with all else that is
 * wrong. Its own parser would end at the first of them, before any setting is looked at.
 */
function noteStrangers(command: Command): void {
  const parse = command.parseOptions.bind(command)
  command.parseOptions = (argv) => {
    const { operands, unknown } = parse(argv)
    if (unknown.some((word) => word === '--help' || word === '-h')) return { operands, unknown }
    const [kept, values]: [string[], string[]] = [[...operands], []]
    unknown.forEach((word, index) => {
      if (isFlag(word)) command.setOptionValueWithSource(word.replace(/=.*$/s, ''), true, STRANGER)
      else if (isFlag(unknown[index - 1] ?? '') && !unknown[index - 1]!.includes('=')) values.push(word)
      else if (word !== '--') kept.push(word)
    })
    // What follows a flag is its value, as long as nothing that has to be there is missing then.
    const needed = command.registeredArguments.filter(({ required }) => required).length
    return { operands: [...kept, ...values].slice(0, Math.max(kept.length, needed)), unknown: [] }
  }
}

function isFlag(word: string): boolean {
  return /^-[^\d]/.test(word) && word !== '--'
}

/** What was typed and is no flag of the command at all. */
export function strangersOf(command: Command): Record<string, Stranger> {
  const words: string[] = [command.name()]
  for (let above = command.parent; above; above = above.parent) words.unshift(above.name())
  const known = command.options.filter(({ hidden }) => !hidden).flatMap(({ long }) => long ?? [])
  const stranger: Stranger = { command: words.join(' '), known }
  const flags = Object.keys(command.opts()).filter((flag) => command.getOptionValueSource(flag) === STRANGER)
  return Object.fromEntries(flags.map((flag) => [flag, stranger]))
}

/** What was typed of the settings that a command has, and of --config, by key, of two with one flag that of `of`; and what was no flag, by itself. */
export function flagsOf(command: Command, of?: Configured, keys: readonly SettingKey[] = keysOf(of)): Flags {
  const flags: Flags = strangersOf(command)
  const keyOfFlag = keysOfFlags(of)
  const mine = new Set<string>([...keys, 'config'])
  for (const option of command.options) {
    const name = option.attributeName()
    const key = keyOfFlag.get(name) ?? name
    if (mine.has(key) && command.getOptionValueSource(name) === 'cli')
      flags[key] = command.getOptionValue(name)
  }
  command.registeredArguments.forEach((argument, index) => {
    const value: unknown = command.processedArgs[index]
    if (mine.has(argument.name()) && value !== undefined) flags[argument.name()] = value
  })
  return flags
}

/** All settings by the attribute that commander makes of their flag; of two with one flag that of the command, else the first. */
export function keysOfFlags(of?: Configured): Map<string, SettingKey> {
  const keys = [...keysOf().toReversed(), ...keysOf(of).toReversed()]
  const named = keys
    .filter((key) => !(settings[key] as Setting).isArgument)
    .map((key) => [new Option(flagOf(key, settings[key])).attributeName(), key] as const)
  return new Map(named)
}

function has(command: Command, { long }: Option): boolean {
  return command.options.some((option) => option.long === long)
}

/** A switch has two, so that one can say no to what a variable or the file says; that of its default is not shown. */
function optionsOf(key: SettingKey, setting: Setting): Option[] {
  const flag = flagOf(key, setting)
  const { kind, valueName } = setting
  const described = `${plain(setting.description)}${defaultOf(setting)} [${variableOf(key, setting)}]`
  if (kind === 'switch') {
    const [on, off] = [new Option(flag, described), new Option(flag.replace('--', '--no-'), described)]
    return [on.hideHelp(setting.default === true), off.hideHelp(setting.default !== true)]
  }
  const name = setting.isSecret ? 'file' : valueName
  const option = new Option(`${flag} <${name}${kind === 'list' ? '...' : ''}>`, described)
  if (setting.isSecret) option.description = `a file that holds ${described}`
  return [option]
}

function defaultOf({ default: value, defaultWords }: Setting): string {
  if (typeof value === 'boolean') return ''
  const words = defaultWords ?? (value === undefined ? undefined : String(value))
  return words === undefined ? '' : ` (default: ${plain(words)})`
}

function plain(text: string): string {
  return text.replaceAll('`', '')
}
