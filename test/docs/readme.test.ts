import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { allPages, readPage, shownCommands } from './markdown.ts'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const known = new Map(commandsBelow().map((words) => [words.join(' '), describeCommand(words)]))

const pagesWithCommands = allPages().filter((page) => shownCommands(page).length > 0)

describe.each(pagesWithCommands)('$path', (page) => {
  const shown = shownCommands(page).map(withSubcommand)

  it('shows only longshore commands that exist', () => {
    expect(shown.filter((words) => !exists(words)).map(([command]) => command)).toEqual([])
  })

  it('shows them with options that they have, and values where they need one', () => {
    expect(shown.flatMap(([command, ...words]) => problemsOf(command ?? '', words))).toEqual([])
  })
})

describe('README.md', () => {
  it('names the demo and the tests by the commands that run them', () => {
    const { text } = readPage('README.md')
    expect(text).toContain('npm ci && npm run demo')
    expect(text).toContain('npm ci && npm test')
  })

  it('shows npm scripts that exist', () => {
    const starters = readdirSync(new URL('../../templates', import.meta.url))
    const scripts = ['.', ...starters.map((name) => `templates/${name}`)].flatMap(scriptsOf)
    const shown = allPages().flatMap(({ text }) =>
      [...text.matchAll(/npm run ([a-z][a-z0-9:-]*)/g)].map((match) => match[1] ?? ''),
    )
    expect(shown.filter((name) => !scripts.includes(name))).toEqual([])
  })
})

describe('docs/configuration.md', () => {
  it('describes every option of every command, and no other', () => {
    const { text } = readPage('docs/configuration.md')
    const described = new Set([...text.matchAll(/^\| `(--[a-z_-]+)/gm)].map((match) => match[1]))
    const all = [...known.values()].flatMap(({ options }) => [...options.keys()])
    expect(described).toEqual(new Set(all.filter((name) => name.startsWith('--') && name !== '--help')))
  })
})

function scriptsOf(dir: string): string[] {
  const manifest = readFileSync(new URL(`../../${dir}/package.json`, import.meta.url), 'utf8')
  return Object.keys((JSON.parse(manifest) as { scripts: object }).scripts)
}

interface KnownCommand {
  /** Whether the option takes a value. */
  options: Map<string, boolean>
  mostArguments: number
}

/** The words of every command, those of a command of commands with it. */
function commandsBelow(words: readonly string[] = []): string[][] {
  const below = namesUnder('Commands:', help(words)).filter((name) => name !== 'help')
  if (below.length === 0) return [[...words]]
  return below.flatMap((name) => commandsBelow([...words, name]))
}

/** A command of commands may be named alone. */
function exists([command = '', ...words]: readonly string[]): boolean {
  if (known.has(command)) return true
  return words.length === 0 && [...known.keys()].some((name) => name.startsWith(`${command} `))
}

function withSubcommand(shown: readonly string[]): string[] {
  const [command = '', next = '', ...words] = shown
  return known.has(`${command} ${next}`) ? [`${command} ${next}`, ...words] : [...shown]
}

function help(command: readonly string[] = []): string {
  return execFileSync(process.execPath, [main, ...command, '--help'], {
    encoding: 'utf8',
    env: { ...process.env, COLUMNS: '200' },
  })
}

function describeCommand(words: readonly string[]): KnownCommand {
  const text = help(words)
  const options = [...text.matchAll(/^ {2}(?:(-\w), )?(--[a-z_-]+)( <[\w.]+>)?/gm)]
  return {
    options: new Map(
      options.flatMap(([, short, long = '', value]) =>
        [short, long].flatMap((name) => (name === undefined ? [] : [[name, value !== undefined] as const])),
      ),
    ),
    mostArguments: namesUnder('Arguments:', text).length,
  }
}

/** The first words of the lines below a title of a help text. */
function namesUnder(title: string, text: string): string[] {
  const section = text.split(`${title}\n`)[1]?.split('\n\n')[0] ?? ''
  return [...section.matchAll(/^ {2}(\w[\w-]*)/gm)].map((match) => match[1] ?? '')
}

function problemsOf(command: string, words: readonly string[]): string[] {
  const { options, mostArguments } = known.get(command) ?? {
    options: new Map<string, boolean>(),
    mostArguments: 0,
  }
  const problems: string[] = []
  let positional = 0
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? ''
    if (!word.startsWith('-')) {
      positional += 1
      continue
    }
    const name = word.split('=')[0] ?? word
    if (!options.has(name)) problems.push(`${command} has no option ${name}`)
    else if (options.get(name) && !word.includes('=')) {
      at += 1
      if (words[at] === undefined) problems.push(`${command} ${name} needs a value`)
    }
  }
  if (positional > mostArguments)
    problems.push(`${command} takes ${mostArguments} arguments, got ${words.join(' ')}`)
  return problems
}
