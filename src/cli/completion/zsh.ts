// The completion script of zsh.

import { quoted, type CompletedCommand, type CompletedOption, type Values } from './completed.ts'

/** A function per command; those that have others below them go on to theirs. */
export function zshScript(commands: readonly CompletedCommand[]): string {
  return `#compdef longshore
# Completion of longshore in zsh. Use it with: source <(longshore completion zsh), after compinit
# Puts the words into kept, of the values of the flags that take many only the last: _arguments would not know the others.
_longshore_only_one() {
  local word many= i
  for ((i = 1; i <= CURRENT; i++)); do
    word=$words[i]
    if [[ -n $many && $word != -* && $kept[-1] != -* ]]; then kept[-1]=$word; continue; fi
    if [[ $word == -* ]]; then many=\${argv[(r)\${word%%=*}]}; fi
    if [[ -n $many && $word == *=* && $i -lt $CURRENT ]]; then kept+=("\${word%%=*}" "\${word#*=}")
    else kept+=("$word"); fi
  done
}
${commands.map(functionOf).join('\n')}
if [[ $funcstack[1] == _longshore ]]; then
  _longshore "$@"
else
  compdef _longshore longshore
fi
`
}

function functionOf({ path, commands, options, positionals }: CompletedCommand): string {
  const specs = options.flatMap(optionSpecs)
  if (commands.length === 0) {
    const places = positionals.map(({ name, values }, index) =>
      quoted(`${index + 1}:${name}:${action(values)}`),
    )
    const many = options.filter(({ value }) => value?.isMany).flatMap(({ names }) => names)
    // Where a function ends zsh takes back what it has set of these two: so they are set here.
    const onlyOne = `  local -a kept=()
  _longshore_only_one ${many.join(' ')}
  words=("\${kept[@]}" "\${(@)words[CURRENT+1,-1]}")
  CURRENT=$#kept
`
    return `${nameOf(path)}() {\n${many.length > 0 ? onlyOne : ''}  _arguments -s ${[...specs, ...places].join(' \\\n    ')}\n}`
  }
  const offered = commands.map(({ name, description }) =>
    quoted(`${name}:${description.replaceAll(':', '\\:')}`),
  )
  const branches = commands.map(({ name }) => `      ${name}) ${nameOf([...path, name])} ;;`)
  return `${nameOf(path)}() {
  local curcontext="$curcontext" state line
  local -a commands=(${offered.join(' ')})
  _arguments -C ${specs.join(' \\\n    ')} '1: :->command' '*:: :->rest'
  case $state in
    command) _describe command commands ;;
    rest)
      case $words[1] in
${branches.join('\n')}
      esac
      ;;
  esac
}`
}

function nameOf(path: readonly string[]): string {
  return ['_longshore', ...path].join('_').replaceAll('-', '_')
}

function optionSpecs({ names, description, value }: CompletedOption): string[] {
  const told = `[${description.replaceAll(/[[\]\\]/g, String.raw`\$&`)}]`
  const taken = value ? `:${value.name}:${action(value.values)}` : ''
  return names.map((name) => quoted(`${name}${value && name.startsWith('--') ? '=' : ''}${told}${taken}`))
}

function action(values: Values): string {
  switch (values.kind) {
    case 'choices':
      return `(${values.choices.join(' ')})`
    case 'files':
      return '_files'
    case 'folders':
      return '_files -/'
    case 'files behind @':
      return '{ compset -P @ && _files }'
    case 'any':
      return ' '
    default:
      return values satisfies never
  }
}
