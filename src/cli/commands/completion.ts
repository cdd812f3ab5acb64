// The options of longshore completion, and what there is to complete: read from the commands themselves.

import { Argument, type Command, type Option } from 'commander'
import { settings, type SettingKey } from '../../config/settings.ts'
import { shells, type CompletedCommand, type CompletedOption, type Values } from '../completion/completed.ts'
import { keysOfFlags } from './setting-options.ts'

export function addCompletion(program: Command): void {
  program
    .command('completion')
    .description('print a script that completes commands, flags and values in a shell')
    .addArgument(new Argument('<shell>', 'which shell').choices(shells))
    .addHelpText('after', '\nExample:\n  source <(longshore completion bash)')
    .action(async (shell: (typeof shells)[number]) => {
      const { completion } = await import('../completion.ts')
      await completion(shell, completedOf(program))
    })
}

/** The command and, one after the other, those below it. */
function completedOf(command: Command, path: readonly string[] = []): CompletedCommand[] {
  const below = command.commands.map((one) => ({ name: one.name(), description: one.description() }))
  const isShown = ({ hidden }: Option): boolean => !hidden
  const itself = {
    path,
    commands: below,
    options: command.createHelp().visibleOptions(command).filter(isShown).map(optionOf),
    positionals: command.registeredArguments.map((argument) => ({
      name: argument.name(),
      values: valuesOf(argument.name(), argument.argChoices ?? SAID_ELSEWHERE[argument.name()]),
    })),
  }
  const others = command.commands.flatMap((one) => completedOf(one, [...path, one.name()]))
  return path.length > 0 ? [itself, ...others] : [withHelp(itself), ...others, helpFor(below)]
}

/** Those that commander does not judge, so that the command says in its own words what is wrong with one. */
const SAID_ELSEWHERE: Record<string, readonly string[]> = {
  permissions: ['read', 'write', 'worker', 'fleet'],
  template: ['hello', 'ocr', 'openai-proxy', 'stream-text', 'thumbnail'],
}

const HELP = { name: 'help', description: 'display help for command' }

function withHelp(longshore: CompletedCommand): CompletedCommand {
  return { ...longshore, commands: [...longshore.commands, HELP] }
}

function helpFor(commands: CompletedCommand['commands']): CompletedCommand {
  const choices = commands.map(({ name }) => name)
  const positionals = [{ name: 'command', values: { kind: 'choices', choices } as const }]
  return { path: ['help'], commands: [], options: [], positionals }
}

function optionOf(option: Option): CompletedOption {
  const { long, short, description, required, optional, argChoices, flags, variadic } = option
  const names = [long, short].filter((name) => name !== undefined)
  if (!required && !optional) return { names, description }
  const key = keysOfFlags().get(option.attributeName())
  const valueName = /<([^>.]+)/.exec(flags)?.[1] ?? 'value'
  return {
    names,
    description,
    value: {
      name: valueName,
      values: valuesOf(valueName, argChoices ?? SAID_ELSEWHERE[valueName] ?? choicesOf(key)),
      isMany: variadic,
    },
  }
}

function choicesOf(key: SettingKey | undefined): readonly string[] | undefined {
  const setting = key === undefined ? undefined : settings[key]
  return setting?.kind === 'choice' ? setting.choices : undefined
}

/** By what a value or an argument is called; of others nothing is known. */
const KINDS: Record<string, 'files' | 'folders' | 'files behind @'> = {
  file: 'files',
  handler: 'files',
  paths: 'files',
  dir: 'folders',
  json: 'files behind @',
}

function valuesOf(name: string, choices: readonly string[] | undefined): Values {
  return choices ? { kind: 'choices', choices } : { kind: KINDS[name] ?? 'any' }
}
