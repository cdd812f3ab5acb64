// The completion script of fish.

import { quoted, type CompletedCommand, type CompletedOption, type Values } from './completed.ts'

/** Lines of `complete`, each for the command that the first words are. */
export function fishScript(commands: readonly CompletedCommand[]): string {
  return `# Completion of longshore in fish. Use it with: longshore completion fish | source
function __longshore_at
    set -l words (commandline -opc)
    set -l path longshore $argv
    set words[1] longshore
    string match -q -- "$path *" "$words "
end
function __longshore_only
    set -l words (commandline -opc)
    set -l path longshore $argv
    set words[1] longshore
    test "$words" = "$path"
end
function __longshore_jobs
    set -l token (commandline -ct)
    string match -q -- '*@*' $token; or return
    set -l part (string replace -r -- '^[^@]*@' '' $token)
    for found in $part*
        test -d $found; and set found $found/
        echo "@$found"
    end
end
complete -c longshore -f
${commands.flatMap(linesOf).join('\n')}
`
}

function linesOf({ path, commands, options, positionals }: CompletedCommand): string[] {
  const only = condition('only', path)
  const at = commands.length > 0 ? only : condition('at', path)
  return [
    ...commands.map(
      ({ name, description }) =>
        `complete -c longshore -n ${only} -a ${name} -d ${quotedForFish(description)}`,
    ),
    ...options.map((option) => `complete -c longshore -n ${at} ${optionWords(option)}`),
    // All are offered at any place: files among a few words would bury them.
    ...positionals
      .filter(
        ({ values }, index) =>
          values.kind !== 'any' &&
          (index === 0 || positionals[0]?.values.kind !== 'choices' || values.kind === 'choices'),
      )
      .map(({ values }) => `complete -c longshore -n ${at}${offer(values)}`),
  ]
}

function condition(name: 'at' | 'only', path: readonly string[]): string {
  return quoted([`__longshore_${name}`, ...path].join(' '))
}

function optionWords({ names, description, value }: CompletedOption): string {
  const words = names.map((name) => (name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`))
  if (value) words.push(`-r${offer(value.values)}`)
  return [...words, `-d ${quotedForFish(description)}`].join(' ')
}

function offer(values: Values): string {
  switch (values.kind) {
    case 'choices':
      return ` -f -a ${quotedForFish(values.choices.join(' '))}`
    case 'files':
      return ' -F'
    case 'folders':
      return " -f -a '(__fish_complete_directories)'"
    case 'files behind @':
      return " -f -a '(__longshore_jobs)'"
    case 'any':
      // Elsewhere fish would offer files.
      return ' -f'
    default:
      return values satisfies never
  }
}

function quotedForFish(text: string): string {
  return `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`
}
