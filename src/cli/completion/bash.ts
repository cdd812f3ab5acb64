// The completion script of bash, also of the old one that macOS has.

import { quoted, type CompletedCommand, type Values } from './completed.ts'

const JOIN_WORDS = `  # What bash breaks at : and = and @ is put together again: only what has a gap before it is a word.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    last=\${COMP_WORDS[i]}
    gap=\${rest%%[![:space:]]*}
    rest=\${rest#"$gap"}
    if [[ -n $gap || $i -eq 0 ]]; then words[\${#words[@]}]=$last; else words[\${#words[@]}-1]+=$last; fi
    rest=\${rest#"$last"}
  done
`

const REPLY = `  if [[ -n $files && $prefix == *@ ]]; then
    # As names of files readline would put a backslash before the @.
    local IFS=$'\\n'
    for word in $(compgen "$files" -- "$cur"); do
      if [[ -d $word ]]; then word+=/; compopt -o nospace 2>/dev/null; fi
      COMPREPLY+=("$(printf %q "$word")")
    done
  elif [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    local IFS=$'\\n'
    COMPREPLY=($(compgen "$files" -- "$cur"))
  else
    COMPREPLY=($(compgen -W "$values" -- "$cur"))
  fi
  # What stands before the last break stays as it is, but for an @.
  if [[ $last != *[!:=]* ]]; then last=; fi
  typed=\${typed%"$last"}
  typed=\${typed%@}
  for i in "\${!COMPREPLY[@]}"; do
    word=$prefix\${COMPREPLY[i]}
    COMPREPLY[i]=\${word#"$typed"}
  done
`

/** Follows the words up to the cursor to the command, then offers what can come there. */
export function bashScript(commands: readonly CompletedCommand[]): string {
  return `# Completion of longshore in bash. Use it with: source <(longshore completion bash)
_longshore() {
  local cur last typed prefix= path= pending= many= positional=0 values= files= word gap i rest=$COMP_LINE
  local -a words=()
  COMPREPLY=()
${JOIN_WORDS}  for ((i = 1; i < \${#words[@]} - 1; i++)); do
    word=\${words[i]}
    if [[ -n $pending && ( -z $many || $word != -* ) ]]; then
      if [[ -z $many ]]; then pending=; else many=more; fi
      continue
    fi
    pending= many=
    case "$path:$word" in
${commands.flatMap(steps).join('\n')}
      *:-*) ;;
      *) positional=$((positional + 1)) ;;
    esac
  done
  cur=\${words[i]}
  typed=$cur
  if [[ -n $pending && $many == more && $cur == -* ]]; then pending=; fi
  if [[ -z $pending && $cur == --*=* ]]; then
    pending=\${cur%%=*}
    prefix=$pending=
    cur=\${cur#*=}
  fi
  if [[ -n $pending ]]; then
    case "$path:$pending" in
${commands.flatMap(optionValues).join('\n')}
      *) return ;;
    esac
    if [[ $files == @* ]]; then
      if [[ $cur != @* ]]; then return; fi
      prefix+=@ cur=\${cur#@} files=\${files#@}
    fi
  else
    if [[ $cur != -* ]]; then
      case "$path:$positional" in
${commands.flatMap(positionalValues).join('\n')}
      esac
    fi
    if [[ -z $values$files ]]; then
      case "$path" in
${commands.map(flags).join('\n')}
      esac
    fi
  fi
${REPLY}}
complete -F _longshore longshore
`
}

function steps({ path, commands, options }: CompletedCommand): string[] {
  const at = path.join(' ')
  const down = commands.map(
    ({ name }) =>
      `      ${quoted(`${at}:${name}`)}) path=${quoted([...path, name].join(' '))} positional=0 ;;`,
  )
  const taking = (isMany: boolean, act: string): string[] => {
    const names = options.filter(({ value }) => value?.isMany === isMany).flatMap((option) => option.names)
    return names.length > 0
      ? [`      ${names.map((name) => quoted(`${at}:${name}`)).join(' | ')}) ${act} ;;`]
      : []
  }
  return [...down, ...taking(false, 'pending=$word'), ...taking(true, 'pending=$word many=first')]
}

function optionValues({ path, options }: CompletedCommand): string[] {
  return options.flatMap(({ names, value }) => {
    const act = value && offer(value.values)
    return act === undefined
      ? []
      : names.map((name) => `      ${quoted(`${path.join(' ')}:${name}`)}) ${act} ;;`)
  })
}

function positionalValues({ path, commands, positionals }: CompletedCommand): string[] {
  const at = path.join(' ')
  const names = commands.map(({ name }) => name)
  const first = names.length > 0 ? [`        ${quoted(`${at}:0`)}) values=${quoted(names.join(' '))} ;;`] : []
  const others = positionals.flatMap(({ values }, index) => {
    const act = offer(values)
    return act === undefined ? [] : [`        ${quoted(`${at}:${index}`)}) ${act} ;;`]
  })
  return [...first, ...others]
}

function flags({ path, options }: CompletedCommand): string {
  const names = options.flatMap((option) => option.names.filter((name) => name.startsWith('--')))
  return `        ${quoted(path.join(' '))}) values=${quoted(names.join(' '))} ;;`
}

function offer(values: Values): string | undefined {
  switch (values.kind) {
    case 'choices':
      return `values=${quoted(values.choices.join(' '))}`
    case 'files':
      return 'files=-f'
    case 'folders':
      return 'files=-d'
    case 'files behind @':
      return 'files=@-f'
    case 'any':
      return undefined
    default:
      return values satisfies never
  }
}
