import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { configured } from '../../src/config/setting.ts'
import { permissions } from '../../src/resource/key.ts'
import { isInstalled } from '../support/daemons.ts'
import { longshore, main, temporaryDir } from '../support/processes.ts'

const scripts: Record<string, string> = {}

beforeAll(() => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    scripts[shell] = execFileSync(process.execPath, [main, 'completion', shell], { encoding: 'utf8' })
  }
})

/** A folder with the script of a shell, and things to complete. */
function folder(shell: string): string {
  const dir = temporaryDir()
  writeFileSync(join(dir, 'script'), scripts[shell]!)
  writeFileSync(join(dir, 'my handler.ts'), '')
  mkdirSync(join(dir, 'my folder'))
  return dir
}

/** Where a shell is missing its tests are skipped, except in CI. */
function isMissing(shell: string): boolean {
  return !isInstalled(shell) && process.env['CI'] !== 'true'
}

/** What is offered where the cursor stands at the end of a line. It breaks its words as bash does. */
function offeredByBash(...words: string[]): string[] {
  const complete =
    'source ./script; COMP_LINE=$1; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _longshore; printf "%s\\n" "${COMPREPLY[@]}"'
  const parts = words.flatMap((word) => (word === '' ? [''] : (word.match(/[:=]+|@|[^:=@]+/g) ?? [])))
  const args = ['--norc', '-c', complete, 'bash', ['longshore', ...words].join(' '), 'longshore', ...parts]
  return execFileSync('bash', args, { cwd: folder('bash'), encoding: 'utf8' })
    .split('\n')
    .filter(Boolean)
}

describe('the script of bash', () => {
  it('completes commands, also those below one', () => {
    expect(offeredByBash('s')).toEqual(['serve', 'start'])
    expect(offeredByBash('keys', '')).toEqual(['create', 'list', 'revoke'])
    expect(offeredByBash('nonsense', 's')).toEqual([])
  })

  it('completes the flags of the command that is typed, and no other', () => {
    expect(offeredByBash('serve', '--po')).toEqual(['--port', '--pod-url'])
    expect(offeredByBash('start', '--p')).toEqual([])
    expect(offeredByBash('keys', 'create', '--')).toEqual([
      '--store',
      '--redis-wait',
      '--config',
      '--name',
      '--endpoint',
      '--allow',
      '--help',
    ])
    expect(offeredByBash('serve', '--host', 'start', '--re')).toEqual([
      '--requests-per-worker',
      '--redis-wait',
    ])
  })

  it('completes values that are one of a few, also behind =', () => {
    expect(offeredByBash('start', 'h.ts', '--spare', '')).toEqual(['none', 'bare', 'warm'])
    expect(offeredByBash('start', '--spare=')).toEqual(['none', 'bare', 'warm'])
    expect(offeredByBash('start', '--spare=w')).toEqual(['warm'])
    expect(offeredByBash('completion', '')).toEqual(['bash', 'zsh', 'fish'])
    expect(offeredByBash('serve', '--port', '')).toEqual([])
  })

  // Bash breaks words at : and = and @, and nothing was offered behind a value with one of them.
  it('goes on behind values with a colon', () => {
    expect(offeredByBash('dev', '--store', 'sqlite:q.db', 'my')).toEqual(['my handler.ts', 'my folder'])
    expect(offeredByBash('serve', '--store=redis://me@h:1/0', '--por')).toEqual(['--port'])
    const url = 'http://127.0.0.1:8000/v2/x'
    expect(offeredByBash('start', '--endpoint-url', url, 'my')).toEqual(['my handler.ts', 'my folder'])
    expect(offeredByBash('build', '--tag', 'a:b', 'my')).toEqual(['my handler.ts', 'my folder'])
  })

  it('completes every value of those that take many, and goes on with flags behind them', () => {
    expect(offeredByBash('keys', 'create', '--allow', 'read', 'wr')).toEqual(['write'])
    expect(offeredByBash('keys', 'create', '--allow', 'read', '--na')).toEqual(['--name'])
    expect(offeredByBash('serve', '--endpoint', 'a', 'b', '--por')).toEqual(['--port'])
    expect(offeredByBash('build', '--include', 'x', 'my')).toEqual(['my handler.ts', 'my folder'])
  })

  it('completes the file of a job behind its @', () => {
    expect(offeredByBash('run', '--test-input', '@my h')).toEqual(['@my\\ handler.ts'])
    expect(offeredByBash('run', '--test-input=@my f')).toEqual(['@my\\ folder/'])
    expect(offeredByBash('run', '--test-input', 'my')).toEqual([])
  })

  it('completes what the commands themselves judge, and the commands there is help of', () => {
    const templates = readdirSync(new URL('../../templates', import.meta.url)).toSorted()
    expect(offeredByBash('init', '')).toEqual(templates)
    expect(offeredByBash('keys', 'create', '--allow', '')).toEqual([...permissions])
    expect(offeredByBash('he')).toEqual(['help'])
    expect(offeredByBash('help', 's')).toEqual(['serve', 'start'])
  })

  it('completes files where a file belongs, whatever is in their names', () => {
    expect(offeredByBash('start', 'my')).toEqual(['my handler.ts', 'my folder'])
    expect(offeredByBash('serve', '--config', 'my h')).toEqual(['my handler.ts'])
    expect(offeredByBash('serve', 'my')).toEqual([])
    expect(offeredByBash('init', 'hello', 'my')).toEqual(['my folder'])
  })
})

describe.skipIf(isMissing('fish'))('the script of fish', () => {
  const offered = (line: string): string[] =>
    execFileSync('fish', ['--no-config', '-c', 'source ./script; complete -C $argv[1]', line], {
      cwd: folder('fish'),
      encoding: 'utf8',
    })
      .split('\n')
      .filter(Boolean)
      .map((one) => one.split('\t', 1)[0]!)

  it('completes commands, flags, values and files', () => {
    expect(offered('longshore s')).toEqual(['serve', 'start'])
    expect(offered('longshore keys ')).toEqual(['create', 'list', 'revoke'])
    expect(offered('longshore serve --po')).toEqual(['--pod-url', '--port'])
    expect(offered('longshore start --p')).toEqual([])
    expect(offered('longshore start --spare ').toSorted()).toEqual(['bare', 'none', 'warm'])
    expect(offered('longshore config ').toSorted()).toEqual([...configured].toSorted())
    expect(offered('longshore serve --port ')).toEqual([])
    expect(offered('longshore help s')).toEqual(['serve', 'start'])
    expect(offered('longshore start my\\ h')).toEqual(['my handler.ts'])
    expect(offered('longshore build --include my\\ h')).toEqual(['my handler.ts'])
    expect(offered('longshore run --test-input @my')).toEqual(['@my folder/', '@my handler.ts'])
    expect(offered('longshore run --test-input my')).toEqual([])
  })
})

describe.skipIf(isMissing('zsh'))('the script of zsh', () => {
  /** The line as it is after a press of the completing key, in a zsh on a terminal of its own. */
  function completed(line: string): string {
    const driver = `
      zmodload zsh/zpty
      zpty shell zsh -f -i
      zpty -w shell 'PROMPT=; autoload -Uz compinit; compinit -u -D; source ./script; show() { zle complete-word; print -r "GOT<$BUFFER>" }; zle -N show; bindkey "^T" show; echo REA""DY'
      zpty -r shell out '*READY*'
      zpty -w -n shell "$1"$'\\C-t'
      zpty -r shell out '*GOT<*>*'
      print -r -- "$out"
      zpty -d shell`
    const said = execFileSync('zsh', ['-f', '-c', driver, 'zsh', line], {
      cwd: folder('zsh'),
      encoding: 'utf8',
      timeout: 20_000,
    })
    return /GOT<(.*?)>/s.exec(said)?.[1] ?? said
  }

  it('completes commands, flags, values and files', () => {
    expect(completed('longshore ke')).toBe('longshore keys ')
    expect(completed('longshore keys rev')).toBe('longshore keys revoke ')
    expect(completed('longshore serve --por')).toBe('longshore serve --port=')
    expect(completed('longshore start --spare wa')).toBe('longshore start --spare warm ')
    expect(completed('longshore start my\\ h')).toBe('longshore start my\\ handler.ts ')
    expect(completed('longshore run --test-input @my\\ h')).toBe(
      'longshore run --test-input @my\\ handler.ts ',
    )
  })

  it('completes every value of those that take many, and goes on with flags behind them', () => {
    expect(completed('longshore keys create --allow read wr')).toBe(
      'longshore keys create --allow read write ',
    )
    expect(completed('longshore serve --endpoint a b --por')).toBe('longshore serve --endpoint a b --port=')
    expect(completed('longshore build --include x my\\ h')).toBe(
      'longshore build --include x my\\ handler.ts ',
    )
  })
})

it('names the shells that there is a script for', async () => {
  const child = longshore(['completion', 'tcsh'])
  expect(await child.exit).toBe(1)
  expect(child.stderr).toContain('Allowed choices are bash, zsh, fish')
})
