import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { longshore, main } from '../support/processes.ts'

function help(words: readonly string[]): string {
  return execFileSync(process.execPath, [main, ...words, '--help'], { encoding: 'utf8' })
}

/** Every command there is, those of a command of commands with it. */
function commandsBelow(words: readonly string[] = []): string[][] {
  const section = help(words).split('Commands:\n')[1]?.split('\n\n')[0] ?? ''
  const names = [...section.matchAll(/^ {2}(\w[\w-]*)/gm)]
    .map((match) => match[1]!)
    .filter((name) => name !== 'help')
  return names.flatMap((name) => [[...words, name], ...commandsBelow([...words, name])])
}

const commands = commandsBelow()

it('has an example of what comes first', () => {
  expect(help([])).toMatch(/\nExample:\n {2}longshore init hello/)
})

it('is silent where nobody reads on', () => {
  const line = `exec 3>&1; { '${process.execPath}' '${main}' dev --help 2>&3; echo "exit $?" >&3; } | true`
  // The reader is gone before a word is written.
  const said = execFileSync('bash', ['-c', line], { encoding: 'utf8' })
  expect(said).not.toMatch(/EPIPE|^ {4}at /m)
  expect(said).toContain('exit 0')
})

it('finds the commands', () => {
  expect(commands).toContainEqual(['serve'])
  expect(commands).toContainEqual(['keys', 'create'])
})

it.each([
  [['pods', 'strat', 'x'], "'strat' is no command of longshore pods. Did you mean start?"],
  [['endpoints', 'ls'], "'ls' is no command of longshore endpoints. Choose one of list, show, delete."],
])('says which command of commands was meant: %j', async (words, said) => {
  const process = longshore(words)
  expect(await process.exit).toBe(1)
  expect(process.stderr).toContain(`error: ${said}\n`)
})

describe.each(commands.map((words) => [words.join(' '), words] as const))(
  'longshore %s --help',
  (name, words) => {
    it('ends with an example of itself', () => {
      const example = /\nExamples?:\n([\s\S]+)$/.exec(help(words))?.[1]
      expect(example).toContain(`longshore ${name}`)
    })
  },
)
